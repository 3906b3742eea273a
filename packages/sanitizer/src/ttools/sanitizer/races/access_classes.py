"""Rules that determine which kinds of access conflict, as tables over pairs of sites."""

from collections.abc import Sequence

import numpy as np

from ttools.sanitizer.races.records import Bools, Ints, Site

LOAD, STORE, ATOMIC, POLL, LOCAL = 1, 2, 4, 8, 16
"""Classes of access, one bit each, so that an integer represents a set of classes.

LOAD is a plain load, STORE a plain store, ATOMIC an atomic, POLL a volatile or atomic load, and
LOCAL an atomic whose scope is one program (`cta`).
"""

ALONE = STORE | LOCAL
"""Classes that conflict with every class, including themselves."""

_CLASSES = {"load": LOAD, "store": STORE, "atomic": ATOMIC}

MAY_CONFLICT = np.zeros(32, np.bool_)
"""Indexed by a set of classes: True if two of them conflict, or one conflicts with itself."""
MAY_CONFLICT[[s for s in range(32) if s & ALONE or (s & ATOMIC and s & LOAD)]] = True


def classes_of(sites: Sequence[Site]) -> Ints:
    """Return the class of each site."""
    return np.array([_class_of(site) for site in sites], np.int64)


def _class_of(site: Site) -> int:
    if site.kind == "load" and site.volatile:
        return POLL
    if site.kind == "atomic" and site.local:
        return LOCAL
    return _CLASSES[site.kind]


def clashes(classes: Ints) -> Bools:
    """Return a matrix of the pairs of sites that conflict if different programs share bytes.

    Two sites conflict if at least one of them writes and they are not both atomic.
    """
    pairs = classes[:, None] | classes[None, :]
    return np.asarray(MAY_CONFLICT[pairs])


def thread_clashes(sites: Sequence[Site], classes: Ints) -> Bools:
    """Return a matrix of the pairs (earlier, later) of sites at which threads may race.

    In such a pair, at least one site accesses a tile. The earlier site is a plain store, or it is a
    tile of atomics and the later site is a plain load. The second case is included because a thread
    may load before other threads have executed their atomics. Pairs of scalar accesses are
    excluded, since one thread executes a scalar access.
    """
    tile, atomic = _tiles(sites, classes)
    clash = (tile[:, None] | tile[None, :]) & np.equal(classes, STORE)[:, None]
    clash |= atomic[:, None] & np.equal(classes, LOAD)[None, :]
    return np.asarray(np.triu(clash, 1))


def iteration_clashes(sites: Sequence[Site], classes: Ints) -> Bools:
    """Return a matrix of the pairs (load, later write) of sites that may race across iterations.

    The load may read what the write stored in the previous iteration of a loop. The load is a plain
    load, the write is a plain store or a tile of atomics, and at least one of them accesses a tile.
    """
    tile, atomic = _tiles(sites, classes)
    loads, writes = np.equal(classes, LOAD), np.equal(classes, STORE) | atomic
    clash = loads[:, None] & writes[None, :] & (tile[:, None] | tile[None, :])
    return np.asarray(np.triu(clash, 1))


def _tiles(sites: Sequence[Site], classes: Ints) -> tuple[Bools, Bools]:
    """Return two masks over the sites: those that access tiles, and those with atomics on tiles."""
    tile = np.array([site.numel > 1 for site in sites], np.bool_)
    return tile, tile & np.isin(classes, (ATOMIC, LOCAL))
