"""Races inside one program: a tile is stored and touched again by other threads with no barrier.

Which thread holds an element is a matter of layout, which is not known before a kernel is compiled
for a GPU. The rule used here is that two operations on tiles of the same shape and element size
give a lane to the same thread; any other pair does not. Dimensions of one count: such a tile is
there to be broadcast, and then each of the threads that share an element loads it.
"""

from collections.abc import Sequence

import numpy as np

from ttools.sanitizer.races.classes import thread_clashes
from ttools.sanitizer.races.keys import changes, order_by
from ttools.sanitizer.races.overlap import Cells, meetings
from ttools.sanitizer.races.records import Bools, Ints, Records, Site
from ttools.sanitizer.races.rows import Rows, intra_program


def thread_suspects(records: Records, sites: Sequence[Site], classes: Ints) -> Bools:
    """Records at sites whose addresses reach into those of a site that they may clash with."""
    pairs = thread_clashes(sites, classes) & reach_into(records, len(sites))
    concerned = np.logical_or(pairs.any(0), pairs.any(1))
    return np.asarray(np.asarray(concerned)[records["site"]])


def reach_into(records: Records, sites: int) -> Bools:
    """Pairs of sites whose addresses lie in a common range."""
    first = np.full(sites, np.iinfo(np.int64).max)
    last = np.full(sites, np.iinfo(np.int64).min)
    np.minimum.at(first, records["site"], records["start"])
    np.maximum.at(last, records["site"], records["end"])
    touching = (first[:, None] < last[None, :]) & (first[None, :] < last[:, None])
    return np.asarray(touching)


def thread_rows(records: Records, sites: Sequence[Site], classes: Ints) -> Rows:
    """Every pair of sites at which different threads of one program meet between two barriers.

    Args:
        records: Sorted by start.
        sites: In program order.
        classes: of each site.
    """
    # One copy of the address space for each stretch of a program between two barriers: only ranks
    # of bounds are copied, so that the copies fit into 64 bits.
    cuts = Cells(records["start"], records["end"]).cuts
    order = order_by(records["program"], records["barrier"], records["start"], records["epoch"])
    within = records.take(order)
    space = np.cumsum(changes(within["program"], within["barrier"])) - 1
    base = space * len(cuts)
    found = meetings(
        base + np.searchsorted(cuts, within["start"]),
        base + np.searchsorted(cuts, within["end"]),
        within["site"],
        threads_of(within, sites),
        thread_clashes(sites, classes),
    )
    start, end = cuts[found.start % len(cuts)], cuts[found.end % len(cuts)]
    return intra_program(start, end, order[found.first], order[found.second])


def threads_of(records: Records, sites: Sequence[Site]) -> Ints:
    """Equal for two records that touch the same byte exactly if the same thread does it."""
    form = [_form(site) for site in sites]
    known = sorted(set(form))
    layout = np.array([known.index(each) for each in form], np.int64)[records["site"]]
    size = np.array([site.size for site in sites], np.int64)[records["site"]]
    tile = np.array([site.size * site.numel for site in sites], np.int64)[records["site"]]
    origin = (records["start"] - records["lane"].astype(np.int64) * size) % tile
    order = order_by(layout, origin)
    owner = np.empty(len(records), np.int64)
    owner[order] = np.cumsum(changes(layout[order], origin[order]))
    return owner


def _form(site: Site) -> tuple[int, ...]:
    """Equal for sites whose lanes belong to the same threads."""
    axes = [n for n, extent in enumerate(site.shape) if extent > 1]
    order = site.order or range(len(site.shape))
    kept = sorted(order[n] for n in axes)
    ones = sorted(order[n] for n, extent in enumerate(site.shape) if extent == 1)
    return (
        site.size,
        *(site.shape[n] for n in axes),
        *(kept.index(order[n]) for n in axes),
        len(site.shape),
        *ones,
    )
