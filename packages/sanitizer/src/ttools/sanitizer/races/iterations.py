"""Races between threads of one program where a load precedes a store, in place or in a loop.

Without a barrier, threads that are ahead may store elements that other threads have not loaded yet.
In the next iteration of a loop, they may load elements that other threads have not stored yet.

In a launch that does not synchronise, `epoch` counts loop iterations and so gives the order of a
load and a store. Where threads of several warps exchange values (as in a reduction), they wait for
each other. The epoch then increases to the next multiple of `STRETCH`, so that `epoch // STRETCH`
numbers the sections between exchanges. An exchange orders a load before it and a store after it.

For example, with `offs = tl.arange(0, 4)`, the statement

    tl.store(p + offs, tl.load(p + offs + 1))

loads `p[1]` in lane 0 and stores `p[1]` in lane 1. If the thread of lane 1 is ahead, it stores
`p[1]` before the thread of lane 0 has loaded it. If the kernel divides the loaded tile by its
`tl.max` before it stores, all threads have loaded before the first one stores. In a loop, lane 0
then loads the `p[1]` of the previous iteration, which lane 1 may not have stored yet. `tl.max` does
not prevent that, because it comes before the store.

In a launch that synchronises, `epoch` counts synchronising operations instead, and the log does not
record exchanges. Such launches are analysed only if they have no exchanges or one warp, and a load
and a later store are compared only if their epochs are equal. The rule of `thread_races` decides
which thread executes a lane.
"""

from collections.abc import Sequence

import numpy as np

from ttools.sanitizer.races.access_classes import iteration_clashes
from ttools.sanitizer.races.conflict_table import Rows, intra_program, join
from ttools.sanitizer.races.integer_columns import changes, order_by
from ttools.sanitizer.races.overlap import Cells, overlapping
from ttools.sanitizer.races.records import Bools, Ints, Records, Site, column
from ttools.sanitizer.races.thread_races import reach_into, threads_of

STRETCH = 1 << 16
"""Epochs with equal quotients by this number have no exchange of values between them."""


def iteration_rows(
    records: Records,
    sites: Sequence[Site],
    classes: Ints,
    *,
    waits_at_exchanges: bool,
    synchronises: bool = False,
) -> Rows:
    """Return conflicts of loads with stores of later sites by other threads of a program.

    Args:
        records: Access records, sorted by start.
        sites: Sites of the launch in program order.
        classes: Class of each site.
        waits_at_exchanges: True if threads wait for each other where they exchange values.
        synchronises: True if the launch synchronises; in this case, `waits_at_exchanges` must be
            False.
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
    # An exchange orders a load before it and a store after it, because the exchanged values depend
    # on the load and the stored values depend on the exchange. It does not order a store and a
    # later load, because Triton may move the exchange to before the store. Sections are therefore
    # used only for pairs of a load and a later store.
    orders = [(is_store, np.zeros_like(apart)), (~is_store, apart)]
    for cell, index in cells.blocks(np.arange(len(mine))):
        for is_first, between in orders:
            one, two, at = _meet(mine, between, cell, index, owner, is_first, is_store)
            start, end = cells.cuts[at], cells.cuts[at + 1]
            parts.append(intra_program(start, end, chosen[one], chosen[two]))
    return join(parts)


def _stays_in_place(mine: Records, is_store: Bools, owner: Ints) -> bool:
    """Return whether each store writes bytes that its own thread has loaded, each byte once.

    This is the usual case, as in `store(p, f(load(p)))`, in which no search for conflicts is
    needed.
    """
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
    """Return pairs of unseparated accesses by different threads, at most one pair per cell.

    The first access of a pair is marked by `is_first`. No barrier and no start of a section
    (`stretch`) lies between the two accesses. Of two accesses in one iteration, the load comes
    first.

    Returns:
        The first access, the second access and the cell of each pair.
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
    # The first marked access of each group, and the first marked access by a different thread.
    first = np.minimum.reduceat(np.where(firsts, position, none), heads)
    thread = by[np.minimum(first, none - 1)][group]
    other = np.minimum.reduceat(np.where(firsts & (by != thread), position, none), heads)
    partner = np.where(by != thread, first[group], other[group])
    earlier = np.minimum(partner, none - 1)
    met = ~firsts & (partner < none) & (earlier < position)
    later = np.flatnonzero(met)
    later = later[changes(cell[later])]
    return index[earlier[later]], index[later], cell[later]
