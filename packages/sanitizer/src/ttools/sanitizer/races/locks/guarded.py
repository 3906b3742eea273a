"""Whether all that programs share is touched under one lock each, so that their order is no matter.

Reads the records of one order. Must not know which kernels do the same in every order: for those,
what holds in one order holds in all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ttools.sanitizer.races.keys import order_by
from ttools.sanitizer.races.overlap import cluster_heads
from ttools.sanitizer.races.records import RMW, Bools, Ints, Records, Site, column


def all_guarded(
    near: Records,
    syncs: Records,
    sites: Sequence[Site],
    takes: Collection[int],
    gives: Collection[int],
) -> bool:
    """Whether programs, and threads of a program, could not race in another order either.

    That is so where accesses that share bytes touch the same ones from the same threads, under
    the same lock. Beside that, what is made under no lock may share bytes where it loads only, or
    is atomic, or is of one program.

    Args:
        near: `ACCESS` records, at least those that share bytes with others.
        syncs: `SYNC` records.
        takes: sites at which programs wait for a lock and take it.
        gives: sites at which they give it back.
    """
    turns = _turns(syncs, takes, gives)
    if turns is None:
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
        return all_of(np.logical_and.reduce([each == each[head] for each in columns]))

    held = _held(near, turns, takes)
    free, swaps = held == 0, _of(site, [n in takes or n in gives for n in range(len(sites))])
    loads = _of(site, [each.kind == "load" for each in sites])
    atomics = _of(site, [each.kind == "atomic" and not each.local for each in sites])
    guarded = all_of(~free) & alike(start, end, held, near["lane"], _threads(sites)[site])
    unlocked = all_of(free) & (all_of(loads) | all_of(atomics) | alike(near["program"]))
    locks = all_of(swaps) & alike(start, end)
    plain = all_of(~swaps & ~_touches_locks(start, end, turns))
    return bool((locks | (plain & (guarded | unlocked))).all())


def _of(site: Ints, marks: Sequence[bool]) -> Bools:
    return np.array(marks, np.bool_)[site]


def _threads(sites: Sequence[Site]) -> Ints:
    """A number for each site, the same where equal lanes belong to the same threads."""
    numbers: dict[object, int] = {}
    kinds = [(each.size, each.shape, each.order) for each in sites]
    return np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)


def _turns(syncs: Records, takes: Collection[int], gives: Collection[int]) -> Records | None:
    """Each program's locks in its order, taken and given back by turns; None if it is not so."""
    taking = np.isin(syncs["site"], list(takes)) & (syncs["flags"] & RMW > 0)
    turns = syncs[taking | np.isin(syncs["site"], list(gives))]
    turns = turns.take(order_by(turns["program"], turns["epoch"]))
    first, last = turns[::2], turns[1::2]
    if not len(turns) or len(first) != len(last):
        return None
    pairs = np.isin(first["site"], list(takes)) & np.isin(last["site"], list(gives))
    for name in ("program", "address", "end"):
        pairs &= first[name] == last[name]
    return turns if pairs.all() else None


def _held(near: Records, turns: Records, takes: Collection[int]) -> Ints:
    """The lock under which each access is made, 0 for none."""
    epochs = 1 + int(max(turns["epoch"].max(), near["epoch"].max()))
    keys = turns["program"] * epochs + turns["epoch"]
    # The last turn of the program with a lower epoch.
    latest = np.searchsorted(keys, near["program"] * epochs + near["epoch"]) - 1
    before = turns.take(np.maximum(latest, 0))
    holds = (latest >= 0) & (before["program"] == near["program"])
    return np.where(holds & np.isin(before["site"], list(takes)), before["address"], 0)


def _touches_locks(start: Ints, end: Ints, turns: Records) -> Bools:
    """Which accesses share bytes with a lock."""
    words = np.unique(turns["address"])
    longest = int((turns["end"] - turns["address"]).max())
    nearest = np.searchsorted(words, end) - 1
    touches: Bools = (nearest >= 0) & (words[nearest] + longest > start)
    return touches
