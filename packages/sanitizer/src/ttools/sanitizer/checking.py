"""Runs a launch under checks, none of which it knows by name, and collects what they find."""

from __future__ import annotations

from collections.abc import Sequence

from ttools.core.errors import KernelError
from ttools.sanitizer.checks.check import Check
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.passes.rewrites import Pass


def run_under_checks(checked: CheckedLaunch, kinds: Sequence[type[Check]]) -> None:
    """Runs a launch; what is found is in its `findings` then, also if it raises.

    Args:
        checked: the launch.
        kinds: the checks to make of it, in the order of the registry.

    Raises:
        TtoolsError: as the launch would without checks, except for what a check recovers from.
    """
    checks = [kind(checked) for kind in kinds]
    passes: list[Pass] = []
    hidden: list[int] = []
    logs_accesses = False
    for check in checks:
        added = check.passes()
        if added:
            passes += added
            hidden += check.hidden()
        logs_accesses |= "accesses" in check.observes
    checked.instrument(passes, hidden, logs_accesses=logs_accesses)
    options = checked.launch.run.launch_options
    for check in checks:
        options = check.prepare(options)
    try:
        checked.report = checked.execute(options)
    except KeyboardInterrupt:
        _collect_failures(checked, checks)
        raise
    except KernelError as error:
        finding = next((found for check in checks if (found := check.recover(error))), None)
        if finding is None:
            _collect_failures(checked, checks)
            raise
        checked.findings.append(finding)
        checked.hung = True
    monitor = checked.monitor = checked.launch.monitor
    assert monitor is not None
    _collect_failures(checked, checks)
    _note_unchecked(checked, checks)
    for check in checks:
        checked.findings += check.findings()
    for check in checks:
        checked.findings += check.remarks()


def _collect_failures(checked: CheckedLaunch, checks: Sequence[Check]) -> None:
    """Takes the findings of accesses and inserted checks that failed, as far as the launch came."""
    monitor = checked.launch.monitor
    if monitor is not None and monitor.fails:
        counts = monitor.counts()
        for check in checks:
            checked.findings += check.failures(counts)


def _note_unchecked(checked: CheckedLaunch, checks: Sequence[Check]) -> None:
    """Warns of what the passes could not check."""
    rewrites = checked.rewrites
    if rewrites.passes and rewrites.unchecked is None:  # native code came from the cache
        rewrites.apply(checked.launch.variants.parse())
    if not rewrites.unchecked:
        return
    by_name = {check.name: check for check in checks}
    for name, note in rewrites.unchecked:
        checked.findings.append(
            by_name[name].finding(
                "unsupported", f"not checked: {note.text}", location=note.location
            )
        )
