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
        sites: of the launch.
        takes: sites at which programs wait for a lock and take it.
        gives: sites at which they give it back.
    """
    held = _held(near, syncs, takes, gives)
    if held is None:
        return False
    if not len(near):
        return True
    order = order_by(column(near, "start"))
    near, held = near.take(order), held[order]
    start, end, site = column(near, "start"), column(near, "end"), near["site"]
    heads = cluster_heads(start, end)
    head = np.repeat(heads, np.diff(np.append(heads, len(start))))

    def alike(*columns: Ints) -> Bools:
        same = np.ones(len(start), np.bool_)
        for each in columns:
            same &= each == each[head]
        return np.logical_and.reduceat(same, heads)

    def all_of(marks: Bools) -> Bools:
        return np.logical_and.reduceat(marks, heads)

    swaps = _of_sites(site, [n in takes or n in gives for n in range(len(sites))])
    loads = _of_sites(site, [each.kind == "load" for each in sites])
    atomics = _of_sites(site, [each.kind == "atomic" and not each.local for each in sites])
    same_bytes, free = alike(start, end), held == 0
    guarded = same_bytes & all_of(~free & ~swaps)
    guarded &= alike(held, near["lane"], _threads(sites)[site])
    locks = same_bytes & all_of(swaps)
    unlocked = all_of(free & ~swaps)
    unlocked &= all_of(loads) | all_of(atomics) | alike(near["program"])
    return bool((guarded | locks | unlocked).all())


def _of_sites(site: Ints, marks: Sequence[bool]) -> Bools:
    return np.array(marks, np.bool_)[site]


def _threads(sites: Sequence[Site]) -> Ints:
    """A number for each site, the same where equal lanes belong to the same threads."""
    numbers: dict[object, int] = {}
    kinds = [(each.size, each.shape, each.order) for each in sites]
    return np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)


def _held(
    near: Records, syncs: Records, takes: Collection[int], gives: Collection[int]
) -> Ints | None:
    """The lock under which each access is made, 0 for none; None unless locks are taken in turn."""
    syncs = syncs.take(order_by(syncs["program"], syncs["epoch"]))
    site, program, address = syncs["site"], column(syncs, "program"), column(syncs, "address")
    taking = np.isin(site, list(takes)) & (syncs["flags"] & RMW > 0)
    turns = np.flatnonzero(taking | np.isin(site, list(gives)))
    first, last = turns[::2], turns[1::2]
    if not len(turns) or len(first) != len(last):
        return None
    if not taking[first].all() or taking[last].any():
        return None
    if (program[first] != program[last]).any() or (address[first] != address[last]).any():
        return None
    if (syncs["end"][first] != syncs["end"][last]).any():
        return None
    # What a program did before an access: the last of its records with a lower epoch.
    epochs = 1 + int(max(syncs["epoch"].max(), near["epoch"].max(initial=0)))
    keys = program[turns] * epochs + syncs["epoch"][turns]
    wanted = column(near, "program") * epochs + near["epoch"]
    latest = np.searchsorted(keys, wanted, side="left") - 1
    before = turns[np.maximum(latest, 0)]
    holds = (latest >= 0) & (program[before] == near["program"]) & taking[before]
    return np.where(holds, address[before], 0)
