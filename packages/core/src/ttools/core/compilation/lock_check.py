"""Finds kernels whose costs have grown since a performance baseline was written.

Each specialisation is compared with the stored entry of the same specialisation. If a commit
changes how a kernel is specialised (by its block size, a parameter or the number of warps), the
total projected time of the new specialisations is compared with that of the specialisations that no
longer exist.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import relpath
from typing import TypeVar

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.lock import (
    PROJECTED,
    Entry,
    Lock,
    RunCosts,
    entry_of,
    instructions_by_line,
    text_of,
)
from ttools.core.location import SourceLocation
from ttools.core.triton_versions.version import installed_triton

#: Figures for which a smaller value is worse.
_LESS_IS_WORSE = frozenset({"occupancy", "matrix instructions"})
_UNITS = {PROJECTED: " us"}
Lines = Mapping[SourceLocation, float]
_Item = TypeVar("_Item")


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A figure that has become worse than its limit allows.

    Attributes:
        kernel: Name of the kernel; the names of both kernels if one has replaced the other.
        before: Value in the baseline.
        now: Value of the current compilation.
        beside: Descriptions of other figures that also exceed their limits.
        location: The source line that probably causes it, according to instruction counts.
    """

    kernel: str
    target: str
    figure: str
    before: float
    now: float
    beside: tuple[str, ...] = ()
    location: SourceLocation | None = None

    def __str__(self) -> str:
        where = f"{relpath(self.location.file)}:{self.location.line}: " if self.location else ""
        more = f" ({', '.join(self.beside)})" if self.beside else ""
        change = _change(self.figure, self.before, self.now)
        return f"{where}{self.kernel} for {self.target}: {change}{more}"


@dataclass(frozen=True, kw_only=True)
class CurrentCosts:
    """The current costs of a kernel.

    Attributes:
        entry: The costs as they would be stored in the baseline.
        lines: For each figure of launches, the amount by source line.
        instructions: Number of instructions by source line.
    """

    entry: Entry
    lines: Mapping[str, Lines] = field(default_factory=dict)
    instructions: Lines = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of a check.

    Attributes:
        regressions: Figures that have become worse.
        compared: Number of compilations that were compared.
        unknown: Compilations that have no counterpart in the baseline.
    """

    regressions: list[Regression]
    compared: int
    unknown: list[Entry]


@dataclass(frozen=True)
class _Pair:
    """Stored entries and current compilations whose total costs are compared; usually one each."""

    before: Sequence[Entry]
    now: Sequence[CurrentCosts]


def current_costs(inspection: Inspection, costs: RunCosts | None = None) -> CurrentCosts:
    """Return the current costs of a kernel, with those of its launches if they were counted."""
    by_line = instructions_by_line(inspection)
    return CurrentCosts(
        entry=entry_of(inspection, costs),
        lines={} if costs is None else costs.lines,
        instructions={at: n for at, n in by_line.items() if at is not None},
    )


def compare(lock: Lock, current: Iterable[CurrentCosts]) -> Comparison:
    """Compare current costs with the entries of the installed Triton version."""
    triton = installed_triton()
    before = [entry for entry in lock.kernels if entry.triton == triton]
    regressions: list[Regression] = []
    unknown: list[Entry] = []
    compared = 0
    for pair in _pairs(before, list(current)):
        same = pair.before and pair.before[0].key == pair.now[0].entry.key
        timed = PROJECTED in lock.limits and _is_timed(pair)
        if timed or same:
            compared += len(pair.now)
            regressions += _regressions(pair, lock.limits, timed)
        else:
            unknown += [costs.entry for costs in pair.now]
    return Comparison(regressions=regressions, compared=compared, unknown=unknown)


def _pairs(before: Sequence[Entry], now: Sequence[CurrentCosts]) -> Iterator[_Pair]:
    """Pair entries with current costs by specialisation, the rest by kernel, then by target."""
    keys: tuple[Callable[[Entry], Hashable], ...] = (
        lambda entry: entry.key,
        lambda entry: entry.place,
        lambda entry: entry.target,
    )
    for key_of in keys:
        old = _grouped((key_of(item), item) for item in before)
        new = _grouped((key_of(item.entry), item) for item in now)
        yield from (_Pair(old[key], new[key]) for key in new if key in old)
        before = [item for item in before if key_of(item) not in new]
        now = [item for item in now if key_of(item.entry) not in old]
    yield from (_Pair((), (item,)) for item in now)


def _grouped(items: Iterable[tuple[Hashable, _Item]]) -> dict[Hashable, list[_Item]]:
    groups: dict[Hashable, list[_Item]] = {}
    for key, item in items:
        groups.setdefault(key, []).append(item)
    return groups


def _is_timed(pair: _Pair) -> bool:
    entries = [*pair.before, *(item.entry for item in pair.now)]
    return bool(pair.before) and all(PROJECTED in item.figures for item in entries)


def _regressions(pair: _Pair, limits: Mapping[str, float], timed: bool) -> Iterator[Regression]:
    """Yield a regression of the projected time, or of each worse figure if there are no times."""
    worse = list(_worse(pair, limits))
    decisive = [change for change in worse if not timed or change[0] == PROJECTED]
    beside = tuple(_change(*change) for change in worse if change not in decisive)
    for figure, before, now in decisive:
        yield Regression(
            kernel=_names(pair),
            target=pair.now[0].entry.target,
            figure=figure,
            before=before,
            now=now,
            beside=beside,
            location=_cause(pair, figure),
        )


def _worse(pair: _Pair, limits: Mapping[str, float]) -> Iterator[tuple[str, float, float]]:
    """Yield each figure that exceeds its limit; if compilations are summed, only projected time."""
    alone = len(pair.before) == len(pair.now) == 1
    for name, limit in limits.items():
        olds = [item.figures.get(name) for item in pair.before]
        news = [item.entry.figures.get(name) for item in pair.now]
        if None in olds or None in news or not (alone or name == PROJECTED):
            continue
        old, new = sum(filter(None, olds)), sum(filter(None, news))
        worse = old - new if name in _LESS_IS_WORSE else new - old
        if worse > abs(limit) * old + 1e-9:
            yield name, old, new


def _change(figure: str, before: float, now: float) -> str:
    return f"{figure} {before:g} -> {now:g}{_UNITS.get(figure, '')}"


def _names(pair: _Pair) -> str:
    new = dict.fromkeys(item.entry.kernel for item in pair.now)
    old = dict.fromkeys(item.kernel for item in pair.before)
    named = ", ".join(new)
    return named if new.keys() == old.keys() else f"{named} in place of {', '.join(old)}"


def _cause(pair: _Pair, figure: str) -> SourceLocation | None:
    """Return the changed line that contributes most to a figure, or else the line that grew most.

    Changed lines have priority, because the assembler attributes branches of inlined functions to
    later lines, which therefore seem to grow.
    """
    before = _sums(item.by_text(figure) for item in pair.before)
    now = _sums(item.entry.by_text(figure) for item in pair.now)
    shares = _sums(item.lines.get(figure, item.instructions) for item in pair.now)

    def weight(place: SourceLocation) -> tuple[bool, float, int]:
        text = text_of(place)
        changed = text not in before and now[text] > 0
        return changed, now[text] - before.get(text, 0), -place.line

    return max(shares, key=weight, default=None)


def _sums(maps: Iterable[Mapping[_Item, float]]) -> dict[_Item, float]:
    sums: dict[_Item, float] = {}
    for values in maps:
        for key, value in values.items():
            sums[key] = sums.get(key, 0) + value
    return sums
