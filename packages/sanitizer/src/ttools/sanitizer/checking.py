"""Runs a launch under the chosen checks and collects their findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ttools.core.errors import KernelError
from ttools.core.findings.findings import Finding, Unfinished
from ttools.core.process.phases import PhaseStopped, Work
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.sanitizer.checks.check import Check, Observation
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.stopped_launches import NOT_MADE, cut_short, stopped, unfinished
from ttools.sanitizer.passes.rewrites import Pass


class ChosenChecks:
    """The checks of a run and, for each step of a launch, the checks that take part in it.

    Args:
        kinds: Classes of the checks, in the order of the registry.
    """

    def __init__(self, kinds: Sequence[type[Check]]) -> None:
        self._kinds = kinds
        self._logs_accesses = self.observe("accesses")
        # A tiny launch takes as long as a few dozen calls of empty hooks, so only hooks that a
        # check overrides are called.
        self._with_passes = sorted(
            self._overriding("passes"), key=lambda n: not kinds[n].rewrites_first
        )
        self._with_prepare = self._overriding("prepare")
        self._with_findings = self._overriding("findings")
        self._with_remarks = self._overriding("remarks")
        self._names = tuple(kind.name for kind in kinds)
        # The hooks that are called if a launch follows the plan of an earlier launch.
        self._data_passes = self._depending("passes", self._with_passes)
        self._data_prepare = self._depending("prepare", self._with_prepare)
        #: Steps after the run. Each has the name of its phase, the index of its check, whether
        #: remarks or findings of the check are collected, and the checks that have not finished
        #: before the step.
        self._analyses = self._steps(self._with_findings, self._with_remarks)
        self._data_analyses = self._steps(
            self._depending("findings", self._with_findings),
            self._depending("remarks", self._with_remarks),
        )

    def _steps(
        self, with_findings: Sequence[int], with_remarks: Sequence[int]
    ) -> list[tuple[str, int, bool, tuple[str, ...]]]:
        kinds = self._kinds
        hooks = [(n, False) for n in with_findings] + [(n, True) for n in with_remarks]
        steps = []
        for at, (n, remarks) in enumerate(hooks):
            name = kinds[n].analysis or f"{kinds[n].name} analysis"
            pending = tuple(dict.fromkeys(kinds[m].name for m, _ in hooks[at:]))
            steps.append((name, n, remarks, pending))
        return steps

    def _depending(self, hook: str, overriding: Sequence[int]) -> Sequence[int]:
        """Return the checks in `overriding` for which the results of the hook depend on data."""
        return [n for n in overriding if hook in self._kinds[n].data_hooks]

    def _overriding(self, hook: str) -> Sequence[int]:
        """Return the indices of the checks that override a hook."""
        before = getattr(Check, hook)
        return [n for n, kind in enumerate(self._kinds) if getattr(kind, hook) is not before]

    def observe(self, what: Observation) -> bool:
        """Return whether any check of the run needs these observations."""
        return any(what in kind.observes for kind in self._kinds)

    def run(self, checked: CheckedLaunch, work: Work) -> None:
        """Run a launch and append its findings to `checked.findings`, even if the launch fails.

        A phase that exceeds its time limit is skipped; `checked.unfinished` and a finding report
        that.

        Args:
            checked: The launch, whose attributes are updated.
            work: Records the phases of the launch.

        Raises:
            TtoolsError: The launch failed, and no check turned the error into a finding.
            PhaseStopped: The process was asked to stop the launch, for example by Ctrl-C.
        """
        checks = [kind(checked) for kind in self._kinds]
        checked.memory_owners = checks
        checked.pending = self._names
        plan = checked.plan
        kept: tuple[Pass, ...] | None = None
        try:
            if plan is not None:
                # Different data, such as unwritten memory, may require passes different from those
                # of the plan.
                passes, hidden = self._passes(checks, self._data_passes)
                plan = plan if passes == plan.data_passes else None
            if plan is not None:
                checked.follow(plan, hidden)
                options, preparing = plan.options, self._data_prepare
            else:
                kept = self._instrument(checked, checks)
                options, preparing = self._options(checked), self._with_prepare
            for n in preparing:
                options = checks[n].prepare(options)
            self._run(checked, checks, options, work)
        except PhaseStopped as stop:
            _note_stop(checked, work, stop, checked.pending, NOT_MADE)
            return
        # If the launch has findings already, the analyses may extend them.
        is_repeated = plan is not None and not checked.findings
        for name, n, remarks, pending in self._data_analyses if is_repeated else self._analyses:
            checked.pending = pending
            check = checks[n]
            before = len(checked.findings)
            try:
                if remarks:  # remarks need no phase: they only use earlier results
                    checked.findings += check.remarks()
                    continue
                work.begin(name)
                checked.findings += check.findings()
            except PhaseStopped as stop:
                missing = _missing(check, stop.phase == name, len(checked.findings) > before)
                _note_stop(checked, work, stop, [check.name], missing)
        checked.pending = ()
        if kept is not None:
            checked.keep_plan(options, kept)

    def _instrument(self, checked: CheckedLaunch, checks: Sequence[Check]) -> tuple[Pass, ...]:
        """Instrument a launch; return the passes that depend on data."""
        passes, hidden = self._passes(checks, self._with_passes)
        checked.instrument(passes, hidden, logs_accesses=self._logs_accesses)
        own = {self._kinds[n].name for n in self._data_passes}
        return tuple([one for one in passes if one.check in own])

    def _passes(
        self, checks: Sequence[Check], adding: Sequence[int]
    ) -> tuple[tuple[Pass, ...], Sequence[int]]:
        """Return the passes of some checks, and the values of the parameters that they append."""
        passes: list[Pass] = []
        hidden: list[int] = []
        for n in adding:
            added = checks[n].passes()
            if added:
                passes += added
                hidden += checks[n].hidden()
        return tuple(passes), hidden

    def _options(self, checked: CheckedLaunch) -> LaunchOptions:
        """Return the options of the run, with the time limit of the launch."""
        options = checked.launch.run.launch_options
        if checked.seconds == options.seconds:
            return options
        return replace(options, seconds=checked.seconds)

    def _run(
        self,
        checked: CheckedLaunch,
        checks: Sequence[Check],
        options: LaunchOptions,
        work: Work,
    ) -> None:
        """Run the programs of a launch."""
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
    """Return a sentence on the defects that a stopped analysis did not check for.

    Args:
        check: The check to which the analysis belongs.
        is_own: True if it was stopped in its own phase, not in a nested phase.
        found_some: True if it has already reported findings.
    """
    defects = check.seeks or "findings"
    if not is_own:
        return f"{defects} that only this phase can detect were not checked for"
    return f"{'other ' if found_some else ''}{defects} in this launch were not checked for"


def _note_stop(
    checked: CheckedLaunch, work: Work, stop: PhaseStopped, checks: Sequence[str], missing: str
) -> None:
    """Record that a phase exceeded its time limit.

    Args:
        checked: The launch, to which the record and a finding are added.
        work: Record of the phases of the launch.
        stop: The exception that ended the phase. It is raised again unless its reason is the limit.
        checks: Names of the checks that have not finished because of the stop.
        missing: Sentence on what was not done.
    """
    if stop.reason != "timeout":
        raise stop
    record = unfinished(work, stop, checks)
    work.broken = None
    earlier = checked.unfinished
    if earlier is None or earlier.phase != "run":  # a stopped run has its own finding
        checked.findings.append(cut_short(checked, record, [missing]))
    if earlier is not None:
        record = replace(
            earlier, checks=(*earlier.checks, *(n for n in checks if n not in earlier.checks))
        )
    checked.unfinished = record


def _execute(checked: CheckedLaunch, checks: Sequence[Check], options: LaunchOptions) -> None:
    """Run the programs of a launch and collect the findings made during the run."""
    try:
        checked.report = checked.execute(options)
    except (KeyboardInterrupt, SystemExit):
        _collect_failures(checked, checks)
        checked.findings += stopped(checked)
        raise
    except KernelError as error:
        timed_out = error.kind == "timeout"
        finding = None if timed_out else _recovered(checks, error)
        if finding is None and not timed_out:
            _collect_failures(checked, checks)
            raise
        checked.findings += [] if finding is None else [finding]
        checked.hung = True
    monitor = checked.monitor = checked.launch.monitor
    assert monitor is not None
    # The conditions are tested here and not in the called functions, because after a launch has
    # filled the CPU caches with its data, a call that does nothing takes about ten times as long as
    # usual.
    if monitor.fails:
        _collect_failures(checked, checks)
    if monitor.stop is not None:
        checked.findings += stopped(checked)
    if checked.rewrites.passes or checked.rewrites.unchecked:
        _note_unchecked(checked, checks)


def _recovered(checks: Sequence[Check], error: KernelError) -> Finding | None:
    """Return the finding of the first check that accounts for the failure of a launch."""
    return next((finding for check in checks if (finding := check.recover(error))), None)


def _collect_failures(checked: CheckedLaunch, checks: Sequence[Check]) -> None:
    """Add the findings for accesses and inserted checks that failed before the launch ended."""
    monitor = checked.launch.monitor
    if monitor is not None and monitor.fails:
        counts = monitor.counts()
        for check in checks:
            checked.findings += check.failures(counts)


def _note_unchecked(checked: CheckedLaunch, checks: Sequence[Check]) -> None:
    """Add a finding for each operation that the passes could not instrument."""
    rewrites = checked.rewrites
    if (
        rewrites.passes and rewrites.unchecked is None
    ):  # the native code was cached, so the passes did not run
        rewrites.apply(checked.launch.kernel.variants.parse())
    if not rewrites.unchecked:
        return
    by_name = {check.name: check for check in checks}
    for name, note in rewrites.unchecked:
        if name not in by_name:
            continue  # the pass belongs to no check, for example that of `poison`
        checked.findings.append(
            by_name[name].finding(
                "unsupported", f"not checked: {note.text}", location=note.location
            )
        )
