"""The check `racecheck`: conflicting accesses of a launch that nothing orders.

The package `races` finds the conflicts. This module selects the logged accesses that can conflict,
decides which launches are run again (to compare stored values, or to try another order of
programs), and describes the conflicts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from math import prod
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from ttools.core.findings.causes import Cause
from ttools.core.findings.findings import Finding, Related
from ttools.core.process.phases import phase, tick
from ttools.core.reports.report import counted
from ttools.core.spec import ArgumentSpec, LaunchSpec
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.abi.probe_layout import IS_LOCAL, IS_STRONG, LOOKS, REPEATED, REREADS
from ttools.interpreter.analysis.effects import exchanges_values
from ttools.interpreter.analysis.positions import Position, position_of
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Count, Monitor
from ttools.interpreter.runtime.packed_log import MOST_RECORDS
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.ir import Module
from ttools.sanitizer.analysis.dataflow import constant_of
from ttools.sanitizer.analysis.lock_sections import lock_sections
from ttools.sanitizer.analysis.pointer_tables import pointer_tables
from ttools.sanitizer.analysis.weak_atomics import ORDERS, weak_atomics
from ttools.sanitizer.causes.grids import grid_notes
from ttools.sanitizer.causes.race_advice import race_advice
from ttools.sanitizer.causes.races import causes_of
from ttools.sanitizer.causes.updates import cause_of_update, update_help
from ttools.sanitizer.checks.check import Check, Kind, Kinds, lane_indices
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.replay import (
    changing_stores,
    in_another_order,
    on_one_thread,
    read_and_written,
    snapshot_before,
    touches,
)
from ttools.sanitizer.passes import associativity, undefined
from ttools.sanitizer.passes.rewrites import Pass
from ttools.sanitizer.races import (
    ACCESS,
    AccessRef,
    Conflict,
    EarliestReads,
    Records,
    SharedLanes,
    Site,
    disjoint_dense,
    disjoint_tiles,
    find_conflicts,
    maybe_overlapping,
    shared_lanes,
)
from ttools.sanitizer.races.access_classes import MAY_CONFLICT, classes_of
from ttools.sanitizer.races.locks.guarded import all_guarded
from ttools.sanitizer.races.records import Ints, column

_NOUNS = {"load": "loads", "store": "stores", "atomic": "atomics"}
_HELP_RELEASE = "put a tl.debug_barrier() before the release"
_HELP_LOCAL = 'an atomic of scope "cta" is atomic only within its own program: leave out `scope`'
_ONE_WARP = (
    "the threads of one warp usually execute their accesses in order, so results can be right with "
    "num_warps=1 and wrong with more warps; this launch has num_warps={}"
)
_TOO_MANY = (
    f"the launch makes more than the {MOST_RECORDS:,} accesses that are checked for races: the "
    "rest was not checked"
)
#: Number of records that are analysed for a stopped launch; it is small to keep the analysis short.
_MOST_OF_STOPPED = 1 << 20
#: Number of tensors that a finding names.
_MOST_NAMED = 4
#: Of the two accesses of a race, the one with the higher rank determines the location of the
#: finding.
_FAULT = {"load": 0, "atomic": 1, "store": 2}
_NONE: Mapping[int, int] = {}
_ASSOCIATIVITY = (Pass("racecheck", "associativity", associativity.apply),)


class Racecheck(Check):
    """Finds unordered accesses to one element by different programs or threads of a program."""

    name = "racecheck"
    page = "reference/findings.md#what-the-race-check-covers"
    data_hooks = frozenset({"prepare", "findings"})
    aliases = ("tsan",)
    observes = frozenset({"accesses"})
    analysis = "race analysis"
    seeks = "races"
    kinds: ClassVar[Kinds] = {
        "overlapping_store": Kind(
            severity="error",
            meaning="Programs, or lanes of one store, write the same element in an undefined "
            "order; a note if all values are equal.",
            help="let each element be stored by one program, or add with tl.atomic_add",
        ),
        "race": Kind(
            severity="error",
            meaning="A program reads or updates an element that another program writes, and "
            "nothing orders the two accesses.",
            help="use an atomic, or order the programs: release after tl.debug_barrier(), acquire",
        ),
        "intra_program_race": Kind(
            severity="warning",
            meaning="Lanes of a program load and store the same element, without a barrier.",
            help="put a tl.debug_barrier() between the two",
        ),
        "not_associative": Kind(
            severity="warning",
            meaning="The combine function of a reduction or scan is not associative for elements "
            "of the launch, so the result depends on how a GPU groups them.",
        ),
    }

    def passes(self) -> Sequence[Pass]:
        """Return the pass for kernels with combine functions that may not be associative."""
        return _ASSOCIATIVITY if self.checked.kernel.fact(associativity.combinations) else ()

    _before: Snapshot | None = None

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Save the memory that must be restored before a run in another order."""
        checked = self.checked
        if checked.instruments.synchronised:
            self._before = snapshot_before(checked.launch, checked.kernel.fact(undefined.reads))
        return options

    def findings(self) -> Iterator[Finding]:
        """Yield stores whose lanes overwrite each other, and races in each order that is run."""
        monitor = self.checked.monitor
        assert monitor is not None
        if monitor.stop is not None:
            monitor.shorten_log(_MOST_OF_STOPPED)
        near = near_accesses(monitor)
        if monitor.log_is_full:
            if monitor.stop is None:
                yield self.finding("unsupported", _TOO_MANY)
            if self.checked.instruments.synchronised:
                return  # the missing records may contain synchronisation
        findings = []
        if len(near) or monitor.fails:
            findings = list(lane_stores(self, monitor, near, sites_of(monitor)))
        findings += self._races(monitor, near)
        yield from findings
        if self._before is not None and (
            findings or not same_in_any_order(self.checked, near, sites_of(monitor))
        ):
            reported = {(finding.kind, finding.location) for finding in findings}
            yield from self._in_another_order(self._before, reported)

    def _races(
        self, monitor: Monitor, near: Records, earlier: Mapping[int, int] = _NONE
    ) -> Iterator[Finding]:
        checked = self.checked
        conflicts = [] if len(near) < 2 else self._conflicts(monitor, near, earlier)
        # If stores also conflict with loads, the order matters even if the stored values are equal.
        racing = {finding.argument for conflict, finding in conflicts if conflict.kind == "race"}
        changing: Records | None = None
        if any(c.overlaps is not None and f.argument not in racing for c, f in conflicts):
            changing = changing_stores(checked.launch, checked.regions, checked.addresses)
        for conflict, finding in conflicts:
            overlaps = conflict.overlaps
            if changing is not None and overlaps is not None and finding.argument not in racing:
                yield finding if touches(changing, overlaps) else _identical(finding)
            else:
                yield finding

    def _in_another_order(self, before: Snapshot, reported: Set[object]) -> Iterator[Finding]:
        """Yield races that appear only in another order of programs, except those in `reported`."""
        checked = self.checked
        seed = checked.options.seed
        options = replace(checked.launch.run.launch_options, order="random", seed=seed)
        where = f"random order (seed {seed})"
        earliest = None
        if checked.hung:
            # In reverse order, a program for which others waited runs before them.
            options = replace(checked.launch.run.launch_options, order="reverse")
            where = "reverse order"
        elif checked.kernel.waits:
            # With one thread, each program runs as far as it can before the next begins.
            options = replace(options, threads=1)
            monitor = checked.monitor
            if monitor is not None and any(site.flags & REREADS for site in monitor.sites):
                # Only waits that leave the awaited word unchanged can end early, so locks are not
                # affected.
                earliest = EarliestReads()
                where += ", or when every wait ends as early as possible"
        with phase("run in another order"):
            monitor = in_another_order(
                checked.launch, before, lambda: checked.execute(options, earliest)
            )
        if monitor is None:
            return
        earlier = {} if earliest is None else earliest.earlier
        for finding in self._races(monitor, near_accesses(monitor), earlier):
            if (finding.kind, finding.location) not in reported:
                note = f"seen when the programs run in {where}"
                yield replace(finding, notes=(*finding.notes, note))

    def _conflicts(
        self, monitor: Monitor, near: Records, earlier: Mapping[int, int]
    ) -> list[tuple[Conflict, Finding]]:
        """Return the conflicts of one execution, each with its finding."""
        sites, (_, syncs) = sites_of(monitor), monitor.footprints()
        united: dict[tuple[object, ...], tuple[Conflict, Finding]] = {}
        tensors: defaultdict[tuple[object, ...], dict[str, None]] = defaultdict(dict)

        def find(records: Records) -> Iterable[Conflict]:
            return find_conflicts(
                records,
                sites,
                syncs if len(syncs) else None,
                earlier,
                warps=self.checked.launch.kernel.options.warps,
                exchanges=self.checked.kernel.fact(_exchanges),
            )

        conflicts = list(find(near))
        causes = causes_of(self.checked, monitor.sites, near, conflicts, find)
        for conflict, cause in zip(conflicts, causes, strict=True):
            finding = replace(self._conflict_finding(conflict, monitor.sites, cause), cause=cause)
            # To the user, the copies of one operation are a single location.
            key = (conflict.kind, finding.location, *(r.location for r in finding.related))
            names = islice(self._tensors(conflict, finding.argument), _MOST_NAMED)
            tensors[key].update(dict.fromkeys(names))
            previous = united.get(key)
            if previous is not None and previous[1].cause != cause:
                usual = self.kinds[conflict.kind].help
                finding = replace(finding, cause=None, help=usual)
                previous = previous[0], replace(previous[1], cause=None, help=usual)
            if previous is None or finding.count > previous[1].count:
                previous = conflict, finding
            united[key] = previous
        return [
            (conflict, _with_others(finding, tensors[key]))
            for key, (conflict, finding) in united.items()
        ]

    def _conflict_finding(
        self, conflict: Conflict, sites: Sequence[ProbeSite], cause: Cause | None
    ) -> Finding:
        spec, addresses = self.checked.spec, self.checked.addresses
        first, second = conflict.first, conflict.second
        one, other = sites[first.site], sites[second.site]
        # The finding is located at the store, and the other access is the related location. If a
        # plain store conflicts with an atomic, the plain store is more likely to be the mistake,
        # because two atomics would not conflict.
        if conflict.kind != "intra_program_race" and _FAULT[one.kind] > _FAULT[other.kind]:
            first, second, one, other = second, first, other, one
        owner = addresses.owner(conflict.start, through=other.parameter)
        table = self.checked.kernel.at(pointer_tables, other.location, -1)
        argument = spec.argument(table if owner is None else owner)
        name = f"`{argument.name}`" if argument else f"address {conflict.start:#x}"
        storage = addresses.around(conflict.start)
        notes: tuple[str, ...] = ()
        if storage is not None:
            item = (conflict.start - storage[0]) // max(1, other.size)
            element = f"element {item:,} of its storage"
            if argument and owner is None:
                name = f"a tensor behind {name}"
                size = counted(storage[1] - storage[0], "byte")
                element = f"element {item:,} of that tensor of {size}"
            elif argument and argument.tensor:
                element = _element(argument, item) or element
            notes = (f"both access {element}",)
        if conflict.kind != "intra_program_race":
            # Notes on the grid explain the race and come first, so that short reports show them,
            # too.
            notes = (*grid_notes(self.checked), *notes)
        elif conflict.missing_barrier_site is None:
            notes += (_ONE_WARP.format(spec.options.warps),)
        help_line = self.kinds[conflict.kind].help
        if conflict.kind == "race" and one.kind == other.kind == "atomic":
            help_line = _HELP_LOCAL
        related = [_related(first, one, other, spec)]
        if conflict.missing_barrier_site is not None:
            release = sites[conflict.missing_barrier_site]
            related.append(
                Related(
                    message="released here without a preceding barrier", location=release.location
                )
            )
            help_line = _HELP_RELEASE
        if conflict.kind != "intra_program_race" and "atomic" not in (one.kind, other.kind):
            related += self._weak_atomics()
            if conflict.kind == "race":
                help_line = self._stronger_order() or help_line
        help_line = race_advice(self.checked, conflict, sites, cause) or help_line
        return self.finding(
            conflict.kind,
            _message(conflict, one, other, name),
            argument=argument,
            location=other.location,
            program=spec.coordinates(second.program),
            lane=_lane(second, other),
            shape=other.shape,
            notes=notes,
            count=conflict.lanes,
            programs=conflict.programs,
            related=tuple(related),
            help=help_line,
        )

    def _tensors(self, conflict: Conflict, named: ArgumentSpec | None) -> Iterator[str]:
        """Yield the names of the tensors with the conflict; alternating buffers give several.

        Args:
            named: The argument that the finding names. It is preferred if several arguments are the
                same tensor.
        """
        checked, at = self.checked, 0
        while at < len(conflict.starts):
            address = int(conflict.starts[at])
            owner, storage = checked.addresses.owner(address), checked.addresses.around(address)
            if owner is None or storage is None:
                return
            holds_witness = storage[0] <= conflict.start < storage[1]
            yield named.name if named and holds_witness else checked.spec.names[owner]
            at = int(np.searchsorted(conflict.starts, storage[1]))

    def _stronger_order(self) -> str:
        """Return advice on the first atomic that would order accesses; empty if there is none."""
        for atomic in self.checked.kernel.fact(weak_atomics):
            if atomic.order and (order := ORDERS.get(atomic.lacks)):
                line = atomic.location.line
                return (
                    f'pass sem="{order}" instead of "{atomic.order}" to the atomic in line {line}'
                )
        return ""

    def _weak_atomics(self) -> Iterator[Related]:
        """Yield atomics that would order plain accesses if their memory semantics were stronger."""
        for atomic in self.checked.kernel.fact(weak_atomics):
            what = f'with sem="{atomic.order}" this' if atomic.order else "a volatile load"
            message = f"{what} orders nothing: it would have to {atomic.lacks}"
            yield Related(message=message, location=atomic.location)


