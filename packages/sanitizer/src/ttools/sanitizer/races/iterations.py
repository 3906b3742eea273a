"""Races inside one program across the iterations of a loop: what one stores, a later one loads.

The load stands before the store in the kernel, so only the count of iterations, the `epoch` of a
launch that does not synchronise, says which came first. Where threads exchange values they wait for
each other: there the count goes on to the next multiple of `STRETCH`. Which lanes one thread has is
`threads`' rule.
"""

from collections.abc import Sequence

import numpy as np

from ttools.sanitizer.races.classes import iteration_clashes
from ttools.sanitizer.races.keys import changes, order_by
from ttools.sanitizer.races.overlap import Cells
from ttools.sanitizer.races.records import Ints, Records, Site
from ttools.sanitizer.races.rows import Rows, intra_program, join
from ttools.sanitizer.races.threads import threads_of

STRETCH = 1 << 16
"""Epochs with equal quotients by this have no exchange of values between them."""


def iteration_rows(records: Records, sites: Sequence[Site], classes: Ints) -> Rows:
    """Every pair of sites at which a load meets what another thread stored in an earlier iteration.

    Args:
        records: Sorted by start, of a launch without synchronisation.
        sites: In program order.
        classes: of each site.
    """
    if not records["epoch"].any():
        return join([])
    pairs = np.argwhere(iteration_clashes(sites, classes)).tolist()
    return join([_pair(records, sites, load, store) for load, store in pairs])


def _pair(records: Records, sites: Sequence[Site], load: int, store: int) -> Rows:
    chosen = np.flatnonzero((records["site"] == load) | (records["site"] == store))
    mine = records.take(chosen)
    is_store = mine["site"] == store
    if is_store.all() or not is_store.any():
        return join([])
    owner, cells = threads_of(mine, sites), Cells(mine["start"], mine["end"])
    parts = []
    for cell, index in cells.blocks(np.arange(len(mine))):
        first, second, at = _meet(mine, cell, index, owner, is_store)
        start, end = cells.cuts[at], cells.cuts[at + 1]
        parts.append(intra_program(start, end, chosen[first], chosen[second]))
    return join(parts)


def _meet(
    records: Records, cell: Ints, index: Ints, owner: Ints, is_store: Ints
) -> tuple[Ints, Ints, Ints]:
    """A store, a load of another thread in a later iteration, and their cell: one pair per cell.

    Neither a barrier nor an exchange lies between the two.
    """
    mine = records.take(index)
    order = order_by(cell, mine["program"], mine["barrier"], mine["epoch"], ~is_store[index])
    mine, cell, index = mine.take(order), cell[order], index[order]
    stores, by, iteration = is_store[index], owner[index], mine["epoch"]
    stretch = iteration // STRETCH
    heads = np.flatnonzero(changes(cell, mine["program"], mine["barrier"], stretch))
    group = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(cell))))
    none = len(cell)
    position = np.arange(none)
    # The first store of each group, and its first one by another thread.
    first = np.minimum.reduceat(np.where(stores, position, none), heads)
    thread = by[np.minimum(first, none - 1)][group]
    other = np.minimum.reduceat(np.where(stores & (by != thread), position, none), heads)
    partner = np.where(by != thread, first[group], other[group])
    known = np.minimum(partner, none - 1)
    met = ~stores & (partner < none) & (iteration[known] < iteration)
    loads = np.flatnonzero(met)
    loads = loads[changes(cell[loads])]
    return index[known[loads]], index[loads], cell[loads]
