"""Races between the threads of one program: accesses to a stored tile with no barrier in between.

The compiler's layouts decide which thread accesses an element, and they are not known before the
kernel is compiled for a GPU. The analysis uses this rule instead: two operations on tiles of the
same shape and element size assign a lane to the same thread; other pairs of operations do not.
Dimensions of extent 1 are part of the shape, because a tile such as `[1, N]` is usually loaded to
be broadcast, and then several threads load the same element.
"""

from collections.abc import Sequence

import numpy as np

from ttools.sanitizer.races.access_classes import thread_clashes
from ttools.sanitizer.races.conflict_table import Rows, intra_program
from ttools.sanitizer.races.integer_columns import changes, order_by
from ttools.sanitizer.races.overlap import Cells, meetings
from ttools.sanitizer.races.records import Bools, Ints, Records, Site


def thread_suspects(records: Records, sites: Sequence[Site], classes: Ints) -> Bools:
    """Return a mask of records whose site may race with another site in the same address range."""
    pairs = thread_clashes(sites, classes) & reach_into(records, len(sites))
    concerned = np.logical_or(pairs.any(0), pairs.any(1))
    return np.asarray(np.asarray(concerned)[records["site"]])


def reach_into(records: Records, sites: int) -> Bools:
    """Return a matrix of the pairs of sites whose address ranges overlap."""
    first = np.full(sites, np.iinfo(np.int64).max)
    last = np.full(sites, np.iinfo(np.int64).min)
    np.minimum.at(first, records["site"], records["start"])
    np.maximum.at(last, records["site"], records["end"])
    touching = (first[:, None] < last[None, :]) & (first[None, :] < last[:, None])
    return np.asarray(touching)


def thread_rows(records: Records, sites: Sequence[Site], classes: Ints) -> Rows:
    """Return the conflicts between threads of one program that no barrier separates.

    Args:
        records: Access records, sorted by start.
        sites: Sites of the launch in program order.
        classes: Class of each site.
    """
    # Accesses conflict only if they lie between the same two barriers of one program, so each such
    # section gets its own copy of the address space. Ranks of the bounds replace addresses, so that
    # all copies fit into 64 bits.
    cuts = Cells(records["start"], records["end"]).cuts
    order = order_by(records["program"], records["barrier"], records["start"], records["epoch"])
    within = records.take(order)
    space = np.cumsum(changes(within["program"], within["barrier"])) - 1
    base = space * len(cuts)
    pairs = meetings(
        base + np.searchsorted(cuts, within["start"]),
        base + np.searchsorted(cuts, within["end"]),
        within["site"],
        threads_of(within, sites),
        thread_clashes(sites, classes),
    )
    start, end = cuts[pairs.start % len(cuts)], cuts[pairs.end % len(cuts)]
    return intra_program(start, end, order[pairs.first], order[pairs.second])


def threads_of(records: Records, sites: Sequence[Site]) -> Ints:
    """Return a thread number for each record, by the rule of the module's docstring.

    The numbers of two records are comparable only if the records share a byte. In this case, they
    are equal if and only if the same thread accesses the byte.
    """
    keys = [_layout_key(site) for site in sites]
    layouts = sorted(set(keys))
    layout = np.array([layouts.index(key) for key in keys], np.int64)[records["site"]]
    size = np.array([site.size for site in sites], np.int64)[records["site"]]
    tile = np.array([site.size * site.numel for site in sites], np.int64)[records["site"]]
    origin = (records["start"] - records["lane"].astype(np.int64) * size) % tile
    order = order_by(layout, origin)
    owner = np.empty(len(records), np.int64)
    owner[order] = np.cumsum(changes(layout[order], origin[order]))
    return owner


def _layout_key(site: Site) -> tuple[int, ...]:
    """Return a key that is equal for two sites if equal lanes belong to the same thread at both."""
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