def _element(argument: ArgumentSpec, item: int) -> str:
    """Return, e.g., "`x_ptr[3, 7]`", or an empty string if no single index names the element.

    Args:
        argument: The tensor that contains the element.
        item: Number of the element in its storage.
    """
    tensor = argument.tensor
    if tensor is None or not tensor.shape or not tensor.is_dense:
        return ""
    rest = item - tensor.element_offset
    if not 0 <= rest < prod(tensor.shape):
        return ""
    index = dict.fromkeys(range(len(tensor.shape)), 0)
    for stride, axis in sorted(((n, at) for at, n in enumerate(tensor.strides)), reverse=True):
        if tensor.shape[axis] > 1:
            index[axis], rest = divmod(rest, stride)
    return f"`{argument.name}[{', '.join(map(str, index.values()))}]`"


def _exchanges(module: Module) -> bool:
    """Return whether threads of a program exchange values anywhere in a kernel."""
    return any(map(exchanges_values, module.walk()))


def _message(conflict: Conflict, one: ProbeSite, other: ProbeSite, name: str) -> str:
    if conflict.kind == "overlapping_store":
        return f"several programs store to the same elements of {name}"
    if conflict.kind == "intra_program_race":
        if conflict.missing_barrier_site is not None:
            return f"{name} is released to other programs while stores may still be in flight"
        accesses = f"{_NOUNS[one.kind]} and {_NOUNS[other.kind]}"
        return f"{accesses} of {name} by different threads without a barrier"
    return f"unordered {one.kind} and {other.kind} of the same elements of {name}"


