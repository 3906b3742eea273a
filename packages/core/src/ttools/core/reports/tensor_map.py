"""Folds the accesses of programs to a tensor into at most `ROWS` times `COLUMNS` cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttools.core.ranges import ranges
from ttools.core.spec import ArgumentSpec

ROWS = 64
COLUMNS = 512
#: Values of cells other than program ids.
UNTOUCHED, SHARED, COLLISION = -1, -2, -3
_PROGRAMS_NAMED = 8
#: Number of (cell, program) pairs processed together.
_CELLS_AT_ONCE = 1 << 20

Ints: TypeAlias = NDArray[np.int64]
#: An array of `TOUCH`.
Touches: TypeAlias = NDArray[np.void]

TOUCH = np.dtype(
    [("start", np.int64), ("stop", np.int64), ("program", np.int64), ("writes", np.bool_)]
)
"""Elements `start` to `stop` (exclusive) of a storage, the linear id of the accessing program, and
whether it wrote them. Atomically written elements count as read."""


@dataclass(frozen=True, kw_only=True)
class TensorMap:
    """The accesses to one argument's storage in the launches of one kernel.

    Attributes:
        elements: Number of elements of the storage.
        elements_per_cell: Number of elements per cell; the last cell may have fewer.
        cells: Content of each cell, row by row in the order of the elements: a program's linear id,
            `UNTOUCHED`, `SHARED` (several programs, which at most read the same elements) or
            `COLLISION` (several programs access an element and one of them writes it).
        sharers: The first few programs of each `SHARED` or `COLLISION` cell, by the cell's index in
            row-major order.
    """

    kernel: str
    argument: ArgumentSpec
    elements: int
    elements_per_cell: int
    cells: tuple[tuple[int, ...], ...]
    sharers: dict[int, tuple[int, ...]] = field(default_factory=dict, hash=False)

    @property
    def collisions(self) -> int:
        """Return the number of cells with collisions."""
        return sum(row.count(COLLISION) for row in self.cells)


@dataclass(frozen=True)
class _Intervals:
    """Half-open intervals, disjoint within each program, sorted by program and start."""

    start: Ints
    stop: Ints
    program: Ints

    def where(self, chosen: NDArray[np.bool_]) -> _Intervals:
        return _Intervals(self.start[chosen], self.stop[chosen], self.program[chosen])


def fold(kernel: str, argument: ArgumentSpec, elements: int, touches: Touches) -> TensorMap:
    """Return the map of a storage; accesses outside it are left out.

    Collisions are found by element, not by cell: programs that write neighbouring elements share a
    cell without colliding.

    Args:
        elements: Number of elements of the storage.
        touches: Array of dtype `TOUCH`, in any order.
    """
    per_cell = max(1, -(-elements // (ROWS * COLUMNS)))
    count = -(-elements // per_cell)
    inside = (touches["start"] < elements) & (touches["stop"] > np.maximum(0, touches["start"]))
    touched = touches[inside]
    touched["start"] = np.maximum(touched["start"], 0)
    touched["stop"] = np.minimum(touched["stop"], elements)
    by_element = _united(touched, 1)
    by_cell = _united(touched, per_cell)
    users = _cover(count, by_cell, np.ones_like(by_cell.program))
    only = _cover(count, by_cell, by_cell.program)
    codes = np.select([users == 0, users == 1], [np.full(count, UNTOUCHED), only], SHARED)
    collided = _collisions(by_element, _united(touched[touched["writes"]], 1))
    start, stop = collided.start // per_cell, -(-collided.stop // per_cell)
    hit = _Intervals(start, stop, collided.program)
    codes[_cover(count, hit, np.ones_like(start)) > 0] = COLLISION
    flat: list[int] = codes.tolist()
    return TensorMap(
        kernel=kernel,
        argument=argument,
        elements=elements,
        elements_per_cell=per_cell,
        cells=tuple(tuple(flat[at : at + COLUMNS]) for at in range(0, count, COLUMNS)),
        sharers=dict(_sharers(by_cell, users > 1)),
    )


def _united(touches: Touches, per_cell: int) -> _Intervals:
    """Return the union of each program's accesses in units of cells."""
    start = touches["start"] // per_cell
    stop = -(-touches["stop"] // per_cell)
    order = np.lexsort((start, touches["program"]))
    start, stop, program = start[order], stop[order], touches["program"][order]
    # Each program's intervals are shifted by an offset that is larger than any interval, so that
    # intervals of different programs do not overlap.
    width = int(stop.max(initial=0)) + 1
    rank = np.cumsum(np.diff(program, prepend=program[:1]) != 0)
    reached = np.maximum.accumulate(stop + rank * width)
    begins = np.ones(len(start), np.bool_)
    begins[1:] = start[1:] + rank[1:] * width > reached[:-1]
    ends = np.append(begins[1:], True)[: len(begins)]
    return _Intervals(start[begins], (reached - rank * width)[ends], program[begins])


def _cover(count: int, intervals: _Intervals, weights: Ints) -> Ints:
    """For each of `count` indices, return the total weight of the intervals that contain it."""
    steps = np.zeros(count + 1, np.int64)
    np.add.at(steps, intervals.start, weights)
    np.subtract.at(steps, intervals.stop, weights)
    covered: Ints = np.cumsum(steps)[:count]
    return covered


def _collisions(used: _Intervals, written: _Intervals) -> _Intervals:
    """Return the intervals that one program writes and another program reads or writes."""
    cuts = np.unique(np.concatenate([used.start, used.stop]))
    if not len(cuts):
        return used
    users = _cover(len(cuts) - 1, _ranked(used, cuts), np.ones_like(used.program))
    writers_at = np.unique(np.concatenate([cuts, written.start, written.stop]))
    writers = _cover(
        len(writers_at) - 1, _ranked(written, writers_at), np.ones_like(written.program)
    )
    shared = users[np.searchsorted(cuts, writers_at[:-1], side="right") - 1]
    colliding = (writers > 0) & (shared > 1)
    no_program = np.zeros(int(colliding.sum()), np.int64)
    return _Intervals(writers_at[:-1][colliding], writers_at[1:][colliding], no_program)


def _ranked(intervals: _Intervals, cuts: Ints) -> _Intervals:
    """Replace the ends of intervals by their ranks among `cuts`."""
    start, stop = (np.searchsorted(cuts, ends) for ends in (intervals.start, intervals.stop))
    return _Intervals(start, stop, intervals.program)


def _sharers(intervals: _Intervals, shared: NDArray[Any]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the lowest program ids of each shared cell, in the order of cells."""
    names = np.zeros((len(shared), _PROGRAMS_NAMED), np.int64)
    name_counts = np.zeros(len(shared), np.int64)
    covered = np.cumsum(intervals.stop - intervals.start)
    parts = np.searchsorted(covered, np.arange(_CELLS_AT_ONCE, covered[-1:].sum(), _CELLS_AT_ONCE))
    for part in np.split(np.arange(len(covered)), parts):
        incomplete = shared & (name_counts < _PROGRAMS_NAMED)
        before = np.append(0, np.cumsum(incomplete))
        if not before[-1]:
            break
        start, stop, program = intervals.start[part], intervals.stop[part], intervals.program[part]
        some = before[stop] > before[start]
        start, length = start[some], (stop - start)[some]
        cell, owner = ranges(start, length)
        owner, cell = owner[incomplete[cell]], cell[incomplete[cell]]
        # Programs are sorted, and a stable sort keeps their order within each cell.
        order = np.argsort(cell, kind="stable")
        owner, cell = owner[order], cell[order]
        place = name_counts[cell] + np.arange(len(cell)) - np.searchsorted(cell, cell)
        kept = place < _PROGRAMS_NAMED
        names[cell[kept], place[kept]] = program[some][owner[kept]]
        np.add.at(name_counts, cell[kept], 1)
    for index in np.flatnonzero(shared):
        yield int(index), tuple(names[index, : name_counts[index]].tolist())
