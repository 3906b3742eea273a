"""Runs a launch under checks, none of which it knows by name, and collects what they find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ttools.core.errors import KernelError
from ttools.core.findings.findings import Finding, Unfinished
from ttools.core.process.phases import PhaseStopped, Work
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.sanitizer.checks.check import Check, Observation
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.stopped import NOT_MADE, cut_short, stopped, unfinished
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
        self._names = tuple(kind.name for kind in kinds)
        #: What follows the run: the phase, the check, whether its remarks are asked for, and the
        #: checks that have not finished until then.
        self._analyses: list[tuple[str, int, bool, tuple[str, ...]]] = []
        hooks = [(n, False) for n in self._with_findings] + [(n, True) for n in self._with_remarks]
        for at, (n, remarks) in enumerate(hooks):
            name = kinds[n].analysis or f"{kinds[n].name} analysis"
            pending = tuple(dict.fromkeys(kinds[m].name for m, _ in hooks[at:]))
            self._analyses.append((name, n, remarks, pending))

    def _overriding(self, hook: str) -> Sequence[int]:
        before = getattr(Check, hook)
        return [n for n, kind in enumerate(self._kinds) if getattr(kind, hook) is not before]

    def observe(self, what: Observation) -> bool:
        """Whether any of them needs to see this."""
        return any(what in kind.observes for kind in self._kinds)

    def run(self, checked: CheckedLaunch, work: Work) -> None:
        """Runs a launch; what is found is in its `findings` then, also if it raises.

        A phase whose time is over is left out: `checked.unfinished` and a finding say so.

        Args:
            checked: the launch.
            work: takes the phases of the launch.

        Raises:
            TtoolsError: as the launch would without checks, except for what a check recovers from.
            PhaseStopped: another thread asked for the end of the launch.
        """
        checks = [kind(checked) for kind in self._kinds]
        checked.memory_owners = checks
        checked.pending = self._names
        try:
            self._run(checked, checks, work)
        except PhaseStopped as stop:
            _note_stop(checked, work, stop, checked.pending, NOT_MADE)
            return
        for name, n, remarks, pending in self._analyses:
            checked.pending = pending
            check = checks[n]
            before = len(checked.findings)
            try:
                if remarks:  # these are made of what is known already
                    checked.findings += check.remarks()
                    continue
                work.begin(name)
                checked.findings += check.findings()
            except PhaseStopped as stop:
                missing = _missing(check, stop.phase == name, len(checked.findings) > before)
                _note_stop(checked, work, stop, [check.name], missing)
        checked.pending = ()

    def _run(self, checked: CheckedLaunch, checks: Sequence[Check], work: Work) -> None:
        """Prepares a launch and runs its programs."""
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
        work.begin("run")
        _execute(checked, checks, options)
        monitor = checked.monitor
        if monitor is not None and monitor.stop is not None:
            checked.unfinished = Unfinished(
                number=work.number,
                phase="run",
                reason="timeout" if monitor.stop.reason == "timeout" else "interrupted",
                seconds=round(monitor.stop.seconds, 3),
                checks=self._names,
            )


def _missing(check: Check, is_own: bool, found_some: bool) -> str:
    """What was not looked for where an analysis was stopped.

    Args:
        check: whose analysis it was.
        is_own: whether it was stopped in its own phase, not in one inside of it.
        found_some: whether it has findings already.
    """
    what = check.seeks or "findings"
    if not is_own:
        return f"{what} that only this shows were not looked for"
    return f"{'other ' if found_some else ''}{what} in it were not looked for"


def _note_stop(
    checked: CheckedLaunch, work: Work, stop: PhaseStopped, checks: Sequence[str], missing: str
) -> None:
    """Notes that the time of a phase was over.

    Args:
        checked: the launch.
        work: of its thread.
        stop: ended the phase; raised again where it was no limit of time that did.
        checks: names of the checks that it was for.
        missing: what was not done, as a sentence.
    """
    if stop.reason != "timeout":
        raise stop
    record = unfinished(work, stop, checks)
    work.broken = None
    known = checked.unfinished
    if known is None or known.phase != "run":  # else that the launch was stopped is known
        checked.findings.append(cut_short(checked, record, [missing]))
    if known is not None:
        record = replace(
            known, checks=(*known.checks, *(n for n in checks if n not in known.checks))
        )
    checked.unfinished = record


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
        rewrites.apply(checked.launch.kernel.variants.parse())
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
