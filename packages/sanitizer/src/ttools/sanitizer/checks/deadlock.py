"""deadlock: findings from launches whose programs wait for each other in vain, or nearly so.

Owns the words. Which locks are taken in opposite orders is `races`' business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ttools.core.errors import KernelError
from ttools.core.findings import Finding, Related
from ttools.core.location import SourceLocation
from ttools.interpreter.emit.effects import Provenance, synchronises
from ttools.interpreter.monitor import Monitor
from ttools.interpreter.observation import ObservedLaunch
from ttools.interpreter.parking import LaunchWarning
from ttools.sanitizer.analysis.pointer_tables import place_of
from ttools.sanitizer.memory.addresses import Addresses
from ttools.sanitizer.races import Nested, lock_cycle
from ttools.sanitizer.subject import Subject


def _waited_on(launch: ObservedLaunch, location: SourceLocation | None) -> int:
    """The parameter that the waiting loop at a place looks at, or -1."""
    kernel = launch.variants.module.kernel
    provenance = Provenance(kernel)
    for loop in kernel.walk():
        if loop.name != "scf.while" or loop.location != location:
            continue
        for op in loop.walk():
            if op is not loop and synchronises(op) and op.operands:
                known = [root for root in provenance.of(op.operands[0]) if root is not None]
                return known[0] if known else -1
    return -1


def deadlock_finding(error: KernelError, subject: Subject, launch: ObservedLaunch) -> Finding:
    """The finding for a launch that could not end."""
    first, *rest = error.message.splitlines()
    return Finding(
        kind="deadlock",
        check="deadlock",
        severity="error",
        message=first,
        kernel=subject.kernel,
        argument=subject.argument(_waited_on(launch, error.location)),
        location=error.location,
        program=error.program,
        notes=tuple(_who_waits(line.strip(), error.location) for line in rest),
        launch=subject.host_line,
        config=subject.config,
        help=error.help,
    )


def _who_waits(line: str, here: SourceLocation | None) -> str:
    """`program (1, 0, 0) waits here` instead of the place that the finding stands at."""
    who = line.removesuffix(f" at {here}")
    if who == line:
        return line
    return f"{who} wait{'s' if who.startswith('program ') else ''} here"


def doubtful(deadlock: Finding) -> Finding:
    """The finding of a launch that accessed what is no tensor's, as it waited or before."""
    note = "accesses outside of tensors were not made, which may be why it waits"
    return replace(deadlock, notes=(*deadlock.notes, note), help="correct those accesses first")


def co_residency_finding(
    warning: LaunchWarning, subject: Subject, launch: ObservedLaunch
) -> Finding:
    """The finding for a launch that ended only because more programs ran at once than threads."""
    return Finding(
        kind="deadlock",
        check="deadlock",
        severity="warning",
        message=warning.message,
        kernel=subject.kernel,
        argument=subject.argument(_waited_on(launch, warning.location)),
        location=warning.location,
        program=warning.program,
        launch=subject.host_line,
        config=subject.config,
        help="launch no more programs than the GPU runs at once, or split the kernel in two",
    )


def lock_order_findings(
    monitor: Monitor, subject: Subject, launch: ObservedLaunch, addresses: Addresses
) -> Iterator[Finding]:
    """The finding for programs that take locks in orders that may block them, if there are any."""
    _, syncs = monitor.records()
    if not len(syncs):
        return
    waiting = {
        place_of(op.location)
        for loop in launch.variants.module.kernel.walk()
        if loop.name == "scf.while"
        for op in loop.walk()
        if op.name == "tt.atomic_cas"
    }
    sites = monitor.sites
    locking = {n for n, site in enumerate(sites) if place_of(site.location) in waiting}
    circle = lock_cycle(syncs, locking)
    if not circle:
        return
    first = circle[0]
    owner = addresses.owner(first.wanted, through=sites[first.wanted_site].parameter)
    yield Finding(
        kind="deadlock",
        check="deadlock",
        severity="error",
        message="programs take locks in different orders, so that each may hold what another "
        "waits for",
        kernel=subject.kernel,
        argument=subject.argument(-1 if owner is None else owner),
        location=sites[first.wanted_site].location,
        program=subject.program(first.program),
        notes=(_held(first, addresses),),
        programs=len(circle),
        related=tuple(
            Related(
                message=f"taken here, while {_held(nested, addresses)}",
                location=sites[nested.wanted_site].location,
                program=subject.program(nested.program),
            )
            for nested in circle[1:]
        ),
        launch=subject.host_line,
        config=subject.config,
        help="take locks in the same order everywhere, for example by ascending index",
    )


def _held(nested: Nested, addresses: Addresses) -> str:
    held, wanted = (_number(lock, addresses) for lock in (nested.held, nested.wanted))
    return f"it holds the lock at {held} when it takes the one at {wanted}"


def _number(address: int, addresses: Addresses) -> str:
    owner = addresses.owner(address)
    return f"{address:#x}" if owner is None else f"byte {address - addresses.start(owner):,}"
