"""Which kinds of access may not meet: the rule of conflict, as tables over sites."""

from collections.abc import Sequence

import numpy as np

from ttools.sanitizer.races.records import Bools, Ints, Site

LOAD, STORE, ATOMIC, POLL, LOCAL = 1, 2, 4, 8, 16
"""Plain load, plain store, atomic, volatile or atomic load, atomic of one program's threads: bits,
so that a set of them is a number."""

ALONE = STORE | LOCAL
"""What conflicts with every other access, itself included."""

_CLASSES = {"load": LOAD, "store": STORE, "atomic": ATOMIC}

MAY_CONFLICT = np.zeros(32, np.bool_)
"""Whether a set of classes holds two that conflict, or one that conflicts with itself."""
MAY_CONFLICT[[s for s in range(32) if s & ALONE or (s & ATOMIC and s & LOAD)]] = True


def classes_of(sites: Sequence[Site]) -> Ints:
    """The class of each site."""
    return np.array([_class_of(site) for site in sites], np.int64)


def _class_of(site: Site) -> int:
    if site.kind == "load" and site.volatile:
        return POLL
    if site.kind == "atomic" and site.local:
        return LOCAL
    return _CLASSES[site.kind]


def clashes(classes: Ints) -> Bools:
    """Pairs of sites that conflict where different programs meet: one writes, not both atomic."""
    pairs = classes[:, None] | classes[None, :]
    return np.asarray(MAY_CONFLICT[pairs])


def thread_clashes(sites: Sequence[Site], classes: Ints) -> Bools:
    """Pairs (earlier, later) in program order, at least one a tile, the earlier a plain store.

    Or the earlier is a tile of atomics and the later a plain load: it may come before some of them.
    A scalar access is made by one thread and a tile by many; two scalars are left alone.
    """
    tile, atomic = _tiles(sites, classes)
    clash = (tile[:, None] | tile[None, :]) & np.equal(classes, STORE)[:, None]
    clash |= atomic[:, None] & np.equal(classes, LOAD)[None, :]
    return np.asarray(np.triu(clash, 1))


def iteration_clashes(sites: Sequence[Site], classes: Ints) -> Bools:
    """Pairs (earlier, later) in program order where the earlier one may read what the later one
    wrote in the iteration before: a plain load and a plain store or a tile of atomics.
    """
    tile, atomic = _tiles(sites, classes)
    loads, writes = np.equal(classes, LOAD), np.equal(classes, STORE) | atomic
    clash = loads[:, None] & writes[None, :] & (tile[:, None] | tile[None, :])
    return np.asarray(np.triu(clash, 1))


def _tiles(sites: Sequence[Site], classes: Ints) -> tuple[Bools, Bools]:
    """Which sites access tiles, and which of these do so atomically."""
    tile = np.array([site.numel > 1 for site in sites], np.bool_)
    return tile, tile & np.isin(classes, (ATOMIC, LOCAL))
