"""The check `deadlock`: programs that block each other or may do so.

The engine notices when no program can continue; `races.lock_order` finds locks that are taken in
opposite orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from ttools.core.errors import KernelError, Waiting
from ttools.core.findings.findings import Finding, Related
from ttools.core.location import SourceLocation, shown_place
from ttools.interpreter.analysis.effects import Provenance, synchronises
from ttools.interpreter.analysis.positions import position_of
from ttools.interpreter.runtime.blocked_programs import programs_text
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.ir import Module
from ttools.ir.dialects.traits import UNCOUNTED
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.memory.addresses import Addresses
from ttools.sanitizer.races import Nested, lock_cycle
from ttools.sanitizer.races.locks.lock_holders import Holder, lock_holders
from ttools.sanitizer.races.locks.lost_signals import lost_signal

#: Number of programs that run concurrently if programs of the kernel wait for each other. The
#: number does not depend on the host, so that a kernel that needs more is detected on every
#: machine. With two, neighbouring programs can still wait for each other.
_CONCURRENT_PROGRAMS = 2
_HELP_CO_RESIDENCY = (
    "launch no more programs than the GPU runs at once, which launch_cooperative_grid=True "
    "ensures, or split the kernel in two"
)
_HELP_LOST = "let the program that sets the word wait until another program has received the signal"
_HELP_KEPT = "release the lock on every path of the program that takes it"
_HELP_TWICE = "release the lock before the same program takes it again"
_HELP_ORDER = "take locks in the same order everywhere, for example by ascending index"


class Deadlock(Check):
    """Finds programs that wait for an event that never occurs, or is not guaranteed to occur."""

    name = "deadlock"
    page = "reference/findings.md#programs-that-wait-for-each-other"
    data_hooks = frozenset[str]()
    seeks = "deadlocks"
    aliases = ("synccheck",)
    kinds: ClassVar[Kinds] = {
        "deadlock": Kind(
            severity="error",
            meaning="Programs wait for each other, or take locks in orders that can lead to a "
            "deadlock; a warning if a program waits for another program that may not be running.",
        ),
        "divergent_barrier": Kind(
            severity="error",
            meaning="Some threads of a program do not reach a barrier at which others wait; "
            "detected on a GPU only.",
            help="let all threads of a program reach the barrier, or none",
        ),
    }

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Run two programs at once if programs wait for each other."""
        return (
            replace(options, threads=_CONCURRENT_PROGRAMS) if self.checked.kernel.waits else options
        )

    def recover(self, error: KernelError) -> Finding | None:
        """Return the finding for a launch in which no program could continue."""
        if error.kind != "deadlock":
            return None
        first = error.message.partition("\n")[0]
        lost = self._lost_signals(error.program)
        holders = self._holders(error.program)
        return self.finding(
            "deadlock",
            first,
            argument=self.checked.spec.argument(self._waited_on(error.location)),
            location=error.location,
            program=error.program,
            notes=tuple(_who_waits(one, error.location) for one in error.waiting),
            related=(*lost, *(self._held_lock(holder, error.waiting) for holder in holders)),
            help=_HELP_LOST if lost else self._release(holders, error.waiting) or error.help,
        )

    def _lost_signals(self, waiter: tuple[int, int, int] | None) -> tuple[Related, ...]:
        """Return the locations where signals for `waiter` are overwritten before being received."""
        checked, monitor = self.checked, self.checked.launch.monitor
        if waiter is None or monitor is None or not checked.instruments.synchronised:
            return ()
        swaps = _places_of_exchanges(checked.launch.kernel.variants.module)
        sites = monitor.sites
        giving = {n for n, site in enumerate(sites) if position_of(site.location) in swaps}
        lost = lost_signal(monitor.records()[1], checked.spec.linear(waiter), giving)
        if lost is None:
            return ()
        times = "" if lost.count == 1 else f", {lost.count:,} times"
        return (
            Related(
                message="the word is set again here before another program has received the "
                f"signal{times}, so that signals are lost",
                location=sites[lost.site].location,
                program=checked.spec.coordinates(lost.program),
            ),
        )

    def _holders(self, waiter: tuple[int, int, int] | None) -> list[Holder]:
        """Return the programs that keep `waiter` waiting.

        The first program holds the lock for which `waiter` waits, the next program holds the lock
        for which the first one waits, and so on.
        """
        checked, monitor = self.checked, self.checked.launch.monitor
        if waiter is None or monitor is None or not checked.instruments.synchronised:
            return []
        waiting = _swaps_waited_for(checked.launch.kernel.variants.module)
        sites = monitor.sites
        locking = {n for n, site in enumerate(sites) if position_of(site.location) in waiting}
        near, syncs = monitor.records()
        return lock_holders(near, syncs, sites, checked.spec.linear(waiter), locking)

    def _held_lock(self, holder: Holder, waiting: Sequence[Waiting]) -> Related:
        """Describe where a program took the lock for which another program waits."""
        spec, monitor = self.checked.spec, self.checked.launch.monitor
        assert monitor is not None
        program = spec.coordinates(holder.program)
        waiter = spec.coordinates(holder.waiter)
        runs = any(program in one.programs for one in waiting)
        left = "not released" if runs else "never released"
        return Related(
            message=f"the lock that program {waiter} waits for was taken here and {left}",
            location=monitor.sites[holder.site].location,
            program=program,
        )

    def _release(self, holders: Sequence[Holder], waiting: Sequence[Waiting]) -> str:
        """Return advice on locks that are not released; empty if the last holder also waits."""
        if not holders:
            return ""
        if any(holder.program == holder.waiter for holder in holders):
            return _HELP_TWICE
        waiters = {holder.waiter for holder in holders}
        if any(holder.program in waiters for holder in holders[1:]):
            return _HELP_ORDER
        last = self.checked.spec.coordinates(holders[-1].program)
        return "" if any(last in one.programs for one in waiting) else _HELP_KEPT

    def findings(self) -> Iterator[Finding]:
        """Yield the finding for locks that are taken in orders that may cause a deadlock."""
        findings = self.checked.findings
        deadlock = self.checked.hung and findings[0].kind == "deadlock"
        if deadlock and any(finding.kind.startswith("oob_") for finding in findings):
            findings[0] = _doubtful(findings[0])
        if self.checked.instruments.synchronised:
            yield from self._lock_order()

    def remarks(self) -> Iterator[Finding]:
        """Yield findings for waits whose end depends on the number of programs that run at once."""
        report = self.checked.report
        if report.warnings:
            self.checked.report = report._replace(warnings=())
        for warning in () if self.checked.launch.kernel.options.cooperative else report.warnings:
            yield self.finding(
                "deadlock",
                warning.message,
                severity="warning",
                argument=self.checked.spec.argument(self._waited_on(warning.location)),
                location=warning.location,
                program=warning.program,
                help=_HELP_CO_RESIDENCY,
            )

    def _waited_on(self, location: SourceLocation | None) -> int:
        """Return the index of the parameter polled by the waiting loop at `location`, or -1."""
        kernel = self.checked.launch.kernel.variants.module.kernel
        provenance = Provenance(kernel)
        for loop in kernel.walk():
            if not loop.has(UNCOUNTED) or loop.location != location:
                continue
            for op in loop.walk():
                if op is not loop and synchronises(op) and op.operands:
                    parameters = [
                        root for root in provenance.of(op.operands[0]) if root is not None
                    ]
                    return parameters[0] if parameters else -1
        return -1

    def _lock_order(self) -> Iterator[Finding]:
        monitor, spec = self.checked.monitor, self.checked.spec
        addresses = self.checked.addresses
        assert monitor is not None
        _, syncs = monitor.records()
        if not len(syncs):
            return
        waiting = _swaps_waited_for(self.checked.launch.kernel.variants.module)
        sites = monitor.sites
        locking = {n for n, site in enumerate(sites) if position_of(site.location) in waiting}
        cycle = lock_cycle(syncs, locking)
        if not cycle:
            return
        first = cycle[0]
        owner = addresses.owner(first.wanted_lock, through=sites[first.wanted_site].parameter)
        yield self.finding(
            "deadlock",
            "programs take locks in different orders, so that each may hold what another waits for",
            argument=spec.argument(-1 if owner is None else owner),
            location=sites[first.wanted_site].location,
            program=spec.coordinates(first.program),
            notes=(_held(first, addresses),),
            programs=len(cycle),
            related=tuple(
                Related(
                    message=f"a lock is taken here: {_held(nested, addresses)}",
                    location=sites[nested.wanted_site].location,
                    program=spec.coordinates(nested.program),
                )
                for nested in cycle[1:]
            ),
            help=_HELP_ORDER,
        )


