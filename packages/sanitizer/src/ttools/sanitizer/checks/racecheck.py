"""racecheck: findings from the conflicts between the accesses of a launch.

Owns the words. Which accesses conflict is `races`' business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from ttools.core.findings import Finding, Related, Severity
from ttools.core.location import SourceLocation
from ttools.interpreter.access_log import tiles_of
from ttools.interpreter.emit.module import ProbeSite
from ttools.interpreter.emit.probe_layout import ACQUIRES, IS_LOCAL, REPEATED
from ttools.interpreter.monitor import Count, Monitor, SiteTable
from ttools.sanitizer.analysis.weak_atomics import WeakAtomic
from ttools.sanitizer.memory.addresses import Addresses
from ttools.sanitizer.races import (
    AccessRef,
    Conflict,
    Site,
    crowded,
    find_conflicts,
    on_a_lattice,
    seen_apart,
)
from ttools.sanitizer.races.records import column
from ttools.sanitizer.subject import Subject, lane_indices

_NOUNS = {"load": "loads", "store": "stores", "atomic": "atomics"}
_HELP = {
    "overlapping_store": "let each element be stored by one program, or add with tl.atomic_add",
    "race": "use an atomic, or order the programs: release after tl.debug_barrier(), acquire",
    "intra_program_race": "put a tl.debug_barrier() between the two",
}
_HELP_RELEASE = "put a tl.debug_barrier() before the release"
#: Of two accesses that race, the finding stands at the one that ranks higher.
_FAULT = {"load": 0, "atomic": 1, "store": 2}
_HELP_LOCAL = 'an atomic of scope "cta" is one towards its own program only: leave out `scope`'


def sites_of(monitor: Monitor) -> list[Site]:
    """The kernel's probes as the analysis of races wants them."""
    return [
        Site(
            kind="load" if probe.kind == "check" else probe.kind,  # type: ignore[arg-type]
            size=max(1, probe.size),
            shape=tuple(probe.shape[axis] for axis in probe.walk),
            order=probe.order,
            op=probe.operation,
            volatile=probe.kind == "load" and bool(probe.flags & ACQUIRES),
            local=probe.kind == "atomic" and bool(probe.flags & IS_LOCAL),
        )
        for probe in monitor.sites
    ]


#: By the kernel's table of probes: the same for all its launches.
_known_sites: WeakKeyDictionary[SiteTable, list[Site]] = WeakKeyDictionary()


def race_findings(
    monitor: Monitor,
    subject: Subject,
    addresses: Addresses,
    table_of: Callable[[SourceLocation | None], int],
    weak_atomics: Callable[[], Sequence[WeakAtomic]],
) -> Iterator[tuple[Conflict, Finding]]:
    """The findings of one launch, each with the conflict it tells of.

    Args:
        monitor: what the launch left.
        subject: what to call things by.
        addresses: what memory is known.
        table_of: the parameter that an access at some place loads its pointer from; -1 if unknown.
        weak_atomics: of the kernel.
    """
    if _seen_apart(monitor):
        return
    footprints, syncs = monitor.footprints()
    records = footprints.records
    near = crowded(
        column(records, "start"), column(records, "end"), footprints.count, footprints.stride
    )
    accesses = footprints.take(near).runs()
    if len(accesses) < 2:
        return
    sites = _known_sites.get(monitor.table)
    if sites is None:
        sites = _known_sites[monitor.table] = sites_of(monitor)
    united: dict[tuple[object, ...], tuple[Conflict, Finding]] = {}
    for conflict in find_conflicts(accesses, sites, syncs if len(syncs) else None):
        finding = _finding(conflict, monitor.sites, subject, addresses, table_of)
        finding = _with_weak(conflict, finding, monitor.sites, weak_atomics)
        # The copies of one operation are one place to the user.
        key = (conflict.kind, finding.location, *(r.location for r in finding.related))
        known = united.get(key)
        if known is None or finding.count > known[1].count:
            united[key] = conflict, finding
    yield from united.values()


def _seen_apart(monitor: Monitor) -> bool:
    """Whether what was logged is easily seen to share no byte.

    Elements that are scattered leave a record each, so the usual answer is to cost little memory.
    """
    untouched = monitor.untouched_log()
    if untouched is not None:
        if len(untouched) < 2:
            return True
        tiles = tiles_of(untouched)
        if tiles and on_a_lattice(tiles.starts, tiles.runs, tiles.most, tiles.stride):
            return True
    log = monitor.log()
    if len(log) < 2:
        return True
    first_site, last_site = log.bounds("site")
    if first_site < 0 or last_site >= REPEATED:
        return False
    runs = list(zip(log.pieces("start"), log.pieces("bytes"), strict=True))
    return seen_apart(runs, log.bounds("start"), *log.bounds("bytes"))


