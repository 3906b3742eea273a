"""Findings of racecheck about one store whose lanes write the same element.

Native code reads again what it has stored, so different values are seen at once. That lanes share
an element at all is seen in the log of accesses. Owns the words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttools.core.findings.findings import Finding
from ttools.interpreter.analysis.positions import Position, position_of
from ttools.interpreter.runtime.monitor import Count, Monitor
from ttools.ir import Module
from ttools.sanitizer.analysis.dataflow import constant_of
from ttools.sanitizer.checks.check import Check
from ttools.sanitizer.launch.replay import on_one_thread, read_and_written
from ttools.sanitizer.launch.witness_text import lane_indices
from ttools.sanitizer.passes import undefined
from ttools.sanitizer.races import Records, SharedLanes, Site, shared_lanes

_HELP_LANES = "let each lane store to its own element, or reduce the values before"
OTHER_DATA = "the values are equal in this launch; with other data they may differ"


def lane_stores(
    check: Check, monitor: Monitor, accesses: Records, sites: Sequence[Site]
) -> Iterator[Finding]:
    """Stores whose lanes write the same element: errors where values differ, else notes.

    Args:
        check: racecheck, of the launch.
        monitor: of the run in the programs' own order.
        accesses: what it logged, without what is seen to be apart.
    """
    operations = [probe.operation for probe in monitor.sites]
    shared = shared_lanes(accesses, sites, operations)
    differing = _overwriting(check, monitor, {operations[each.first.site] for each in shared})
    yield from (_overwritten(check, count) for count in differing)
    known = {count.witness.site.operation for count in differing}
    for each in shared:
        probe = monitor.sites[each.first.site]
        if operations[each.first.site] not in known and not check.checked.kernel.at(
            uniform_stores, probe.location, False
        ):
            yield _always_equal(check, monitor, each)


def uniform_stores(module: Module) -> dict[Position, bool]:
    """Where one value is stored by all lanes, whatever it is: it is always the same."""
    found: dict[Position, bool] = {}
    for op in module.kernel.walk():
        position = position_of(op.location)
        if op.name == "tt.store" and position is not None:
            value = op.operands[1]
            data, source = constant_of(value), value.defining_op
            uniform = data is not None and data.is_splat
            uniform |= source is not None and source.name == "tt.splat"
            found[position] = found.get(position, True) and uniform
    return {position: True for position, uniform in found.items() if uniform}


def _overwriting(check: Check, monitor: Monitor, shared: set[int]) -> list[Count]:
    """Stores whose lanes overwrite each other, also while no other program disturbs them."""
    checked = check.checked
    uniform = checked.kernel.fact(uniform_stores)
    found = [c for c in _failed(monitor) if position_of(c.witness.site.location) not in uniform]
    alone = on_one_thread(checked.launch, checked.execute) if found else None
    if alone is None:
        return found
    seen = {count.witness.site.operation: count for count in _failed(alone)}
    believed = seen.keys() | (shared if _reads_its_stores(check) else set())
    best = (seen.get(count.witness.site.operation, count) for count in found)
    return [count for count in best if count.witness.site.operation in believed]


def _reads_its_stores(check: Check) -> bool:
    """Whether a second run may find what the first one has left, which may be equal everywhere."""
    launch, read = check.checked.launch, check.checked.kernel.fact(undefined.reads)
    return bool(read_and_written(launch, read, launch.written_storages or ()))


def _failed(monitor: Monitor) -> list[Count]:
    return [count for count in monitor.counts() if count.witness.test == "overwritten"]


def _overwritten(check: Check, count: Count) -> Finding:
    argument = check.checked.spec.argument(count.witness.site.parameter)
    name = f" of `{argument.name}`" if argument else ""
    return check.at_lanes(
        count,
        "overlapping_store",
        f"lanes of one store write different values to the same element{name}",
        argument=argument,
        notes=("the lane's value was overwritten by another lane",),
        help=_HELP_LANES,
    )


def _always_equal(check: Check, monitor: Monitor, shared: SharedLanes) -> Finding:
    spec, probe = check.checked.spec, monitor.sites[shared.first.site]
    owner = check.checked.addresses.owner(shared.first.address, through=probe.parameter)
    argument = spec.argument(probe.parameter if owner is None else owner)
    name = f" of `{argument.name}`" if argument else ""
    return check.finding(
        "overlapping_store",
        f"lanes of one store write to the same element{name}, always the same values",
        severity="note",
        argument=argument,
        location=probe.location,
        program=spec.coordinates(shared.first.program),
        lane=lane_indices(probe.lane_at(shared.first.lane), probe.shape),
        shape=probe.shape,
        notes=(OTHER_DATA,),
        count=shared.count,
        programs=shared.programs,
        help=_HELP_LANES,
    )
