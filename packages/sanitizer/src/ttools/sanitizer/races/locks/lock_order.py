"""Detection of locks that programs take in inconsistent orders, which may deadlock.

If program 0 takes lock A and then B, and program 1 takes B and then A, each may hold the lock for
which the other program waits. A run without a deadlock does not exclude this, because the deadlock
depends on timing. The analysis (Goodlock, Havelund 2000) therefore builds a graph from the sync
records: an edge from A to B means that a program takes B while it holds A. A cycle of edges of
different programs is a possible deadlock, unless two of the programs hold a common lock, because
they then cannot hold their other locks at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from ttools.sanitizer.races.integer_columns import changes, distinct, order_by
from ttools.sanitizer.races.records import RMW, Ints, Records

#: Launches with more sync records than this are not analysed.
_MOST_RECORDS = 1 << 18
#: Largest number of edges in the graph.
_MOST_EDGES = 4096
#: Maximum number of paths that the search extends.
_MOST_STEPS = 1 << 16
#: Maximum number of edges that are kept for the same pair of locks. A cycle needs different
#: programs, but rarely many that take the same locks.
_ALIKE = 3


@dataclass(frozen=True)
class Nested:
    """A program that takes a lock while it holds another lock.

    Attributes:
        program: Linear index of the program in the grid.
        held_lock: Address of the lock that it holds.
        wanted_lock: Address of the lock that it takes.
        wanted_site: Site at which it takes this lock.
        guards: Addresses of all locks that it holds at that time.
    """

    program: int
    held_lock: int
    wanted_lock: int
    wanted_site: int
    guards: frozenset[int]


def lock_cycle(syncs: Records, locking: Collection[int]) -> list[Nested]:
    """Return a cycle of programs, each of which takes a lock that the next program may hold.

    Args:
        syncs: `SYNC` records of the launch.
        locking: Sites of compare-and-swaps or exchanges that take a lock in a waiting loop.

    Returns:
        One entry per program; empty if there is no cycle.
    """
    if not locking or not len(syncs) or len(syncs) > _MOST_RECORDS:
        return []
    taken = np.isin(syncs["site"], list(locking)) & (syncs["flags"] & RMW > 0)
    concerned = _takers_of_several(syncs[taken])
    if not len(concerned):
        return []
    chosen = np.flatnonzero(np.isin(syncs["program"], concerned) & (syncs["flags"] & RMW > 0))
    chosen = chosen[np.lexsort((syncs["epoch"][chosen], syncs["program"][chosen]))]
    edges = _Edges()
    for nested in _nested(syncs.take(chosen), locking):
        edges.add(nested)
    return _cycle(edges)


def _takers_of_several(taken: Records) -> Ints:
    """Return the programs that take more than one lock; in most launches, there are none."""
    order = order_by(taken["program"], taken["address"])
    program = taken["program"][order]
    fresh = changes(program, taken["address"][order])
    return distinct(program[fresh & ~changes(program)])


@dataclass
class _Edges:
    """The edges of the lock graph, by held and wanted lock; at most `_ALIKE` equal ones stay."""

    by_lock: dict[int, dict[int, list[Nested]]] = field(default_factory=dict)
    count: int = 0

    def add(self, nested: Nested) -> None:
        alike = self.by_lock.setdefault(nested.held_lock, {}).setdefault(nested.wanted_lock, [])
        if self.count < _MOST_EDGES and sum(n.guards == nested.guards for n in alike) < _ALIKE:
            alike.append(nested)
            self.count += 1


def _nested(syncs: Records, locking: Collection[int]) -> Iterator[Nested]:
    """Yield each pair of a held lock and a lock that is taken while it is held, program by program.

    The pairs of a held lock are yielded when the lock is released. If a program takes a word and
    never releases it, the word is a flag and not a lock, and its pairs are dropped.
    """
    columns = (syncs[name].tolist() for name in ("program", "address", "site"))
    current, taken = -1, dict[int, list[Nested]]()
    for program, address, site in zip(*columns, strict=True):
        if program != current:
            current, taken = program, {}
        if site not in locking:
            yield from taken.pop(address, ())
            continue
        guards = frozenset(taken)
        for lock, later in taken.items():
            if lock != address:
                later.append(Nested(program, lock, address, site, guards))
        taken[address] = []


def _cycle(edges: _Edges) -> list[Nested]:
    """Return a cycle of different programs, no two of which hold a common lock; [] if none."""
    steps = _MOST_STEPS
    for first in (n for row in edges.by_lock.values() for alike in row.values() for n in alike):
        paths = [[first]]
        while paths and steps:
            path = paths.pop()
            steps -= 1
            for alike in edges.by_lock.get(path[-1].wanted_lock, {}).values():
                for nested in alike:
                    if not all(_may_meet(nested, other) for other in path):
                        continue
                    if nested.wanted_lock == first.held_lock:
                        return [*path, nested]
                    paths.append([*path, nested])
    return []


def _may_meet(one: Nested, other: Nested) -> bool:
    """Return whether both programs can hold their locks at the same time."""
    return one.program != other.program and one.guards.isdisjoint(other.guards)