def overwritten_findings(counts: Sequence[Count], subject: Subject) -> Iterator[Finding]:
    """The findings of stores whose lanes overwrite each other with other values."""
    for count in counts:
        site, witness = count.witness.site, count.witness
        if witness.test != "overwritten":
            continue
        argument = subject.argument(site.parameter)
        name = f" of `{argument.name}`" if argument else ""
        yield Finding(
            kind="overlapping_store",
            check="racecheck",
            severity="error",
            message=f"lanes of one store write different values to the same element{name}",
            kernel=subject.kernel,
            argument=argument,
            location=site.location,
            program=subject.program(witness.program),
            lane=lane_indices(witness.lane, site.shape),
            shape=site.shape,
            iteration=witness.turns,
            variables=subject.variables(witness.values),
            notes=("the lane's value was overwritten by another lane",),
            count=count.lanes,
            programs=count.programs,
            launch=subject.host_line,
            config=subject.config,
            help="let each lane store to its own element, or reduce the values before",
        )


def _finding(
    conflict: Conflict,
    sites: Sequence[ProbeSite],
    subject: Subject,
    addresses: Addresses,
    table_of: Callable[[SourceLocation | None], int],
) -> Finding:
    first, second = conflict.first, conflict.second
    one, other = sites[first.site], sites[second.site]
    # The finding stands where something is stored; the other access is the related one. Atomics
    # are in order among each other, so a plain store beside one is more at fault.
    if conflict.kind != "intra_program_race" and _FAULT[one.kind] > _FAULT[other.kind]:
        first, second, one, other = second, first, other, one
    owner = addresses.owner(conflict.start, through=other.parameter)
    argument = subject.argument(table_of(other.location) if owner is None else owner)
    name = f"`{argument.name}`" if argument else f"address {conflict.start:#x}"
    storage = addresses.around(conflict.start)
    notes: tuple[str, ...] = ()
    if storage is not None:
        item = (conflict.start - storage[0]) // max(1, other.size)
        whose = "its storage"
        if argument and owner is None:
            name, whose = f"a tensor behind {name}", f"that tensor of {_bytes(storage)}"
        notes = (f"element {item:,} of {whose} is touched by both",)
    help_line = _HELP[conflict.kind]
    if conflict.kind == "race" and one.kind == other.kind == "atomic":
        help_line = _HELP_LOCAL
    related = [_related(first, one, other, subject)]
    if conflict.missing_barrier_site is not None:
        release = sites[conflict.missing_barrier_site]
        related.append(
            Related(message="released here without a barrier before", location=release.location)
        )
        help_line = _HELP_RELEASE
    return Finding(
        kind=conflict.kind,
        check="racecheck",
        severity=conflict.severity,
        message=_message(conflict, one, other, name),
        kernel=subject.kernel,
        argument=argument,
        location=other.location,
        program=subject.program(second.program),
        lane=_lane(second, other),
        shape=other.shape,
        notes=notes,
        count=conflict.count,
        programs=conflict.programs,
        related=tuple(related),
        launch=subject.host_line,
        config=subject.config,
        help=help_line,
    )


def _with_weak(
    conflict: Conflict,
    finding: Finding,
    sites: Sequence[ProbeSite],
    weak_atomics: Callable[[], Sequence[WeakAtomic]],
) -> Finding:
    """Names the atomics that would order plain accesses if they were stronger."""
    kinds = {sites[access.site].kind for access in (conflict.first, conflict.second)}
    if conflict.kind == "intra_program_race" or "atomic" in kinds:
        return finding
    weak = tuple(
        Related(
            message=f'with sem="{each.order}" this gives no order: it would have to {each.lacks}',
            location=each.location,
        )
        for each in weak_atomics()
    )
    return replace(finding, related=(*finding.related, *weak)) if weak else finding


def _bytes(storage: tuple[int, int]) -> str:
    return f"{storage[1] - storage[0]:,} bytes"


def _message(conflict: Conflict, one: ProbeSite, other: ProbeSite, name: str) -> str:
    if conflict.kind == "overlapping_store":
        return f"several programs store to the same elements of {name}"
    if conflict.kind == "intra_program_race":
        if conflict.missing_barrier_site is not None:
            return f"{name} is released to other programs while stores may still be under way"
        return f"{_NOUNS[one.kind]} and {_NOUNS[other.kind]} of {name} by other threads, no barrier"
    return f"unordered {one.kind} and {other.kind} of the same elements of {name}"


def _related(access: AccessRef, site: ProbeSite, beside: ProbeSite, subject: Subject) -> Related:
    argument = subject.argument(site.parameter)
    # Two parameters may be one tensor.
    through = (
        f" through `{argument.name}`" if argument and site.parameter != beside.parameter else ""
    )
    return Related(
        message=f"the same element is accessed here ({site.kind}){through}",
        location=site.location,
        program=subject.program(access.program),
        lane=_lane(access, site),
    )


def _lane(access: AccessRef, site: ProbeSite) -> tuple[int, ...]:
    return lane_indices(site.lane_at(access.lane), site.shape)


def identical(finding: Finding) -> Finding:
    """The note that an overlapping store becomes when all programs store the same values."""
    severity: Severity = "note"
    return replace(
        finding,
        severity=severity,
        message=f"{finding.message}, always the same values",
        help=None,
    )