def _places_of_exchanges(module: Module) -> set[object]:
    """Return the positions of atomic exchanges, which overwrite a word and return its old value."""
    return {
        position_of(op.location)
        for op in module.kernel.walk()
        if op.attributes.get("atomic_rmw_op") == "exch"
    }


def _swaps_waited_for(module: Module) -> set[object]:
    """Return the positions of compare-and-swaps that are repeated in a loop until they succeed."""
    return {
        position_of(op.location)
        for loop in module.kernel.walk()
        if loop.has(UNCOUNTED)
        for op in loop.walk()
        if op.operand("cmp") is not None
    }


def _who_waits(waiting: Waiting, here: SourceLocation | None) -> str:
    """Return `program (1, 0, 0) waits here`, or the line at which it waits."""
    verb = "waits" if len(waiting.programs) == 1 else "wait"
    place = "at an unknown line"
    if waiting.location is not None:
        file, line = waiting.location.file, waiting.location.line
        same = here is not None and here.file == file
        place = f"at line {line}" if same else f"at {shown_place(file, line)}"
    return f"{programs_text(waiting)} {verb} {'here' if waiting.location == here else place}"


def _doubtful(deadlock: Finding) -> Finding:
    """Return the finding with a note that out-of-bounds accesses may have caused the deadlock."""
    note = "accesses outside tensors were skipped, which may have caused the deadlock"
    return replace(deadlock, notes=(*deadlock.notes, note), help="correct those accesses first")


def _held(nested: Nested, addresses: Addresses) -> str:
    held_lock, wanted_lock = (
        _number(lock, addresses) for lock in (nested.held_lock, nested.wanted_lock)
    )
    return f"the program holds the lock at {held_lock} when it takes the one at {wanted_lock}"


def _number(address: int, addresses: Addresses) -> str:
    owner = addresses.owner(address)
    return f"{address:#x}" if owner is None else f"byte {address - addresses.start(owner):,}"
