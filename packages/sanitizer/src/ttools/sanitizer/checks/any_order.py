"""Whether a launch that has shown no race would show none in any order of its programs.

A part of racecheck, which runs it in a second order if this is not known. Which kernels do the same
in every order but under locks is `analysis.lock_sections`' business, what the records say of those
that of `races.locks.guarded`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.interpreter.analysis.positions import position_of
from ttools.sanitizer.analysis.lock_sections import lock_sections
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.races import Records, Site
from ttools.sanitizer.races.locks.guarded import all_guarded


def same_in_any_order(checked: CheckedLaunch, near: Records, sites: Sequence[Site]) -> bool:
    """Whether it is known that no order of the programs shows a race.

    Args:
        checked: it has run, and showed none.
        near: the accesses that may share bytes with others.
    """
    launch, kernel, monitor = checked.launch, checked.kernel, checked.monitor
    written = launch.written_storages
    if checked.hung or monitor is None or written is None:
        return False
    readonly = frozenset(
        index
        for index, region in enumerate(checked.regions)
        if not any(start < region.storage[1] and region.storage[0] < end for start, end in written)
    )
    sections = kernel.remember(
        (lock_sections, readonly), lambda: lock_sections(kernel.module, readonly)
    )
    if sections is None:
        return False
    places = [position_of(site.location) for site in monitor.sites]
    takes = {n for n, place in enumerate(places) if place in sections.takes}
    gives = {n for n, place in enumerate(places) if place in sections.gives}
    return all_guarded(near, monitor.footprints()[1], sites, takes, gives)
