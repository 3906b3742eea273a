"""Races inside one program where it stores what it has loaded, in place or in a loop.

The load stands before the store in the kernel. Threads that are ahead store what others have still
to load, and in the next iteration of a loop load what others have still to store: the count of
iterations, the `epoch` of a launch that does not synchronise, says which came first. Where threads
of several warps exchange values they wait for each other: there the count goes on to the next
multiple of `STRETCH`, which orders a load and a later store. Which lanes one thread has is
`threads`' rule.

The epoch of a launch that synchronises counts what orders programs, and exchanges are not seen.
There a load and a store of one epoch are looked at, in kernels without exchanges.
"""

from collections.abc import Sequence

import numpy as np

from ttools.sanitizer.races.classes import iteration_clashes
from ttools.sanitizer.races.keys import changes, order_by
from ttools.sanitizer.races.overlap import Cells, overlapping
from ttools.sanitizer.races.records import Bools, Ints, Records, Site, column
from ttools.sanitizer.races.rows import Rows, intra_program, join
from ttools.sanitizer.races.threads import reach_into, threads_of

STRETCH = 1 << 16
"""Epochs with equal quotients by this have no exchange of values between them."""


def iteration_rows(
    records: Records,
    sites: Sequence[Site],
    classes: Ints,
    *,
    waits_at_exchanges: bool,
    synchronises: bool = False,
) -> Rows:
    """Every pair of sites at which a load meets what another thread stores, before or after it.

    Args:
        records: Sorted by start.
        sites: In program order.
        classes: of each site.
        waits_at_exchanges: Whether an exchange of values lets threads wait for each other.
        synchronises: Whether the launch does; then it must not exchange values in this way.
    """
    clashes = iteration_clashes(sites, classes) & reach_into(records, len(sites))
    stretch = column(records, "epoch")
    if not synchronises:
        stretch = stretch // STRETCH if waits_at_exchanges else 0 * stretch
    return join([_pair(records, stretch, sites, *pair) for pair in np.argwhere(clashes).tolist()])


def _pair(records: Records, stretch: Ints, sites: Sequence[Site], load: int, store: int) -> Rows:
    chosen = np.flatnonzero((records["site"] == load) | (records["site"] == store))
    mine = records.take(chosen)
    is_store = mine["site"] == store
    owner = threads_of(mine, sites)
    if _stays_in_place(mine, is_store, owner):
        return join([])
    cells = Cells(mine["start"], mine["end"])
    parts = []
    apart = stretch[chosen]
    # Threads have loaded what they exchange, and store what comes of it. Nothing makes them wait
    # for what others have stored: Triton may move an exchange to before the store.
    ways = [(is_store, np.zeros_like(apart)), (~is_store, apart)]
    for cell, index in cells.blocks(np.arange(len(mine))):
        for is_first, between in ways:
            one, two, at = _meet(mine, between, cell, index, owner, is_first, is_store)
            start, end = cells.cuts[at], cells.cuts[at + 1]
            parts.append(intra_program(start, end, chosen[one], chosen[two]))
    return join(parts)


def _stays_in_place(mine: Records, is_store: Bools, owner: Ints) -> bool:
    """Whether each store goes where its thread has loaded, and nowhere twice: the usual case."""
    if is_store.all() or not is_store.any() or (owner == owner[0]).all():
        return True
    one, two = mine.take(np.flatnonzero(~is_store)), mine.take(np.flatnonzero(is_store))
    if len(one) != len(two) or overlapping(one["start"], one["end"]).any():
        return False
    same = (one["start"] == two["start"]) & (one["end"] == two["end"])
    return bool((same & (owner[~is_store] == owner[is_store])).all())


def _meet(
    records: Records,
    stretch: Ints,
    cell: Ints,
    index: Ints,
    owner: Ints,
    is_first: Bools,
    is_store: Bools,
) -> tuple[Ints, Ints, Ints]:
    """An access of those that may come first, a later one of another thread, and their cell.

    Neither a barrier nor an exchange lies between the two; one pair per cell. Of two accesses of
    one iteration the load comes first.
    """
    mine = records.take(index)
    keys = (cell, mine["program"], mine["barrier"], stretch[index], mine["epoch"])
    order = order_by(*keys, is_store[index].astype(np.int64))
    mine, cell, index, stretch = mine.take(order), cell[order], index[order], stretch[index][order]
    firsts, by = is_first[index], owner[index]
    heads = np.flatnonzero(changes(cell, mine["program"], mine["barrier"], stretch))
    group = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(cell))))
    none = len(cell)
    position = np.arange(none)
    # The first one of each group, and its first one by another thread.
    first = np.minimum.reduceat(np.where(firsts, position, none), heads)
    thread = by[np.minimum(first, none - 1)][group]
    other = np.minimum.reduceat(np.where(firsts & (by != thread), position, none), heads)
    partner = np.where(by != thread, first[group], other[group])
    known = np.minimum(partner, none - 1)
    met = ~firsts & (partner < none) & (known < position)
    later = np.flatnonzero(met)
    later = later[changes(cell[later])]
    return index[known[later]], index[later], cell[later]