def _related(access: AccessRef, site: ProbeSite, beside: ProbeSite, spec: LaunchSpec) -> Related:
    argument = spec.argument(site.parameter)
    # Two parameters may be one tensor.
    through = (
        f" through `{argument.name}`" if argument and site.parameter != beside.parameter else ""
    )
    return Related(
        message=f"the same element is accessed here ({site.kind}){through}",
        location=site.location,
        program=spec.coordinates(access.program),
        lane=_lane(access, site),
    )


def _lane(access: AccessRef, site: ProbeSite) -> tuple[int, ...]:
    return lane_indices(site.lane_at(access.lane), site.shape)


def _with_others(finding: Finding, tensors: Iterable[str]) -> Finding:
    """Return the finding with a note that names the other tensors of the conflict."""
    if finding.argument is None:
        return finding
    others = ", ".join(f"`{name}`" for name in tensors if name != finding.argument.name)
    more = (f"both access elements of {others}, too",) if others else ()
    return replace(finding, notes=(*finding.notes, *more))


def _identical(finding: Finding) -> Finding:
    """Return an overlapping store as a note, because all programs store the same values."""
    message, notes = f"{finding.message}, always with the same values", (*finding.notes, OTHER_DATA)
    return replace(finding, severity="note", message=message, notes=notes)


