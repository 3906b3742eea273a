"""What has become dearer than a lock of kernels' costs says.

A specialisation is compared with itself. Where a commit changes how a kernel is specialised
(another block size, one more parameter, other warps), the projected times of what is new are
compared in sum with those of what is gone. Owns what is compared with what, and what a regression
is. Must not know how figures are found.
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

#: Figures of which less is worse.
_LESS_IS_WORSE = frozenset({"occupancy", "matrix instructions"})
_UNITS = {PROJECTED: " us"}
Lines = Mapping[SourceLocation, float]
_Item = TypeVar("_Item")


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A figure that grew, or fell, beyond its limit.

    Attributes:
        kernel: its name; several where others were in their place.
        before: as locked.
        now: as compiled.
        beside: figures that do not decide and are beyond their limits, too, as text.
        location: the line that is to blame, as far as instructions tell.
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
class Found:
    """A compilation as it is now.

    Attributes:
        entry: what it costs.
        lines: what each line has of a figure, by the figure's name.
        instructions: of each line.
    """

    entry: Entry
    lines: Mapping[str, Lines] = field(default_factory=dict)
    instructions: Lines = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a check found.

    Attributes:
        regressions: what has become dearer.
        compared: how many compilations were compared.
        unknown: those of which the lock has nothing to compare them with.
    """

    regressions: list[Regression]
    compared: int
    unknown: list[Entry]


@dataclass(frozen=True)
class _Pair:
    """Locked entries and compilations that are compared in sum; mostly one of each."""

    before: Sequence[Entry]
    now: Sequence[Found]


def found(inspection: Inspection, costs: RunCosts | None = None) -> Found:
    """A compiled kernel as it is compared, with its launches where they were counted."""
    by_line = instructions_by_line(inspection)
    return Found(
        entry=entry_of(inspection, costs),
        lines={} if costs is None else costs.lines,
        instructions={at: n for at, n in by_line.items() if at is not None},
    )


def compare(lock: Lock, now: Iterable[Found]) -> Comparison:
    """What has become dearer than locked, by entries of the installed Triton."""
    triton = installed_triton()
    before = [each for each in lock.kernels if each.triton == triton]
    regressions: list[Regression] = []
    unknown: list[Entry] = []
    compared = 0
    for pair in _pairs(before, list(now)):
        same = pair.before and pair.before[0].key == pair.now[0].entry.key
        timed = PROJECTED in lock.limits and _is_timed(pair)
        if timed or same:
            compared += len(pair.now)
            regressions += _regressions(pair, lock.limits, timed)
        else:
            unknown += [each.entry for each in pair.now]
    return Comparison(regressions=regressions, compared=compared, unknown=unknown)


def _pairs(before: Sequence[Entry], now: Sequence[Found]) -> Iterator[_Pair]:
    """By specialisation; of what is left, by kernel; of what is left then, by target."""
    ways: tuple[Callable[[Entry], Hashable], ...] = (
        lambda entry: entry.key,
        lambda entry: entry.place,
        lambda entry: entry.target,
    )
    for way in ways:
        old = _grouped((way(each), each) for each in before)
        new = _grouped((way(each.entry), each) for each in now)
        yield from (_Pair(old[key], new[key]) for key in new if key in old)
        before = [each for each in before if way(each) not in new]
        now = [each for each in now if way(each.entry) not in old]
    yield from (_Pair((), (each,)) for each in now)


def _grouped(items: Iterable[tuple[Hashable, _Item]]) -> dict[Hashable, list[_Item]]:
    groups: dict[Hashable, list[_Item]] = {}
    for key, each in items:
        groups.setdefault(key, []).append(each)
    return groups


def _is_timed(pair: _Pair) -> bool:
    entries = [*pair.before, *(each.entry for each in pair.now)]
    return bool(pair.before) and all(PROJECTED in each.figures for each in entries)


def _regressions(pair: _Pair, limits: Mapping[str, float], timed: bool) -> Iterator[Regression]:
    """Of the projected time, with the other figures beside it; without a time, of each figure."""
    worse = list(_worse(pair, limits))
    shown = [each for each in worse if not timed or each[0] == PROJECTED]
    beside = tuple(_change(*each) for each in worse if each not in shown)
    for figure, before, now in shown:
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
    """Figures beyond their limits; of several compilations only times can be added up."""
    alone = len(pair.before) == len(pair.now) == 1
    for name, limit in limits.items():
        olds = [each.figures.get(name) for each in pair.before]
        news = [each.entry.figures.get(name) for each in pair.now]
        if None in olds or None in news or not (alone or name == PROJECTED):
            continue
        old, new = sum(filter(None, olds)), sum(filter(None, news))
        worse = old - new if name in _LESS_IS_WORSE else new - old
        if worse > abs(limit) * old + 1e-9:
            yield name, old, new


def _change(figure: str, before: float, now: float) -> str:
    return f"{figure} {before:g} -> {now:g}{_UNITS.get(figure, '')}"


def _names(pair: _Pair) -> str:
    new = dict.fromkeys(each.entry.kernel for each in pair.now)
    old = dict.fromkeys(each.kernel for each in pair.before)
    named = ", ".join(new)
    return named if new.keys() == old.keys() else f"{named} in the place of {', '.join(old)}"


def _cause(pair: _Pair, figure: str) -> SourceLocation | None:
    """The changed line that has most of a figure; where none has changed, the one that grew most.

    A changed line goes first: the assembler gives branches of inlined functions to later lines.
    """
    before = _sums(each.by_text(figure) for each in pair.before)
    now = _sums(each.entry.by_text(figure) for each in pair.now)
    at = _sums(each.lines.get(figure, each.instructions) for each in pair.now)

    def weight(place: SourceLocation) -> tuple[bool, float, int]:
        text = text_of(place)
        changed = text not in before and now[text] > 0
        return changed, now[text] - before.get(text, 0), -place.line

    return max(at, key=weight, default=None)


def _sums(maps: Iterable[Mapping[_Item, float]]) -> dict[_Item, float]:
    found: dict[_Item, float] = {}
    for each in maps:
        for key, value in each.items():
            found[key] = found.get(key, 0) + value
    return found
