"""Runs a launch under checks, none of which it knows by name, and collects what they find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ttools.core.errors import KernelError
from ttools.core.findings.findings import Finding
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.sanitizer.checks.check import Check, Observation
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.stopped import stopped
from ttools.sanitizer.passes.rewrites import Pass


class ChosenChecks:
    """The checks of a run, and which of them have something to do at each step of a launch.

    Args:
        kinds: in the order of the registry.
    """

    def __init__(self, kinds: Sequence[type[Check]]) -> None:
        self._kinds = kinds
        self._logs_accesses = self.observe("accesses")
        # A tiny launch takes about as long as a few dozen calls of hooks that do nothing.
        self._with_passes = sorted(
            self._overriding("passes"), key=lambda n: not kinds[n].rewrites_first
        )
        self._with_prepare = self._overriding("prepare")
        self._with_findings = self._overriding("findings")
        self._with_remarks = self._overriding("remarks")

    def _overriding(self, hook: str) -> Sequence[int]:
        before = getattr(Check, hook)
        return [n for n, kind in enumerate(self._kinds) if getattr(kind, hook) is not before]

    def observe(self, what: Observation) -> bool:
        """Whether any of them needs to see this."""
        return any(what in kind.observes for kind in self._kinds)

    def run(self, checked: CheckedLaunch) -> None:
        """Runs a launch; what is found is in its `findings` then, also if it raises.

        Raises:
            TtoolsError: as the launch would without checks, except for what a check recovers from.
        """
        checks = [kind(checked) for kind in self._kinds]
        passes: list[Pass] = []
        hidden: list[int] = []
        for n in self._with_passes:
            added = checks[n].passes()
            if added:
                passes += added
                hidden += checks[n].hidden()
        checked.instrument(passes, hidden, logs_accesses=self._logs_accesses)
        options = checked.launch.run.launch_options
        if checked.seconds != options.seconds:
            options = replace(options, seconds=checked.seconds)
        for n in self._with_prepare:
            options = checks[n].prepare(options)
        _execute(checked, checks, options)
        for n in self._with_findings:
            checked.findings += checks[n].findings()
        for n in self._with_remarks:
            checked.findings += checks[n].remarks()


def _execute(checked: CheckedLaunch, checks: Sequence[Check], options: LaunchOptions) -> None:
    try:
        checked.report = checked.execute(options)
    except (KeyboardInterrupt, SystemExit):
        _collect_failures(checked, checks)
        checked.findings += stopped(checked)
        raise
    except KernelError as error:
        timed_out = error.kind == "timeout"
        found = None if timed_out else _recovered(checks, error)
        if found is None and not timed_out:
            _collect_failures(checked, checks)
            raise
        checked.findings += [] if found is None else [found]
        checked.hung = True
    monitor = checked.monitor = checked.launch.monitor
    assert monitor is not None
    # Between launches that work on much memory, a function that is called and does nothing takes
    # as long as ten that are at hand.
    if monitor.fails:
        _collect_failures(checked, checks)
    if monitor.stop is not None:
        checked.findings += stopped(checked)
    if checked.rewrites.passes or checked.rewrites.unchecked:
        _note_unchecked(checked, checks)


def _recovered(checks: Sequence[Check], error: KernelError) -> Finding | None:
    """The finding that a check makes of a launch that failed."""
    return next((found for check in checks if (found := check.recover(error))), None)


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
        if name not in by_name:
            continue  # poison is no check
        checked.findings.append(
            by_name[name].finding(
                "unsupported", f"not checked: {note.text}", location=note.location
            )
        )
