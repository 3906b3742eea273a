"""The verdict on sizes as a picture: a bar per kernel and size on a logarithmic axis.

A template draws the bars computed here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ttools.core.reports.sizes import KernelSizes, Unproved, point_text, ranges_text, relations_text

WIDTH = 900
_LEFT, _RIGHT = 10, 890
_ROW, _BAR, _AXIS = 40, 14, 28
#: Maximum number of ticks without overlapping labels.
_MOST_TICKS = 7
#: Minimum width of a part of a bar, so that a single value is visible.
_LEAST_WIDTH = 3.0


@dataclass(frozen=True)
class Part:
    """A part of a bar.

    Attributes:
        kind: Verdict on this part; `failing` from the first failing size on.
        x: Left end in the picture.
        width: Width in the picture.
        title: Description of the verdict.
    """

    kind: Literal["proved", "unproved", "failing", "first"]
    x: float
    width: float
    title: str


@dataclass(frozen=True)
class Row:
    """The bar of one size of a kernel."""

    y: int
    label: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Picture:
    """All bars, and the ticks of their axis as position and label."""

    height: int
    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]
    width: int = WIDTH
    bar: int = _BAR


class _Axis:
    """A logarithmic axis on which 0 has the position of 1."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = max(1, low), max(2, low + 1, high)

    def at(self, size: int) -> float:
        share = math.log(max(size, self.low) / self.low) / math.log(self.high / self.low)
        return _LEFT + share * (_RIGHT - _LEFT)

    def ticks(self) -> Iterator[tuple[float, str]]:
        powers = range(math.ceil(math.log10(self.low)), int(math.log10(self.high)) + 1)
        for power in powers[:: 1 + len(powers) // _MOST_TICKS]:
            size = 10**power
            if self.low <= size <= self.high:
                yield self.at(size), f"{size:,}"

    def part(self, kind: str, low: int, high: int, title: str) -> Part:
        """Return a part from one size to another, both included."""
        x, end = self.at(low), min(_RIGHT, self.at(high + 1))
        width = max(_LEAST_WIDTH, end - x)
        return Part(kind, min(x, _RIGHT - width), width, title)  # type: ignore[arg-type]


def picture(kernels: Sequence[KernelSizes], root: Path) -> Picture | None:
    """Return the picture for the given kernels; None if there is no size.

    Args:
        root: Folder that displayed paths are relative to.
    """
    ends = [end for kernel in kernels for end in kernel.checked.values()]
    if not ends:
        return None
    axis = _Axis(min(low for low, _ in ends), max(high for _, high in ends))
    rows: list[Row] = []
    for kernel in kernels:
        for name in kernel.checked:
            y = len(rows) * _ROW
            rows.append(Row(y, f"{kernel.kernel}: {name}", tuple(_parts(kernel, name, axis, root))))
    height = len(rows) * _ROW + _AXIS
    return Picture(height, tuple(rows), tuple(axis.ticks()))


def _parts(verdict: KernelSizes, name: str, axis: _Axis, root: Path) -> Iterator[Part]:
    low, high = verdict.checked[name]
    first = None if verdict.failing is None else verdict.failing[name]
    last = high if first is None else first - 1
    others = len(verdict.checked) > 1
    if low <= last and (first is None or verdict.is_least):
        related = relations_text(verdict.relations)
        title = f"proved for {ranges_text({name: (low, last)})}{related}"
        if first is not None and others:
            title += ", with the other sizes as in the failure"
        yield axis.part("proved", low, last, title)
    elif low <= last:
        title = f"not known for {ranges_text({name: (low, last)})}: smaller sizes may fail, too"
        yield axis.part("unproved", low, last, title)
    if first is not None:
        yield axis.part(
            "failing", first, high, "no claim is made for the failing size or larger sizes"
        )
    reasons: dict[tuple[int, int], list[str]] = {}
    for unproved in verdict.unproved:
        begin, end = unproved.sizes.get(name, (low, high))
        if first is not None and not others:
            end = min(end, first - 1)
        if begin <= end:
            reasons.setdefault((begin, end), []).append(_reason(unproved, root))
    for (begin, end), texts in reasons.items():
        title = f"not proved for {ranges_text({name: (begin, end)})}: {'; '.join(texts)}"
        yield axis.part("unproved", begin, end, title)
    if verdict.failing is not None and first is not None:
        title = (
            f"{'first' if verdict.is_least else 'a'} failing size: {point_text(verdict.failing)}"
        )
        yield axis.part("first", first, first, f"{title}: {verdict.failure}")


def _reason(unproved: Unproved, root: Path) -> str:
    place = unproved.place(root)
    return f"{unproved.reason} ({place})" if place else unproved.reason
