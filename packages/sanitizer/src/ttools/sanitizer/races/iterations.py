"""Races inside one program across the turns of a loop: what a turn stores, others load in a later.

The load stands before the store in the kernel, so only the count of turns, the `epoch` of a launch
that does not synchronise, tells which came first. Where threads exchange values they wait for each
other: there the count goes on to the next multiple of `STRETCH`. Who is a thread is `threads`'
rule.
"""

from collections.abc import Sequence

import numpy as np

from ttools.sanitizer.races.classes import turn_clashes
from ttools.sanitizer.races.keys import changes, order_by
from ttools.sanitizer.races.overlap import Cells
from ttools.sanitizer.races.records import Ints, Records, Site
from ttools.sanitizer.races.rows import INTRA_PROGRAM, Rows, join
from ttools.sanitizer.races.threads import threads_of

STRETCH = 1 << 16
"""What the quotient of an epoch by is equal for if no exchange of values lies between."""


def turn_rows(records: Records, sites: Sequence[Site], classes: Ints) -> Rows:
    """Every pair of sites at which a load meets what another thread stored in an earlier turn.

    Args:
        records: Sorted by start, of a launch without synchronisation.
        sites: In program order.
        classes: Of each site.
    """
    if not records["epoch"].any():
        return join([])
    pairs = np.argwhere(turn_clashes(sites, classes)).tolist()
    return join([_pair(records, sites, load, store) for load, store in pairs])


def _pair(records: Records, sites: Sequence[Site], load: int, store: int) -> Rows:
    chosen = np.flatnonzero((records["site"] == load) | (records["site"] == store))
    mine = records.take(chosen)
    is_store = mine["site"] == store
    if is_store.all() or not is_store.any():
        return join([])
    who, cells = threads_of(mine, sites), Cells(mine["start"], mine["end"])
    parts = []
    for cell, index in cells.blocks(np.arange(len(mine))):
        first, second, at = _meet(mine, cell, index, who, is_store)
        count = len(at)
        parts.append(
            Rows(
                np.full(count, INTRA_PROGRAM),
                cells.cuts[at],
                cells.cuts[at + 1],
                chosen[first],
                chosen[second],
                np.full(count, -1),
            )
        )
    return join(parts)


def _meet(
    records: Records, cell: Ints, index: Ints, who: Ints, is_store: Ints
) -> tuple[Ints, Ints, Ints]:
    """A store, a load of another thread in a later turn, and their cell; one pair for each cell.

    Neither a barrier nor an exchange lies between the two.
    """
    mine = records.take(index)
    order = order_by(cell, mine["program"], mine["barrier"], mine["epoch"], ~is_store[index])
    mine, cell, index = mine.take(order), cell[order], index[order]
    stores, by, turn = is_store[index], who[index], mine["epoch"]
    stretch = turn // STRETCH
    heads = np.flatnonzero(changes(cell, mine["program"], mine["barrier"], stretch))
    group = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(cell))))
    nobody = len(cell)
    place = np.arange(nobody)
    # Of each group the first store, and the first one by another thread.
    first = np.minimum.reduceat(np.where(stores, place, nobody), heads)
    thread = by[np.minimum(first, nobody - 1)][group]
    other = np.minimum.reduceat(np.where(stores & (by != thread), place, nobody), heads)
    partner = np.where(by != thread, first[group], other[group])
    known = np.minimum(partner, nobody - 1)
    met = ~stores & (partner < nobody) & (turn[known] < turn)
    loads = np.flatnonzero(met)
    loads = loads[changes(cell[loads])]
    return index[known[loads]], index[loads], cell[loads]
