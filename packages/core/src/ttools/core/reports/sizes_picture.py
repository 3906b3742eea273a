"""What is known of sizes as a picture: a bar for each kernel and size over a logarithmic axis.

Owns which part of a bar is what, and where it lies. Must not know how a page draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ttools.core.location import shown_path
from ttools.core.reports.sizes import KernelSizes, Unproved, point_text, ranges_text

WIDTH = 900
_LEFT, _RIGHT = 10, 890
_ROW, _BAR, _AXIS = 40, 14, 28
#: Above which texts would touch.
_MOST_TICKS = 7
#: So that a size of one value is seen.
_LEAST_WIDTH = 3.0


@dataclass(frozen=True)
class Part:
    """A part of a bar.

    Attributes:
        kind: what is known of it; `failing` from the first failing size on.
        x: where it begins.
        width: as it is drawn.
        title: what is known, in words.
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
    """All bars, the marks of their axis as position and text, and what they say as text."""

    height: int
    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]
    texts: tuple[str, ...]
    width: int = WIDTH
    bar: int = _BAR


class _Axis:
    """A logarithmic axis on which 0 lies where 1 does."""

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
        """A part from one size to another, both included."""
        x, end = self.at(low), min(_RIGHT, self.at(high + 1))
        width = max(_LEAST_WIDTH, end - x)
        return Part(kind, min(x, _RIGHT - width), width, title)  # type: ignore[arg-type]


def picture(kernels: Sequence[KernelSizes], root: Path) -> Picture | None:
    """The picture of what is known of kernels; None where there is no size.

    Args:
        root: paths are shown relative to it.
    """
    ends = [end for each in kernels for end in each.checked.values()]
    if not ends:
        return None
    axis = _Axis(min(low for low, _ in ends), max(high for _, high in ends))
    rows: list[Row] = []
    texts: list[str] = []
    for each in kernels:
        texts.append(_text(each, root))
        for name in each.checked:
            y = len(rows) * _ROW
            rows.append(Row(y, f"{each.kernel}: {name}", tuple(_parts(each, name, axis, root))))
    height = len(rows) * _ROW + _AXIS
    return Picture(height, tuple(rows), tuple(axis.ticks()), tuple(texts))


def _parts(known: KernelSizes, name: str, axis: _Axis, root: Path) -> Iterator[Part]:
    low, high = known.checked[name]
    first = None if known.failing is None else known.failing[name]
    last = high if first is None else first - 1
    others = len(known.checked) > 1
    if low <= last and (first is None or known.is_least):
        title = f"proved for {ranges_text({name: (low, last)})}"
        if first is not None and others:
            title += ", the other sizes being those of the failure"
        yield axis.part("proved", low, last, title)
    elif low <= last:
        title = f"not known for {ranges_text({name: (low, last)})}: smaller sizes may fail, too"
        yield axis.part("unproved", low, last, title)
    if first is not None:
        yield axis.part("failing", first, high, "nothing is claimed from the failing size on")
    reasons: dict[tuple[int, int], list[str]] = {}
    for each in known.unproved:
        begin, end = each.sizes.get(name, (low, high))
        if first is not None and not others:
            end = min(end, first - 1)
        if begin <= end:
            reasons.setdefault((begin, end), []).append(_reason(each, root))
    for (begin, end), texts in reasons.items():
        title = f"not proved for {ranges_text({name: (begin, end)})}: {'; '.join(texts)}"
        yield axis.part("unproved", begin, end, title)
    if known.failing is not None and first is not None:
        title = f"{'first' if known.is_least else 'a'} failing size: {point_text(known.failing)}"
        yield axis.part("first", first, first, f"{title}: {known.failure}")


def _reason(each: Unproved, root: Path) -> str:
    where = "" if each.file is None else f" ({shown_path(each.file, root)}:{each.line})"
    return f"{each.reason}{where}"


def _text(known: KernelSizes, root: Path) -> str:
    """What the bars of a kernel say."""
    texts = []
    if known.failing is not None:
        what = "first failing size" if known.is_least else "a failing size"
        texts.append(f"{what} {point_text(known.failing)}: {known.failure}")
    texts += [f"not proved: {_reason(each, root)}" for each in known.unproved]
    return f"{known.kernel}: {'; '.join(texts) or f'proved for {ranges_text(known.checked)}'}"
