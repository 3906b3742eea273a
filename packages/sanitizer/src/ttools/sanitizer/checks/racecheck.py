"""racecheck: conflicts between the accesses of a launch that nothing orders.

Owns the words, and which launches are run again: where the values stored, or another order of
the programs, decide. Which accesses conflict is `races`' business.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import ClassVar

import numpy as np

from ttools.core.findings.findings import Finding, Related
from ttools.core.process.phases import phase
from ttools.core.spec import ArgumentSpec, LaunchSpec
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.abi.probe_layout import REREADS
from ttools.interpreter.analysis.effects import exchanges_values
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Monitor
from ttools.interpreter.runtime.packed_log import MOST_RECORDS
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.ir import Module
from ttools.sanitizer.analysis.pointer_tables import pointer_tables
from ttools.sanitizer.analysis.weak_atomics import weak_atomics
from ttools.sanitizer.checks.any_order import same_in_any_order
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.checks.lane_stores import OTHER_DATA, lane_stores
from ttools.sanitizer.checks.near_accesses import near_accesses, sites_of
from ttools.sanitizer.launch.replay import (
    changing_stores,
    in_another_order,
    snapshot_before,
    touches,
)
from ttools.sanitizer.launch.witness_text import lane_indices
from ttools.sanitizer.passes import undefined
from ttools.sanitizer.races import AccessRef, Conflict, EarliestReads, Records, find_conflicts

_NOUNS = {"load": "loads", "store": "stores", "atomic": "atomics"}
_HELP_RELEASE = "put a tl.debug_barrier() before the release"
_HELP_LOCAL = 'an atomic of scope "cta" is atomic only within its own program: leave out `scope`'
_TOO_MANY = (
    f"the launch makes more accesses than the {MOST_RECORDS:,} that races are looked for in: "
    "not all of it was checked"
)
#: A launch that had to be stopped is not to take much longer.
_MOST_OF_STOPPED = 1 << 20
#: Of the tensors that two accesses race in.
_MOST_NAMED = 4
#: The finding of two accesses that race stands at the one that ranks higher.
_FAULT = {"load": 0, "atomic": 1, "store": 2}
_NONE: Mapping[int, int] = {}


class Racecheck(Check):
    """Unordered accesses of programs, and of the threads of one, to the same element."""

    name = "racecheck"
    aliases = ("tsan",)
    observes = frozenset({"accesses"})
    analysis = "race analysis"
    seeks = "races"
    kinds: ClassVar[Kinds] = {
        "overlapping_store": Kind(
            severity="error",
            meaning="Programs, or lanes of one store, write the same element unordered; a note "
            "when all values are identical.",
            help="let each element be stored by one program, or add with tl.atomic_add",
        ),
        "race": Kind(
            severity="error",
            meaning="A program reads or updates an element while another writes it, unordered.",
            help="use an atomic, or order the programs: release after tl.debug_barrier(), acquire",
        ),
        "intra_program_race": Kind(
            severity="warning",
            meaning="Lanes of a program load and store the same element, without a barrier.",
            help="put a tl.debug_barrier() between the two",
        ),
    }

    _before: Snapshot | None = None

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Saves what another order of the programs must find, too."""
        checked = self.checked
        if checked.instruments.synchronised:
            self._before = snapshot_before(checked.launch, checked.kernel.fact(undefined.reads))
        return options

    def findings(self) -> Iterator[Finding]:
        """Stores whose lanes overwrite each other, and races in the orders that are run."""
        monitor = self.checked.monitor
        assert monitor is not None
        if monitor.stop is not None:
            monitor.shorten_log(_MOST_OF_STOPPED)
        near = near_accesses(monitor)
        if monitor.log_is_full:
            if monitor.stop is None:
                yield self.finding("unsupported", _TOO_MANY)
            if self.checked.instruments.synchronised:
                return  # what is missing may have ordered the rest
        found = []
        if len(near) or monitor.fails:
            found = list(lane_stores(self, monitor, near, sites_of(monitor)))
        found += self._races(monitor, near)
        yield from found
        if self._before is not None and (
            found or not same_in_any_order(self.checked, near, sites_of(monitor))
        ):
            known = {(finding.kind, finding.location) for finding in found}
            yield from self._in_another_order(self._before, known)

    def _races(
        self, monitor: Monitor, near: Records, earlier: Mapping[int, int] = _NONE
    ) -> Iterator[Finding]:
        checked = self.checked
        found = [] if len(near) < 2 else self._conflicts(monitor, near, earlier)
        # Stores that conflict with loads too depend on the order, whatever they store.
        racing = {finding.argument for conflict, finding in found if conflict.kind == "race"}
        changing: Records | None = None
        if any(c.overlaps is not None and f.argument not in racing for c, f in found):
            changing = changing_stores(checked.launch, checked.regions, checked.addresses)
        for conflict, finding in found:
            overlaps = conflict.overlaps
            if changing is not None and overlaps is not None and finding.argument not in racing:
                yield finding if touches(changing, overlaps) else _identical(finding)
            else:
                yield finding

    def _in_another_order(self, before: Snapshot, known: Set[object]) -> Iterator[Finding]:
        """Races that only another order of the programs shows."""
        checked = self.checked
        seed = checked.options.seed
        options = replace(checked.launch.run.launch_options, order="random", seed=seed)
        where = f"random order (seed {seed})"
        earliest = None
        if checked.hung:
            # Who came too late may come first: waiting may be all that ordered them.
            options = replace(checked.launch.run.launch_options, order="reverse")
            where = "reverse order"
        elif checked.kernel.waits:
            # One program after the other: who comes first does all it can.
            options = replace(options, threads=1)
            monitor = checked.monitor
            if monitor is not None and any(site.flags & REREADS for site in monitor.sites):
                # Locks leave no word as it is: nothing of theirs may be seen earlier.
                earliest = EarliestReads()
                where += ", or when waits end as early as they may"
        with phase("run in another order"):
            monitor = in_another_order(
                checked.launch, before, lambda: checked.execute(options, earliest)
            )
        if monitor is None:
            return
        earlier = {} if earliest is None else earliest.earlier
        for finding in self._races(monitor, near_accesses(monitor), earlier):
            if (finding.kind, finding.location) not in known:
                note = f"seen when the programs run in {where}"
                yield replace(finding, notes=(*finding.notes, note))

    def _conflicts(
        self, monitor: Monitor, near: Records, earlier: Mapping[int, int]
    ) -> list[tuple[Conflict, Finding]]:
        """The conflicts of one execution, each with its finding."""
        sites, (_, syncs) = sites_of(monitor), monitor.footprints()
        united: dict[tuple[object, ...], tuple[Conflict, Finding]] = {}
        tensors: defaultdict[tuple[object, ...], dict[str, None]] = defaultdict(dict)
        conflicts = find_conflicts(
            near,
            sites,
            syncs if len(syncs) else None,
            earlier,
            warps=self.checked.launch.kernel.options.warps,
            exchanges=self.checked.kernel.fact(_exchanges),
        )
        for conflict in conflicts:
            finding = self._conflict_finding(conflict, monitor.sites)
            # The copies of one operation are one location to the user.
            key = (conflict.kind, finding.location, *(r.location for r in finding.related))
            names = islice(self._tensors(conflict, finding.argument), _MOST_NAMED)
            tensors[key].update(dict.fromkeys(names))
            known = united.get(key)
            if known is None or finding.count > known[1].count:
                united[key] = conflict, finding
        return [(each, _with_others(f, tensors[key])) for key, (each, f) in united.items()]

    def _conflict_finding(self, conflict: Conflict, sites: Sequence[ProbeSite]) -> Finding:
        spec, addresses = self.checked.spec, self.checked.addresses
        first, second = conflict.first, conflict.second
        one, other = sites[first.site], sites[second.site]
        # The finding stands where something is stored; the other access is the related one.
        # Atomics are in order among each other, so a plain store beside one is more at fault.
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
            whose = "its storage"
            if argument and owner is None:
                name = f"a tensor behind {name}"
                whose = f"that tensor of {storage[1] - storage[0]:,} bytes"
            notes = (f"element {item:,} of {whose} is touched by both",)
        help_line = self.kinds[conflict.kind].help
        if conflict.kind == "race" and one.kind == other.kind == "atomic":
            help_line = _HELP_LOCAL
        related = [_related(first, one, other, spec)]
        if conflict.missing_barrier_site is not None:
            release = sites[conflict.missing_barrier_site]
            related.append(
                Related(message="released here without a barrier before", location=release.location)
            )
            help_line = _HELP_RELEASE
        if conflict.kind != "intra_program_race" and "atomic" not in (one.kind, other.kind):
            related += self._weak_atomics()
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
        """The tensors in which the two conflict: several where buffers take turns.

        Args:
            named: the parameter that this names, of several for one tensor.
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

    def _weak_atomics(self) -> Iterator[Related]:
        """The atomics that would order plain accesses if they were stronger."""
        for each in self.checked.kernel.fact(weak_atomics):
            what = f'with sem="{each.order}" this' if each.order else "a volatile load"
            message = f"{what} orders nothing: it would have to {each.lacks}"
            yield Related(message=message, location=each.location)


def _exchanges(module: Module) -> bool:
    """Whether the threads of a program give each other values somewhere in a kernel."""
    return any(exchanges_values(op) for each in module.functions.values() for op in each.walk())


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
    """The finding of one tensor, with the names of those that it is about, too."""
    if finding.argument is None:
        return finding
    others = ", ".join(f"`{name}`" for name in tensors if name != finding.argument.name)
    more = (f"elements of {others} are touched by both, too",) if others else ()
    return replace(finding, notes=(*finding.notes, *more))


def _identical(finding: Finding) -> Finding:
    """The note that an overlapping store becomes when all programs store the same values."""
    message, notes = f"{finding.message}, always the same values", (*finding.notes, OTHER_DATA)
    return replace(finding, severity="note", message=message, notes=notes)