def same_in_any_order(checked: CheckedLaunch, near: Records, sites: Sequence[Site]) -> bool:
    """Return whether a launch without races is known to have none in any order of its programs.

    Args:
        checked: A launch that has run without a race.
        near: The accesses that may share bytes with other accesses.
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


_HELP_LANES = "let each lane store to its own element, or reduce the values first"
OTHER_DATA = "the values are equal in this launch; with other data they may differ"


def lane_stores(
    check: Check, monitor: Monitor, accesses: Records, sites: Sequence[Site]
) -> Iterator[Finding]:
    """Yield findings for stores in which several lanes write the same element.

    If the lanes store different values, the finding is an error; otherwise, it is a note. Native
    code reads back the stored elements and thus detects different values; the log of accesses shows
    which lanes share an element.

    Args:
        check: The racecheck of the launch.
        monitor: Observations of the run in the programs' own order.
        accesses: The logged accesses that may share bytes with other accesses.
    """
    operations = [probe.operation for probe in monitor.sites]
    shared = shared_lanes(accesses, sites, operations)
    differing = _overwriting(check, monitor, {operations[lanes.first.site] for lanes in shared})
    yield from (_overwritten(check, count) for count in differing)
    reported = {count.witness.site.operation for count in differing}
    for lanes in shared:
        probe = monitor.sites[lanes.first.site]
        if operations[lanes.first.site] not in reported and not check.checked.kernel.at(
            uniform_stores, probe.location, False
        ):
            yield _always_equal(check, monitor, lanes)


def uniform_stores(module: Module) -> dict[Position, bool]:
    """Return the positions of stores whose lanes store the same value whatever the data are."""
    is_uniform: dict[Position, bool] = {}
    for op in module.kernel.walk():
        position = position_of(op.location)
        if op.name == "tt.store" and position is not None:
            value = op.operands[1]
            data, source = constant_of(value), value.defining_op
            uniform = data is not None and data.is_splat
            uniform |= source is not None and source.name == "tt.splat"
            is_uniform[position] = is_uniform.get(position, True) and uniform
    return {position: True for position, uniform in is_uniform.items() if uniform}


def _overwriting(check: Check, monitor: Monitor, shared: set[int]) -> list[Count]:
    """Return the stores whose lanes overwrite each other even if programs run one at a time."""
    checked = check.checked
    uniform = checked.kernel.fact(uniform_stores)
    failed = [c for c in _failed(monitor) if position_of(c.witness.site.location) not in uniform]
    alone = on_one_thread(checked.launch, checked.execute) if failed else None
    if alone is None:
        return failed
    failed_alone = {count.witness.site.operation: count for count in _failed(alone)}
    confirmed = failed_alone.keys() | (shared if _reads_its_stores(check) else set())
    best = (failed_alone.get(count.witness.site.operation, count) for count in failed)
    return [count for count in best if count.witness.site.operation in confirmed]


def _reads_its_stores(check: Check) -> bool:
    """Return whether a second run would load elements that the first run has stored."""
    launch, read = check.checked.launch, check.checked.kernel.fact(undefined.reads)
    return bool(read_and_written(launch, read, launch.written_storages or ()))


def _failed(monitor: Monitor) -> list[Count]:
    return [count for count in monitor.counts() if count.witness.test == "overwritten"]


def _overwritten(check: Check, count: Count) -> Finding:
    argument = check.checked.spec.argument(count.witness.site.parameter)
    name = f" of `{argument.name}`" if argument else ""
    site = count.witness.site
    cause = cause_of_update(check.checked, [site.location], site.parameter)
    return check.at_lanes(
        count,
        "overlapping_store",
        f"lanes of one store write different values to the same element{name}",
        argument=argument,
        notes=("the lane's value was overwritten by another lane",),
        cause=cause,
        help=_HELP_LANES if cause is None else update_help(cause),
    )


def _always_equal(check: Check, monitor: Monitor, shared: SharedLanes) -> Finding:
    spec, probe = check.checked.spec, monitor.sites[shared.first.site]
    owner = check.checked.addresses.owner(shared.first.address, through=probe.parameter)
    argument = spec.argument(probe.parameter if owner is None else owner)
    name = f" of `{argument.name}`" if argument else ""
    cause = cause_of_update(check.checked, [probe.location], probe.parameter)
    return check.finding(
        "overlapping_store",
        f"lanes of one store write to the same element{name}, always with the same values",
        severity="note",
        argument=argument,
        location=probe.location,
        program=spec.coordinates(shared.first.program),
        lane=lane_indices(probe.lane_at(shared.first.lane), probe.shape),
        shape=probe.shape,
        notes=(OTHER_DATA,),
        count=shared.count,
        programs=shared.programs,
        cause=cause,
        help=_HELP_LANES if cause is None else update_help(cause),
    )


_NO_ACCESSES = np.empty(0, ACCESS)


def near_accesses(monitor: Monitor) -> Records:
    """Return the accesses that may share bytes with others, ordered as each program made them.

    Accesses that obviously do not conflict with any other access are dropped before anything is
    copied or sorted. For most launches, no accesses remain.
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
    """Return whether a cheap test shows that no two accesses share a byte and conflict.

    The test must use little memory, because each scattered element has its own record.
    """
    untouched = monitor.untouched_log()
    if untouched is not None and (
        len(untouched) < 2 or disjoint_tiles(untouched, _sites_and_classes(monitor)[1])
    ):
        return True
    log = monitor.log()
    if len(log) < 2:
        return True
    first_site, last_site = log.bounds("site")
    if first_site < 0 or last_site >= REPEATED:
        return False
    classes = _sites_and_classes(monitor)[1]
    kinds = (np.bitwise_or.reduce(classes[sites]) for sites in log.pieces("site"))
    if not MAY_CONFLICT[int(np.bitwise_or.reduce(list(kinds)))]:
        return True
    runs = list(zip(log.pieces("start"), log.pieces("bytes"), strict=True))
    return disjoint_dense(runs, log.bounds("start"), *log.bounds("bytes"))


def sites_of(monitor: Monitor) -> list[Site]:
    """Return the kernel's probes as `races.Site`s."""
    return _sites_and_classes(monitor)[0]


#: Sites and their classes, by the kernel's table of probes, which is shared by all its launches.
_of_tables: WeakKeyDictionary[object, tuple[list[Site], Ints]] = WeakKeyDictionary()


def _sites_and_classes(monitor: Monitor) -> tuple[list[Site], Ints]:
    entry = _of_tables.get(monitor.table)
    if entry is None:
        sites = _sites(monitor)
        entry = _of_tables[monitor.table] = sites, classes_of(sites)
    return entry


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
