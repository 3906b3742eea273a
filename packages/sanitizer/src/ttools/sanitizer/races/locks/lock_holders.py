"""Finds the programs that hold the locks for which the programs of a deadlock wait.

A lock is a word that programs take by a compare-and-swap in a waiting loop. A failed
compare-and-swap changes nothing, so the last operation that changed the word shows who holds the
lock: if it is a compare-and-swap of this kind, its program has taken the lock, and no program has
released it since.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ttools.interpreter.abi.module import ProbeSite
from ttools.sanitizer.races.records import RMW, Records

#: Maximum number of locks whose holders are named.
_MOST = 3


@dataclass(frozen=True)
class Holder:
    """A program that has taken a lock and not released it.

    Attributes:
        waiter: Linear index of a program that waits for the lock.
        program: Linear index of the program that holds it.
        site: Site at which it took the lock.
    """

    waiter: int
    program: int
    site: int


def lock_holders(
    near: Records, syncs: Records, sites: Sequence[ProbeSite], waiter: int, locking: Collection[int]
) -> list[Holder]:
    """Return the programs that hold the locks in a chain of waits.

    The first program holds the lock for which `waiter` waits, the next program holds the lock for
    which the first one waits, and so on.

    Args:
        near: `ACCESS` records of the launch.
        syncs: `SYNC` records of the launch.
        sites: Probes of the launch, to which the records refer.
        waiter: Program whose last sync record is the poll of its wait.
        locking: Sites of compare-and-swaps in waiting loops.

    Returns:
        The holders; none if the program does not wait for a lock, or if it is not clear which
        program holds the lock.
    """
    holders: list[Holder] = []
    stores = near[np.isin(near["site"], [n for n, one in enumerate(sites) if one.kind == "store"])]
    while len(holders) < _MOST and all(waiter != earlier.waiter for earlier in holders):
        own = syncs[syncs["program"] == waiter]
        if not len(own):
            break
        poll = own[np.argmax(own["seq"])]
        if int(poll["site"]) not in locking or poll["flags"] & RMW:
            break
        address, end = poll["address"], poll["end"]
        if ((stores["start"] < end) & (stores["end"] > address)).any():
            break  # A plain store at an unknown time may have released the lock.
        same = (syncs["address"] < end) & (syncs["end"] > address)
        changes = syncs[same & (syncs["flags"] & RMW > 0)]
        if not len(changes):
            break
        last = changes[np.argmax(changes["seq"])]
        if int(last["site"]) not in locking:
            break
        holders.append(Holder(waiter, int(last["program"]), int(last["site"])))
        waiter = holders[-1].program
    return holders
