"""`sanitize()`: checks the Triton kernels that run while it is active."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ContextDecorator, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ttools.core.errors import UsageError
from ttools.core.findings.baseline import Baseline
from ttools.core.findings.findings import SEVERITIES, Finding, FindingsError, Severity, TallyEntry
from ttools.core.findings.inline import InlineSuppressions
from ttools.core.findings.suppressions import Source, SuppressionFile, apply, names
from ttools.core.process.child_environment import children_call
from ttools.core.reports.accuracy import OutputAccuracy
from ttools.core.reports.registry import write_report
from ttools.core.reports.report import Report, at_least, most_severe, summary
from ttools.core.reports.result import Result
from ttools.core.reports.text import Findings
from ttools.interpreter.abi.module import DotMode
from ttools.interpreter.api import Interpretation, interpret
from ttools.interpreter.run.interpretation import active_run
from ttools.sanitizer.accuracy.gpu_range import architecture_of
from ttools.sanitizer.checks.accuracy import Accuracy
from ttools.sanitizer.checks.registry import parse_checks, rules, what_ran
from ttools.sanitizer.launch.options import DEFAULT_TIMEOUT, SanitizeOptions
from ttools.sanitizer.session import Session

if TYPE_CHECKING:
    from ttools.sanitizer.post_mortem import PostMortem

#: Function that a newly started process calls to join the run, see `children_call`.
_JOIN_AS_CHILD = f"{__name__}:_join_as_child"
#: Sanitizations that this process has joined as a child; they are active until it ends.
_joined: list[Sanitization] = []

__all__ = ["DEFAULT_TIMEOUT", "Sanitization", "sanitize"]


class Sanitization(ContextDecorator, Result):
    """A sanitizer run, created by `sanitize`; can be used as a context manager and as a decorator.

    A run may be entered several times; it then contains the findings of all blocks in which it was
    active. Kernels of processes that start while the run is active are checked, too; the report of
    the run contains the findings of these processes so far.

    Attributes:
        session: The run itself, with all findings before suppressions are applied.
    """

    _frame_title = "ttools sanitize"

    def __init__(
        self,
        session: Session,
        interpretation: Interpretation,
        suppressions: Sequence[Path] = (),
        baseline: Path | None = None,
        some_only: bool = False,
        of_children: Mapping[str, Any] | None = None,
    ) -> None:
        self.session = session
        self._of_children = of_children
        self._entered: list[ExitStack] = []
        self._some_only = some_only
        self._interpretation = interpretation
        self._suppressions = tuple(suppressions)
        self._baseline = baseline
        self._sources()  # an unreadable file must be reported before the run
        # The program may change the current directory before the report is created.
        self._suppressions = tuple(path.absolute() for path in self._suppressions)
        self._baseline = baseline and baseline.absolute()

    @property
    def findings(self) -> Findings:
        """The findings so far that are not suppressed, one per defect site."""
        return Findings(self.report().findings)

    @property
    def failures(self) -> Findings:
        """The findings so far that are errors."""
        return Findings(self.report().failing)

    @property
    def passed(self) -> bool:
        """True if no finding so far is an error, and every launch was checked to its end.

        The result is also True if no kernel was launched; see `launches`.
        """
        report = self.report()
        return not (report.failing or report.unfinished)

    @property
    def launches(self) -> list[TallyEntry]:
        """The launches so far; equal launches have one entry."""
        return self.session.launches

    @property
    def accuracy(self) -> list[OutputAccuracy]:
        """The errors and tolerances of the outputs so far, if the check `accuracy` runs.

        The outputs of child processes are not included.
        """
        return self.session.accuracy

    @property
    def warnings(self) -> list[str]:
        """Sentences on limitations of the checks and of their results for completed launches."""
        return [*self._interpretation.warnings, *self.session.warnings]

    @property
    def notes(self) -> list[str]:
        """See `Interpretation.notes`."""
        return self._interpretation.notes

    def report(
        self, *, target: str = "", exit_code: int | None = None, fail_on: Severity = "error"
    ) -> Report:
        """Return the run so far as data for the report writers, with suppressions applied.

        Args:
            target: The script, module or code, as the user named it.
            exit_code: Exit status of the user's script.
            fail_on: Lowest severity of findings that count as failures.
        """
        options = self.session.options
        launches = self.launches
        ran = what_ran(launches, options.checks)
        kept, hidden = apply(list(self.session.findings), self._sources(), ran)
        reported, dropped = most_severe(kept, options.max_findings)
        return Report(
            findings=tuple(reported),
            dropped=tuple(dropped),
            launches=tuple(launches),
            suppressed=tuple(hidden),
            maps=tuple(self.session.maps),
            target=target,
            exit_code=exit_code,
            fail_on=fail_on,
            some_only=self._some_only,
            elsewhere=self.session.launched_inside,
            rules=rules(),
            accuracy=tuple(self.session.accuracy),
            line_errors=tuple(self.session.line_errors),
            suggests_tolerances=options.suggest_tolerance,
        )

    def to(self, form: str, *, verbose: bool = False) -> str:
        """Return the report in a format.

        Args:
            form: `text`, `markdown`, `json`, `brief`, `sarif`, `junit`, `github` or `html`.
            verbose: If True, the text shows every finding in full. By default, it shows one
                finding of each cause in full and lists the others.

        Raises:
            UsageError: There is no such format.
        """
        return write_report(self.report(), form, verbose)

    def raise_for_failures(self, severity: Severity = "error") -> None:
        """Raise an error if there are findings of at least this severity, or unchecked launches.

        Args:
            severity: Lowest severity that counts as a failure.

        Raises:
            FindingsError: There are such findings, or a launch was not checked to its end; the
                message is the report of all findings.
        """
        if severity not in SEVERITIES:
            raise UsageError(f"severity={severity!r}: must be one of {', '.join(SEVERITIES)}")
        report = self.report(fail_on=severity)
        if report.failing or report.unfinished:
            raise FindingsError(write_report(report, "text").rstrip(), report.failing)

    def raise_for_findings(self, severity: Severity = "error") -> None:
        """Former name of `raise_for_failures`."""
        text = "raise_for_findings() is now called raise_for_failures()"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        self.raise_for_failures(severity)

    def debug_first(
        self, severity: Severity = "error", allowed: Collection[str] = ()
    ) -> PostMortem:
        """Start pdb at the first finding of at least this severity, after its launch.

        Suppressed findings do not start it.

        Args:
            severity: Lowest severity that starts the debugger.
            allowed: Kinds and checks whose findings do not start it.
        """
        from ttools.sanitizer.post_mortem import PostMortem

        def first(findings: Sequence[Finding]) -> Finding | None:
            ran = what_ran(self.launches, self.session.options.checks)
            kept, _ = apply(list(findings), self._sources(), ran)
            severe = [f for f in kept if f in findings and at_least(f.severity, severity)]
            return next((f for f in severe if not {*names(f)}.intersection(allowed)), None)

        self.session.post_mortem = PostMortem(first)
        return self.session.post_mortem

    def _sources(self) -> list[Source]:
        """Return new objects for the suppressions and the baseline.

        Each report needs new objects, because they count their matches.
        """
        files = [SuppressionFile(path) for path in self._suppressions]
        baselines = [] if self._baseline is None else [Baseline(self._baseline)]
        return [InlineSuppressions(), *files, *baselines]

    def __enter__(self) -> Sanitization:
        outer = active_run()
        if outer is not None and isinstance(outer.observer, Session):
            self.session.begins_inside(outer.observer)
        with ExitStack() as entered:
            entered.enter_context(self.session)
            entered.enter_context(self._interpretation)
            if self._of_children is not None and not self.session.is_child:
                joins = {"folder": str(self.session.folder.path), "options": self._of_children}
                entered.enter_context(children_call(_JOIN_AS_CHILD, joins))
            self._entered.append(entered.pop_all())
        return self

    def __exit__(self, *raised: Any) -> None:
        self._entered.pop().close()

    def __repr__(self) -> str:
        return f"<Sanitization: {summary(self.report())}>"


def sanitize(
    *,
    checks: str | Iterable[str] = "default",
    only: Sequence[str] | Callable[[str], bool] | None = None,
    view_bounds: Literal["error", "warning", "off"] | None = None,
    threads: int | None = None,
    seed: int = 0,
    all_configs: bool = False,
    first_config: bool = False,
    poison: bool = False,
    max_findings: int = 100,
    suppressions: str | Path | Sequence[str | Path] = (),
    baseline: str | Path | None = None,
    pdb_on_finding: bool | Severity = False,
    dot: DotMode | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    suggest_tolerance: bool = False,
    accuracy_range: str | None = None,
    exact_results: bool = False,
) -> Sanitization:
    """Run Triton kernels on the CPU, and check them, while the returned context is active.

    Out-of-bounds accesses are skipped, so the process does not crash and outputs are computed. No
    finding raises an exception; see `Sanitization.raise_for_failures`.

    Args:
        checks: Names of checks, as a list or comma-separated; `default` and `all` are sets of them.
        only: Names of the kernels to check, or a predicate on names; by default all. Other kernels
            run unchecked. A predicate cannot be sent to newly started child processes, so with a
            predicate, kernels of these processes are not checked.
        view_bounds: Severity of accesses outside a tensor's elements but inside its storage. By
            default it is `error` for stores and atomics, and `warning` for loads.
        threads: Number of threads that run the programs of a launch; by default as many as torch
            uses.
        seed: Seed of the second, shuffled run of launches whose programs synchronise.
        all_configs: If True, run every configuration of autotuned kernels, each on the same inputs;
            by default only the first one.
        first_config: If True, run the first configuration only. This is the default.
        poison: If True, memory that torch allocates uninitialised, and lanes that masks or padding
            leave undefined, contain NaN (negative numbers for integers). Code that relies on zeros
            then computes visibly wrong results.
        max_findings: Largest number of findings to report, most severe first. Suppressed findings
            are not counted.
        suppressions: Files of rules that suppress findings.
        baseline: File of known findings, which are suppressed.
        pdb_on_finding: If True, start pdb at the first error; if it is a severity, at the first
            finding of at least this severity. The debugger stops at the finding's line, in its
            program, which runs as Python.
        dot: Precision of products of f32 tiles, see `interpret`.
        timeout: Time limit for a launch in seconds. A launch that exceeds it is stopped and
            reported as a finding. None or 0 means no limit.
        suggest_tolerance: If True, the report suggests tolerances for comparisons of each output
            with a reference; this needs the check `accuracy`. `Sanitization.accuracy` always
            contains them.
        accuracy_range: A GPU, such as `h100` or `sm_90`. The report then estimates which results
            this GPU may compute for each output; this needs the check `accuracy`.
        exact_results: If True, each launch leaves the exact values of the check `accuracy` in
            memory, rounded to the types of the outputs, instead of what the kernel has computed.
            Results that are still wrong are not wrong because of rounding. Findings of the kind
            `unsupported` list values that are not exact.

    Returns:
        The run, which is a context manager and a decorator.

    Raises:
        UsageError: An argument has an invalid value.

    Examples:
        >>> with sanitize() as report:
        ...     softmax(x)
        >>> report.raise_for_failures()
    """
    if view_bounds not in (None, "error", "warning", "off"):
        raise UsageError(f"view_bounds={view_bounds!r}: must be one of error, warning, off")
    if pdb_on_finding not in (True, False, *SEVERITIES):
        raise UsageError(
            f"pdb_on_finding={pdb_on_finding!r}: must be a bool or one of {', '.join(SEVERITIES)}"
        )
    if all_configs and first_config:
        raise UsageError("all_configs and first_config cannot be used together")
    chosen = parse_checks([checks] if isinstance(checks, str) else checks)
    if suggest_tolerance and Accuracy.name not in chosen:
        raise UsageError(
            f"tolerances are only suggested by the check `{Accuracy.name}`: add it to the checks"
        )
    if accuracy_range is not None:
        architecture_of(accuracy_range)  # an unknown GPU must be reported before the run
        if Accuracy.name not in chosen:
            raise UsageError(
                f"ranges of results are only estimated by the check `{Accuracy.name}`: add it to "
                "the checks"
            )
    if exact_results and Accuracy.name not in chosen:
        raise UsageError(
            f"exact results are only computed by the check `{Accuracy.name}`: add it to the checks"
        )
    options = SanitizeOptions(
        checks=chosen,
        view_bounds=view_bounds,
        threads=threads,
        seed=seed,
        max_findings=max_findings,
        all_configs=all_configs,
        timeout=timeout or None,
        poison=poison,
        suggest_tolerance=suggest_tolerance,
        accuracy_range=accuracy_range or "",
        exact_results=exact_results,
    )
    session = Session(options)
    interpretation = interpret(
        only=only,
        threads=threads,
        seed=seed,
        first_config=first_config,
        observer=session,
        tune=session.tune,
        compile_kernel=session.compile_kernel,
        dot=dot,
        timeout=options.timeout,
    )
    files = [suppressions] if isinstance(suppressions, (str, Path)) else suppressions
    sanitization = Sanitization(
        session,
        interpretation,
        suppressions=[Path(file) for file in files],
        baseline=None if baseline is None else Path(baseline),
        some_only=only is not None,
        # A predicate cannot be sent to another process.
        of_children=None if callable(only) else _for_children(options, only, first_config, dot),
    )
    if pdb_on_finding:
        sanitization.debug_first("error" if pdb_on_finding is True else pdb_on_finding)
    return sanitization


def _for_children(
    options: SanitizeOptions, only: Sequence[str] | None, first_config: bool, dot: DotMode | None
) -> dict[str, Any]:
    """Return the arguments of `sanitize` in child processes; this process reports the findings."""
    return {
        "checks": sorted(options.checks),
        "only": None if only is None else list(only),
        "view_bounds": options.view_bounds,
        "threads": options.threads,
        "seed": options.seed,
        "all_configs": options.all_configs,
        "first_config": first_config,
        "dot": dot,
        "timeout": options.timeout,
        "exact_results": options.exact_results,
    }


def _join_as_child(joins: Mapping[str, Any]) -> None:
    """Check the kernels of this process from now on, for the run of its parent process.

    Args:
        joins: Options of the run, and the folder to which its child processes write.
    """
    sanitization = sanitize(**joins["options"])
    sanitization.session.join(Path(joins["folder"]))
    sanitization.__enter__()
    _joined.append(sanitization)
