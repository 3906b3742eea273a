"""Conflicts: accesses by several lanes or programs to the same element, in no defined order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ttools.ir import Operation, Value
from ttools.prove.concrete.lanes import mixed, spread
from ttools.prove.concrete.state import Bools, Event, Outcome, State

#: Maximum number of recorded lanes; each takes about 60 bytes while the lanes are compared.
_MOST_RECORDS = 4_000_000
#: Maximum number of writers of one element that are compared. Writers in later programs are
#: ignored.
_MOST_WRITERS = 256
#: Maximum number of elements accessed by several programs that are examined one by one.
_MOST_ELEMENTS = 4096


class _Record(NamedTuple):
    """The accesses of one operation in one iteration; each array has one entry per lane.

    Attributes:
        base: Index of the kernel argument that the address is derived from.
        program: Index of each lane's program in `State.programs`.
        element: Index in the storage of the element that each lane accesses.
        values: Stored values; 0 if the access does not store.
    """

    op: Operation
    kind: str
    base: int
    program: Any
    element: Any
    values: Any


class _Lanes(NamedTuple):
    """The lanes of all accesses to one storage; `site` is the index of each lane's `_Record`."""

    site: Any
    program: Any
    element: Any
    values: Any
    writes: Any
    atomic: Any


class AccessRecords:
    """Accesses to the memory that a launch writes to, and the conflicts between them.

    Args:
        state: The values of the kernel's operations.
        outcome: Receives an event for each conflict.
    """

    def __init__(self, state: State, outcome: Outcome) -> None:
        self._state, self._outcome = state, outcome
        self._records: dict[int, list[_Record]] = {}
        self._count = 0

    def record(
        self,
        op: Operation,
        kind: str,
        storage: int,
        base: int,
        element: Any,
        active: Bools,
        ordered: Bools,
    ) -> None:
        """Record an access; if it is a store, also compare its lanes with each other.

        Args:
            kind: `load`, `store` or `atomic`.
            storage: Number of the storage.
            base: Index of the kernel argument that the address is derived from.
            element: Index of the accessed element in the storage, in each lane.
            active: Mask of the lanes that access memory.
            ordered: Mask of the programs whose access may be ordered after accesses of other
                programs. Only its own lanes are compared.
        """
        where = np.nonzero(active)
        count = len(where[0])
        self._count += count
        if self._count > _MOST_RECORDS:
            self._outcome.whole = False
            return
        element = np.broadcast_to(element, active.shape)[where]
        stored = op.operand("value") if kind == "store" else None
        values: Any = np.zeros(count, np.uint64)
        if stored is not None:
            values = self._stored(stored, where, active.shape)
            self._compare_lanes(op, base, where, element, values)
        program = where[0].astype(np.int32)  # a copy: a view would keep all of `where` alive
        if ordered.any():
            compared = ~ordered[program]
            program, element, values = program[compared], element[compared], values[compared]
        record = _Record(op, kind, base, program, element, values)
        self._records.setdefault(storage, []).append(record)

    def _stored(self, value: Value, where: Any, shape: tuple[int, ...]) -> Any:
        """Return the stored values; for unknown values, a hash that differs between programs."""
        lanes = self._state.get(value)
        values = spread(lanes.data, shape)[where].astype(np.uint64)
        if lanes.unknown is None:
            return values
        unknown = spread(lanes.unknown, shape)[where]
        return np.where(unknown, mixed("?", where[0].astype(np.uint64)), values)

    def _compare_lanes(
        self, op: Operation, base: int, where: Any, element: Any, values: Any
    ) -> None:
        """Report a store whose lanes write different values to one element."""
        if len(where) < 2 or not len(element):
            return
        order = np.lexsort((element, where[0]))
        same = (np.diff(where[0][order]) == 0) & (np.diff(element[order]) == 0)
        differs = same & (values[order][1:] != values[order][:-1])
        if differs.any():
            index = order[1:][differs][0]
            self._report("overlapping_store", op, base, where[0][index], element[index], op)

    def _report(
        self, kind: str, op: Operation, base: int, program: int, element: int, other: Operation
    ) -> None:
        if (kind, op) not in self._outcome.events:
            which = tuple(int(n) for n in self._state.programs[program])
            self._outcome.events[kind, op] = Event(kind, op, which, (), base, int(element), other)

    def compare_programs(self) -> None:
        """Report accesses to one element by different programs, which have no defined order."""
        for records in self._records.values():
            sizes = [len(record.program) for record in records]
            if self._state.count < 2 or not sum(sizes):
                continue
            site = np.repeat(np.arange(len(records), dtype=np.int32), sizes)
            lanes = _Lanes(
                site,
                np.concatenate([record.program for record in records]),
                np.concatenate([record.element for record in records]),
                np.concatenate([record.values for record in records]),
                np.array([record.kind != "load" for record in records])[site],
                np.array([record.kind == "atomic" for record in records])[site],
            )
            shared = _shared(lanes)
            if shared.any():
                chosen = np.flatnonzero(shared)
                order = chosen[np.lexsort((lanes.program[chosen], lanes.element[chosen]))]
                self._conflicts(records, lanes, order)

    def _conflicts(self, records: list[_Record], lanes: _Lanes, order: Any) -> None:
        """Report conflicts at elements that several programs access, one of which writes.

        Args:
            records: The accesses to one storage.
            order: Indices of the lanes that access such elements, sorted by element and program.
        """
        site, program, element, values, writes, atomic = lanes
        starts = np.flatnonzero(np.diff(element[order], prepend=element[order][0] - 1))
        left = _possible(records) - self._outcome.events.keys()
        for group in np.split(order, starts[1:])[:_MOST_ELEMENTS]:
            stored = group[writes[group] & ~atomic[group]]
            differ = len(stored) and (values[stored] != values[stored[0]]).any()
            mixed_in = not writes[group].all() or (len(stored) and atomic[group].any())
            for i in group[writes[group]][:_MOST_WRITERS] if differ or mixed_in else ():
                others = group[program[group] != program[i]]
                conflicts = []
                if differ and not atomic[i]:
                    plain = others[writes[others] & ~atomic[others]]
                    for j in plain[values[plain] != values[i]][:1]:
                        first, last = sorted((site[i], site[j]))
                        conflicts.append(("overlapping_store", last, first))
                for j in others[~writes[others] | (atomic[others] & ~atomic[i])][:1]:
                    conflicts.append(("race", site[i], site[j]))
                for kind, one, other in conflicts:
                    op, base = records[one].op, records[one].base
                    self._report(kind, op, base, program[i], element[i], records[other].op)
                    left.discard((kind, op))
                if not left:
                    return


def _possible(records: list[_Record]) -> set[tuple[str, Operation]]:
    """Return all conflicts that are possible between the kinds of accesses in the records."""
    kinds = {record.kind for record in records}
    conflicts = {("overlapping_store", record.op) for record in records if record.kind == "store"}
    for record in records:
        if record.kind != "load" and kinds - {record.kind, "store"}:
            conflicts.add(("race", record.op))
    return conflicts


def _shared(lanes: _Lanes) -> Any:
    """Return a mask of the lanes whose element is shared by programs, one of which writes it.

    Elements that only atomic operations access are left out.
    """
    _, program, element, _, writes, atomic = lanes
    order = np.argsort(element, kind="stable")
    behind = element[order]
    starts = np.flatnonzero(np.concatenate([[True], behind[1:] != behind[:-1]]))
    lengths = np.diff(starts, append=len(order))
    del behind
    which = program[order]
    shared = np.minimum.reduceat(which, starts) != np.maximum.reduceat(which, starts)
    shared &= np.logical_or.reduceat(writes[order], starts)
    shared &= ~np.logical_and.reduceat(atomic[order], starts)
    marked = np.zeros(len(order), bool)
    marked[order] = np.repeat(shared, lengths)
    return marked
