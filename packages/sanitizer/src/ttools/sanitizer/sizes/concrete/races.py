"""Accesses of programs at one size to memory that the kernel writes, and those that conflict."""

from __future__ import annotations

from typing import Any

import numpy as np

from ttools.interpreter.ir import (
    Operation,
)
from ttools.sanitizer.sizes.concrete.lanes import (
    mixed,
    spread,
)
from ttools.sanitizer.sizes.concrete.state import Bools, Event, State

#: Elements that are kept: some 60 bytes each while they are compared.
_MOST_RECORDS = 4_000_000
#: Of one element; they are those of the first programs.
_MOST_WRITERS = 256
#: Elements that several programs touch of which each is looked at.
_MOST_ELEMENTS = 4096


class Races(State):
    """Keeps the accesses to memory that is written, and finds those that conflict."""

    _recorded = 0

    def _record(self, op: Operation, kind: str, base: int, at: Any, active: Bools) -> None:
        memory = self._bounds_of(base)
        number = memory.memory.number
        if number not in self._written:
            return
        where = np.nonzero(active)
        count = len(where[0])
        self._recorded += count
        if self._recorded > _MOST_RECORDS:
            self.outcome.whole = False
            return
        element = np.broadcast_to(at, active.shape)[where] + memory.offset
        stored = op.operand("value") if kind == "store" else None
        values = np.zeros(count, np.uint64)
        if stored is not None:
            known = self.get(stored)
            data = spread(known.data, active.shape)[where].astype(np.uint64)
            values = data
            if known.unknown is not None:
                hidden = spread(known.unknown, active.shape)[where]
                values = np.where(hidden, mixed("?", where[0].astype(np.uint64)), values)
            if kind == "store":
                self._lane_conflicts(op, base, where, element, values)
        program = where[0].astype(np.int32)  # of `where` itself no part can be freed
        self._records.setdefault(number, []).append((op, kind, base, program, element, values))

    def _lane_conflicts(
        self, op: Operation, base: int, where: Any, element: Any, values: Any
    ) -> None:
        """Lanes of one store that write different values to one element."""
        if len(where) < 2 or not len(element):
            return
        order = np.lexsort((element, where[0]))
        same = (np.diff(where[0][order]) == 0) & (np.diff(element[order]) == 0)
        differs = same & (values[order][1:] != values[order][:-1])
        if differs.any():
            index = order[1:][differs][0]
            self._race_event("overlapping_store", op, base, where[0][index], element[index], op)

    def _race_event(
        self, kind: str, op: Operation, base: int, program: int, element: int, other: Operation
    ) -> None:
        if (kind, op) not in self.outcome.events:
            which = tuple(int(n) for n in self.programs[program])
            self.outcome.events[kind, op] = Event(kind, op, which, (), base, int(element), other)

    def _races(self) -> None:
        for records in self._records.values():
            sizes = [len(r[3]) for r in records]
            if len(self.programs) < 2 or not sum(sizes):
                continue
            site = np.repeat(np.arange(len(records), dtype=np.int32), sizes)
            program = np.concatenate([r[3] for r in records])
            element = np.concatenate([r[4] for r in records])
            values = np.concatenate([r[5] for r in records])
            writes = np.array([r[1] != "load" for r in records])[site]
            atomic = np.array([r[1] == "atomic" for r in records])[site]
            shared = _shared(element, program, writes, atomic)
            if shared.any():
                chosen = np.flatnonzero(shared)
                order = chosen[np.lexsort((program[chosen], element[chosen]))]
                self._conflicts(records, site, program, element, values, writes, atomic, order)

    def _conflicts(
        self, records: Any, site: Any, program: Any, element: Any, values: Any, writes: Any,
        atomic: Any, order: Any,
    ) -> None:  # fmt: skip
        """Looks at the elements that several programs touch and one of them writes."""
        starts = np.flatnonzero(np.diff(element[order], prepend=element[order][0] - 1))
        left = _possible(records) - self.outcome.events.keys()
        for group in np.split(order, starts[1:])[:_MOST_ELEMENTS]:
            stored = group[writes[group] & ~atomic[group]]
            differ = len(stored) and (values[stored] != values[stored[0]]).any()
            mixed_in = not writes[group].all() or (len(stored) and atomic[group].any())
            for i in group[writes[group]][:_MOST_WRITERS] if differ or mixed_in else ():
                others = group[program[group] != program[i]]
                found = []
                if differ and not atomic[i]:
                    plain = others[writes[others] & ~atomic[others]]
                    for j in plain[values[plain] != values[i]][:1]:
                        first, last = sorted((site[i], site[j]))
                        found.append(("overlapping_store", last, first))
                for j in others[~writes[others] | (atomic[others] & ~atomic[i])][:1]:
                    found.append(("race", site[i], site[j]))
                for kind, one, other in found:
                    op, _, base, *_ = records[one]
                    self._race_event(kind, op, base, program[i], element[i], records[other][0])
                    left.discard((kind, op))
                if not left:
                    return


def _possible(records: Any) -> set[tuple[str, Operation]]:
    """The conflicts that accesses of these kinds may have."""
    kinds = {record[1] for record in records}
    found = {("overlapping_store", op) for op, kind, *_ in records if kind == "store"}
    for op, kind, *_ in records:
        if kind != "load" and kinds - {kind, "store"}:
            found.add(("race", op))
    return found


def _shared(element: Any, program: Any, writes: Any, atomic: Any) -> Any:
    """Which accesses touch an element that several programs touch and one of them writes.

    Elements that are touched by atomic operations alone are none.
    """
    order = np.argsort(element, kind="stable")
    behind = element[order]
    starts = np.flatnonzero(np.concatenate([[True], behind[1:] != behind[:-1]]))
    lengths = np.diff(starts, append=len(order))
    del behind
    which = program[order]
    shared = np.minimum.reduceat(which, starts) != np.maximum.reduceat(which, starts)
    shared &= np.logical_or.reduceat(writes[order], starts)
    shared &= ~np.logical_and.reduceat(atomic[order], starts)
    found = np.zeros(len(order), bool)
    found[order] = np.repeat(shared, lengths)
    return found
