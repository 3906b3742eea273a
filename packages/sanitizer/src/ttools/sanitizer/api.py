"""`sanitize()`: checks the Triton kernels that run while it is active.

The public face of the sanitizer. Owns what the arguments may be and what a run offers its user;
checking is the session's business, writing the report writers'.
"""

from __future__ import annotations

import html
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
from ttools.core.reports.registry import write_report
from ttools.core.reports.report import Report, at_least, most_severe, summary
from ttools.core.reports.text import Findings
from ttools.interpreter.abi.module import DotMode
from ttools.interpreter.api import Interpretation, interpret
from ttools.interpreter.run.interpretation import active_run
from ttools.sanitizer.checks.registry import kinds, parse_checks, what_ran
from ttools.sanitizer.launch.options import DEFAULT_TIMEOUT, SanitizeOptions
from ttools.sanitizer.session import Session

if TYPE_CHECKING:
    from ttools.sanitizer.post_mortem import PostMortem

#: What a process that begins anew is to call, see `children_call`.
_JOIN_AS_CHILD = "ttools.sanitizer.children.joining:begin"

__all__ = ["DEFAULT_TIMEOUT", "Sanitization", "sanitize"]


class Sanitization(ContextDecorator):
    """A sanitizer run, as a context manager and as a decorator; made by `sanitize`.

    It may be entered several times; what it finds adds up. Kernels of processes that begin while it
    is active are checked, too, and are in its report as far as they have come.

    Attributes:
        session: the run behind it, whose findings no suppression has been applied to.
    """

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
        self._sources()  # a file that cannot be read is an error before the run
        # The program may go to another folder before the report is made.
        self._suppressions = tuple(path.absolute() for path in self._suppressions)
        self._baseline = baseline and baseline.absolute()

    @property
    def findings(self) -> Findings:
        """What was found so far, one finding per defect site, less what is suppressed."""
        return Findings(self.report().findings)

    @property
    def launches(self) -> list[TallyEntry]:
        """What was launched so far, equal launches together."""
        return self.session.launches

    @property
    def warnings(self) -> list[str]:
        """What the user should know of launches that completed."""
        return [*self._interpretation.warnings, *self.session.warnings]

    @property
    def notes(self) -> list[str]:
        """See `Interpretation.notes`."""
        return self._interpretation.notes

    def report(
        self, *, target: str = "", exit_code: int | None = None, fail_on: Severity = "error"
    ) -> Report:
        """The run so far as data for the report writers, suppressions applied.

        Args:
            target: what was run, as the user named it.
            exit_code: of the user's script.
            fail_on: from which severity on findings count as failures.
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
            kinds=kinds(),
        )

    def to(self, form: str) -> str:
        """The report as `text`, `json`, `sarif`, `junit`, `github` or `html`.

        Raises:
            UsageError: there is no such format.
        """
        return write_report(self.report(), form)

    def raise_for_findings(self, severity: Severity = "error") -> None:
        """Fails if there are findings of at least this severity.

        Raises:
            FindingsError: its text is the report of all findings.
        """
        if severity not in SEVERITIES:
            raise UsageError(f"severity={severity!r}: must be one of {', '.join(SEVERITIES)}")
        report = self.report()
        severe = [f for f in report.findings if at_least(f.severity, severity)]
        if severe:
            raise FindingsError(write_report(report, "text").rstrip(), severe)

    def debug_first(
        self, severity: Severity = "error", allowed: Collection[str] = ()
    ) -> PostMortem:
        """Drops into pdb at the first finding of at least this severity, as soon as it is found.

        Args:
            severity: from which on findings count; those that are suppressed never do.
            allowed: kinds and checks whose findings do not count.
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
        """Fresh ones for each report: they count what they have been used for."""
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

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.to("text").rstrip(), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        """For notebooks: the page, in a frame that keeps its style and script apart."""
        page = html.escape(self.to("html"), quote=True)
        return (
            f'<iframe srcdoc="{page}" title="ttools sanitize" width="100%" height="600"'
            ' style="border:0" sandbox="allow-scripts"></iframe>'
        )


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
) -> Sanitization:
    """Runs Triton kernels on the CPU while the returned context is active, and checks them.

    Accesses that a check finds out of bounds are not made, so the process survives and outputs
    are computed. Nothing is raised for a finding; see `Sanitization.raise_for_findings`.

    Args:
        checks: names of checks, also comma-separated; `default` and `all` are sets of them.
        only: names of the kernels to check, or a predicate on names, which child processes that
            begin anew cannot be given: those are not checked then; all by default. Others run as
            they would without this.
        view_bounds: severity of leaving the elements of a tensor inside its storage; by default
            stores and atomics are errors, loads warnings.
        threads: how many threads run the programs of a launch; as many as torch uses by default.
        seed: of the second, shuffled run of launches whose programs synchronise.
        all_configs: run every configuration of autotuned kernels, each on the same inputs; the
            default is the first one only.
        first_config: the default, made explicit.
        poison: memory that torch hands out uninitialised, and lanes that masks or padding leave
            undefined, hold NaN, or junk if they are integers: code that relies on zeros shows in
            its results.
        max_findings: report at most so many findings that count, most severe first.
        suppressions: files of rules for findings that do not count.
        baseline: a file of findings that are known and do not count.
        pdb_on_finding: drop into pdb at the first error, or at the first finding of this severity
            or above: at its line, in its program, run as Python.
        dot: how products of f32 tiles are computed, see `interpret`.
        timeout: seconds after which a launch is stopped, which is a finding; None or 0 for never.

    Returns:
        The run: a context manager and a decorator.

    Raises:
        UsageError: an argument makes no sense.

    Examples:
        >>> with sanitize() as report:
        ...     softmax(x)
        >>> report.raise_for_findings()
    """
    if view_bounds not in (None, "error", "warning", "off"):
        raise UsageError(f"view_bounds={view_bounds!r}: must be one of error, warning, off")
    if pdb_on_finding not in (True, False, *SEVERITIES):
        raise UsageError(
            f"pdb_on_finding={pdb_on_finding!r}: must be a bool or one of {', '.join(SEVERITIES)}"
        )
    if all_configs and first_config:
        raise UsageError("all_configs and first_config exclude each other")
    options = SanitizeOptions(
        checks=parse_checks([checks] if isinstance(checks, str) else checks),
        view_bounds=view_bounds,
        threads=threads,
        seed=seed,
        max_findings=max_findings,
        all_configs=all_configs,
        timeout=timeout or None,
        poison=poison,
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
    """The arguments of `sanitize` in a child process; its report is made by this one."""
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
    }
