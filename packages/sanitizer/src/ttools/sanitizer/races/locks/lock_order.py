"""Locks that programs take in opposite orders: each may hold what the other waits for.

Whether they meet is luck, so a run that ends proves nothing. Owns the reading of who held what;
reads records of synchronising operations only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from ttools.sanitizer.races.keys import changes, distinct, order_by
from ttools.sanitizer.races.records import RMW, Ints, Records

#: More acquisitions in a launch than this are not looked at.
_MOST_RECORDS = 1 << 18
_MOST_EDGES = 4096
_MOST_STEPS = 1 << 16
#: A circle needs different programs, but rarely many that do the same.
_ALIKE = 3


@dataclass(frozen=True)
class Nested:
    """A program that takes a lock while it holds another.

    Attributes:
        program: linear id.
        held: address of the lock that it holds.
        wanted: of the one that it takes.
        wanted_site: where it takes that.
        guards: all locks that it holds then.
    """

    program: int
    held: int
    wanted: int
    wanted_site: int
    guards: frozenset[int]


def lock_cycle(syncs: Records, locking: Collection[int]) -> list[Nested]:
    """A circle of programs each of which may hold the lock that the next one wants.

    Args:
        syncs: `SYNC` records.
        locking: sites of swaps that take a lock: those that a loop waits for.

    Returns:
        One entry per program, empty if there is no circle.
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
    return _circle(edges)


def _takers_of_several(taken: Records) -> Ints:
    """The programs that take more than one lock; most launches have none."""
    order = order_by(taken["program"], taken["address"])
    program = taken["program"][order]
    fresh = changes(program, taken["address"][order])
    return distinct(program[fresh & ~changes(program)])


@dataclass
class _Edges:
    """Who takes what while holding what; of programs that do alike, a few."""

    known: dict[int, dict[int, list[Nested]]] = field(default_factory=dict)
    count: int = 0

    def add(self, nested: Nested) -> None:
        alike = self.known.setdefault(nested.held, {}).setdefault(nested.wanted, [])
        if self.count < _MOST_EDGES and sum(n.guards == nested.guards for n in alike) < _ALIKE:
            alike.append(nested)
            self.count += 1


def _nested(syncs: Records, locking: Collection[int]) -> Iterator[Nested]:
    """Follows one program after the other through its locks.

    What a program never gives back is no lock but a flag that it waits for: only on release does
    what was taken meanwhile count.
    """
    columns = (syncs[name].tolist() for name in ("program", "address", "site"))
    follows, held = -1, dict[int, list[Nested]]()
    for program, address, site in zip(*columns, strict=True):
        if program != follows:
            follows, held = program, {}
        if site not in locking:
            yield from held.pop(address, ())
            continue
        guards = frozenset(held)
        for lock, later in held.items():
            if lock != address:
                later.append(Nested(program, lock, address, site, guards))
        held[address] = []


def _circle(edges: _Edges) -> list[Nested]:
    """A circle of different programs, no two of which hold a lock in common (Havelund 2000)."""
    steps = _MOST_STEPS
    for first in (n for row in edges.known.values() for alike in row.values() for n in alike):
        paths = [[first]]
        while paths and steps:
            path = paths.pop()
            steps -= 1
            for alike in edges.known.get(path[-1].wanted, {}).values():
                for nested in alike:
                    if not all(_may_meet(nested, other) for other in path):
                        continue
                    if nested.wanted == first.held:
                        return [*path, nested]
                    paths.append([*path, nested])
    return []


def _may_meet(one: Nested, other: Nested) -> bool:
    return one.program != other.program and one.guards.isdisjoint(other.guards)
