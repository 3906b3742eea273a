"""Lock discipline: checks that each group of shared bytes is accessed under one lock.

If this is the case, the order in which programs take the locks cannot cause a race. The check reads
the records of one order of programs. `analysis.lock_sections` finds the kernels whose accesses are
the same in every order; for those, the result holds for all orders.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ttools.sanitizer.races.integer_columns import order_by
from ttools.sanitizer.races.overlap import cluster_heads
from ttools.sanitizer.races.records import RMW, Bools, Ints, Records, Site, column


def all_guarded(
    near: Records,
    syncs: Records,
    sites: Sequence[Site],
    takes: Collection[int],
    gives: Collection[int],
) -> bool:
    """Return whether neither programs nor threads of a program can race in another order.

    Each cluster of overlapping accesses must satisfy one of these conditions:

    - All accesses have equal bounds, lanes and threads, under the same lock.
    - All accesses are outside locks, and all are loads, or atomics, or of one program.
    - All accesses are lock operations on the same word.

    Args:
        near: `ACCESS` records, including at least those that share bytes with other records.
        syncs: `SYNC` records of the launch.
        takes: Sites at which programs wait for a lock and acquire it.
        gives: Sites at which programs release a lock.
    """
    lock_operations = _lock_operations(syncs, takes, gives)
    if lock_operations is None:
        return False
    if not len(near):
        return True
    near = near.take(order_by(column(near, "start")))
    start, end, site = column(near, "start"), column(near, "end"), near["site"]
    heads = cluster_heads(start, end)
    head = np.repeat(heads, np.diff(np.append(heads, len(start))))

    def all_of(marks: Bools) -> Bools:
        return np.logical_and.reduceat(marks, heads)

    def alike(*columns: Ints) -> Bools:
        return all_of(np.logical_and.reduce([values == values[head] for values in columns]))

    lock = _lock_of_accesses(near, lock_operations, takes)
    free, swaps = lock == 0, _at(site, [n in takes or n in gives for n in range(len(sites))])
    loads = _at(site, [one.kind == "load" for one in sites])
    atomics = _at(site, [one.kind == "atomic" and not one.local for one in sites])
    guarded = all_of(~free) & alike(start, end, lock, near["lane"], _threads(sites)[site])
    unlocked = all_of(free) & (all_of(loads) | all_of(atomics) | alike(near["program"]))
    locks = all_of(swaps) & alike(start, end)
    plain = all_of(~swaps & ~_touches_locks(start, end, lock_operations))
    return bool((locks | (plain & (guarded | unlocked))).all())


def _at(site: Ints, marks: Sequence[bool]) -> Bools:
    """Return the mark of each record's site."""
    return np.array(marks, np.bool_)[site]


def _threads(sites: Sequence[Site]) -> Ints:
    """Return a number for the assignment of lanes to threads at each site.

    Two sites have the same number if equal lanes belong to the same threads.
    """
    numbers: dict[object, int] = {}
    kinds = [(site.size, site.shape, site.order) for site in sites]
    return np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)


def _lock_operations(
    syncs: Records, takes: Collection[int], gives: Collection[int]
) -> Records | None:
    """Return the lock operations sorted by program and epoch.

    The result is None if there are no lock operations, or if some program does not alternately take
    a lock and release the same lock.
    """
    taking = np.isin(syncs["site"], list(takes)) & (syncs["flags"] & RMW > 0)
    operations = syncs[taking | np.isin(syncs["site"], list(gives))]
    operations = operations.take(order_by(operations["program"], operations["epoch"]))
    first, last = operations[::2], operations[1::2]
    if not len(operations) or len(first) != len(last):
        return None
    pairs = np.isin(first["site"], list(takes)) & np.isin(last["site"], list(gives))
    for name in ("program", "address", "end"):
        pairs &= first[name] == last[name]
    return operations if pairs.all() else None


def _lock_of_accesses(near: Records, lock_operations: Records, takes: Collection[int]) -> Ints:
    """Return the address of the lock that the program holds during each access; 0 for none."""
    epochs = 1 + int(max(lock_operations["epoch"].max(), near["epoch"].max()))
    keys = lock_operations["program"] * epochs + lock_operations["epoch"]
    # Find the last lock operation of the program with a lower epoch.
    latest = np.searchsorted(keys, near["program"] * epochs + near["epoch"]) - 1
    before = lock_operations.take(np.maximum(latest, 0))
    holds = (latest >= 0) & (before["program"] == near["program"])
    return np.where(holds & np.isin(before["site"], list(takes)), before["address"], 0)


def _touches_locks(start: Ints, end: Ints, lock_operations: Records) -> Bools:
    """Return a mask of the accesses that may share bytes with a lock."""
    words = np.unique(lock_operations["address"])
    longest = int((lock_operations["end"] - lock_operations["address"]).max())
    nearest = np.searchsorted(words, end) - 1
    touches: Bools = (nearest >= 0) & (words[nearest] + longest > start)
    return touches
