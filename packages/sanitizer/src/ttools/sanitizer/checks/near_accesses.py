"""The logged accesses of a launch that races are looked for among: few, of most launches none.

What is easily seen to conflict with nothing is left out before anything is copied or sorted. Owns
the sites of a kernel in the words of `races`. Must not know what a race is.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from ttools.core.process.phases import tick
from ttools.interpreter.abi.probe_layout import IS_LOCAL, IS_STRONG, LOOKS, REPEATED
from ttools.interpreter.runtime.monitor import Monitor
from ttools.sanitizer.races import (
    ACCESS,
    Records,
    Site,
    disjoint_dense,
    disjoint_tiles,
    maybe_overlapping,
)
from ttools.sanitizer.races.classes import MAY_CONFLICT, classes_of
from ttools.sanitizer.races.records import Ints, column

_NO_ACCESSES = np.empty(0, ACCESS)


def near_accesses(monitor: Monitor) -> Records:
    """The accesses that are not seen to be apart from all others, each program's in their order.

    Those of kinds that conflict with none there are apart, too.
    """
    if _seen_disjoint(monitor):
        return _NO_ACCESSES
    tick()
    footprints, _ = monitor.footprints()
    tick(0, len(footprints.records), "records")
    records = footprints.records
    near = maybe_overlapping(
        column(records, "start"), column(records, "end"), footprints.count, footprints.stride
    )
    return footprints.take(near).runs() if len(near) else _NO_ACCESSES


def _seen_disjoint(monitor: Monitor) -> bool:
    """Whether what was logged is easily seen to share no byte that matters.

    Elements that are scattered leave a record each, so the usual answer is to cost little memory.
    """
    untouched = monitor.untouched_log()
    if untouched is not None and (
        len(untouched) < 2 or disjoint_tiles(untouched, _known(monitor)[1])
    ):
        return True
    log = monitor.log()
    if len(log) < 2:
        return True
    first_site, last_site = log.bounds("site")
    if first_site < 0 or last_site >= REPEATED:
        return False
    classes = _known(monitor)[1]
    kinds = (np.bitwise_or.reduce(classes[sites]) for sites in log.pieces("site"))
    if not MAY_CONFLICT[int(np.bitwise_or.reduce(list(kinds)))]:
        return True
    runs = list(zip(log.pieces("start"), log.pieces("bytes"), strict=True))
    return disjoint_dense(runs, log.bounds("start"), *log.bounds("bytes"))


def sites_of(monitor: Monitor) -> list[Site]:
    """The kernel's probes as the analysis of races wants them."""
    return _known(monitor)[0]


#: By the kernel's table of probes, the same for all its launches: its sites, and their classes.
_of_tables: WeakKeyDictionary[object, tuple[list[Site], Ints]] = WeakKeyDictionary()


def _known(monitor: Monitor) -> tuple[list[Site], Ints]:
    found = _of_tables.get(monitor.table)
    if found is None:
        sites = _sites(monitor)
        found = _of_tables[monitor.table] = sites, classes_of(sites)
    return found


def _sites(monitor: Monitor) -> list[Site]:
    return [
        Site(
            kind="load" if probe.kind == "check" else probe.kind,  # type: ignore[arg-type]
            size=max(1, probe.size),
            shape=tuple(probe.shape[axis] for axis in probe.walk),
            order=probe.order,
            volatile=probe.kind == "load" and bool(probe.flags & (LOOKS | IS_STRONG)),
            local=probe.kind == "atomic" and bool(probe.flags & IS_LOCAL),
        )
        for probe in monitor.sites
    ]
