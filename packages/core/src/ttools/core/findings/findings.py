"""Findings: defects in the user's kernel as plain data, and how they are merged over a run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ttools.core.errors import FailuresError
from ttools.core.findings.causes import Cause
from ttools.core.location import SourceLocation
from ttools.core.reports.notebook import ShowsItself
from ttools.core.spec import ArgumentSpec, LaunchSpec

Severity = Literal["error", "warning", "note"]
#: Most severe first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
#: Results of a real launch at the sizes for which a proof for all sizes has found a defect.
Witness = Literal["confirmed", "not shown", "too large", "not made"]


@dataclass(frozen=True, kw_only=True)
class Related:
    """Another location that takes part in a defect.

    Examples are the other access of a race, and the operation in which a wrong value originates.
    """

    message: str
    location: SourceLocation | None = None
    program: tuple[int, int, int] | None = None
    lane: tuple[int, ...] | None = None
    iteration: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Finding(ShowsItself):
    """A defect at one site, with its first witness.

    Attributes:
        kind: Machine-readable kind: `oob_load`, `race` …
        check: The check that found the defect: `memcheck` …
        severity: Severity, one of `SEVERITIES`.
        message: One line that names access and argument, without the location.
        kernel: Name of the kernel.
        argument: The affected argument, if it is known.
        location: Source position of the operation; its `callers` are the inlined call stack.
        program: Coordinates of the first witness's program.
        lane: Indices of the witness in its tile; `()` for a scalar.
        shape: Shape of that tile.
        iteration: Zero-based iteration of each enclosing loop, outermost first.
        variables: Names and values, in this lane, of the variables that led to the defect.
        notes: Further facts, one line each, such as `the access is 288 bytes past its end`.
        count: Exact number of affected lanes over the whole run.
        programs: Number of affected programs; 0 if not counted.
        related: Other locations that take part in the defect.
        launch: `file:line` of the launch in host code.
        launch_callers: The lines that call the launch, the innermost first.
        config: The autotuner configuration of the witness, such as `BLOCK` → 128.
        other_configs: Further configurations with the defect, without repetition.
        help: Advice for the user.
        sizes: The smallest sizes with the defect, if a range of sizes was analysed.
        witness: Result of a launch at these sizes.
        origin: Distinguishes findings of one kind at one location that have different reasons, such
            as undefined lanes and unwritten memory.
        cause: The place that has to be corrected, if it is known.
    """

    kind: str
    check: str
    severity: Severity
    message: str
    kernel: str
    argument: ArgumentSpec | None = None
    location: SourceLocation | None = None
    program: tuple[int, int, int] | None = None
    lane: tuple[int, ...] | None = None
    shape: tuple[int, ...] = ()
    iteration: tuple[int, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    count: int = 1
    programs: int = 0
    related: tuple[Related, ...] = ()
    launch: str | None = None
    launch_callers: tuple[str, ...] = ()
    config: Mapping[str, Any] | None = field(default=None, hash=False)
    other_configs: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    help: str | None = None
    sizes: Mapping[str, int] | None = field(default=None, hash=False)
    witness: Witness | None = None
    origin: str = ""
    cause: Cause | None = None

    @property
    def site(self) -> tuple[object, ...]:
        """Return a key that is equal for findings of the same defect.

        The launch and the configuration are not part of the key, since a defect may occur in
        several launches or configurations. Without a source location, only the message
        distinguishes defects.
        """
        argument = self.argument.name if self.argument else ""
        where = self.location or self.message
        return (self.check, self.kind, self.origin, self.severity, self.kernel, where, argument)

    @property
    def configs(self) -> tuple[Mapping[str, Any], ...]:
        """Return all autotuner configurations that are known to have the defect."""
        return () if self.config is None else (self.config, *self.other_configs)


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings by site, in order of appearance: keep the first witness and add up the counts.

    Autotuner configurations do not create separate sites; the merged finding lists them.
    """
    return _merged(findings, operator.add)


def merge_in_launch(findings: Iterable[Finding]) -> list[Finding]:
    """Merge the findings of one launch without counting anything twice.

    In unrolled code, the copies of a location are usually reached by the same programs, so the
    maximum over the copies is reported; programs that reach only other copies are not counted. If
    messages differ, the same lanes were found at several uses, and the first message is reported.
    """
    alike: dict[object, list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.site, finding.message), []).append(finding)
    reported: dict[object, Finding] = {}
    for (one,) in (_merged(copies, max) for copies in alike.values()):
        first = reported.setdefault(one.site, one)
        if first is not one:
            reported[one.site] = _with_configs(first, one)
    return list(reported.values())


def _merged(findings: Iterable[Finding], programs: Callable[[int, int], int]) -> list[Finding]:
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        first = merged.get(finding.site)
        merged[finding.site] = finding if first is None else _united(first, finding, programs)
    return list(merged.values())


def _united(first: Finding, later: Finding, programs: Callable[[int, int], int]) -> Finding:
    return replace(
        _with_configs(first, later),
        count=first.count + later.count,
        programs=programs(first.programs, later.programs),
    )


def _with_configs(first: Finding, later: Finding) -> Finding:
    configs = list(first.configs)
    configs += [config for config in later.configs if config not in configs]
    return replace(first, config=configs[0] if configs else None, other_configs=tuple(configs[1:]))


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """The reason why a launch was not checked completely.

    Attributes:
        number: Number of the launch among those of its kernel in its process, from 1.
        phase: The phase that was cut short: `compilation`, `run`, `race analysis` …
        reason: `timeout`, `interrupted`, `failed` for an exception, or `running` for a launch that
            had not ended when the report was made.
        seconds: Duration of the phase until then.
        checks: Names of the checks that did not finish.
    """

    number: int
    phase: str
    reason: Literal["timeout", "interrupted", "failed", "running"]
    seconds: float
    checks: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return, e.g., `launch 3: race analysis interrupted after 4.2 s`."""
        ended = {
            "timeout": "stopped after",
            "interrupted": "interrupted after",
            "failed": "failed after",
            "running": "still going on after",
        }
        return f"launch {self.number:,}: {self.phase} {ended[self.reason]} {self.seconds:.3g} s"


@dataclass(frozen=True, kw_only=True)
class TallyEntry:
    """An entry in a report's list of launches; equal launches are counted together.

    Attributes:
        spec: The launch without its arguments. The grid is zero if it is unknown, because the
            compilation of the kernel did not end.
        count: Number of equal launches.
        seconds: Total duration of these launches.
        unfinished: The launches among them that were not checked completely.
    """

    spec: LaunchSpec
    count: int = 1
    seconds: float = 0.0
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def kernel(self) -> str:
        return self.spec.kernel

    @property
    def config(self) -> Mapping[str, Any] | None:
        """Return the autotuner's configuration."""
        return self.spec.site.config

    @property
    def checked(self) -> int:
        """Return the number of launches that were checked completely."""
        return self.count - len(self.unfinished)


class FindingsError(FailuresError):
    """Raised if a result did not pass because of findings; the message is the report.

    Attributes:
        findings: Findings that are severe enough to fail, which are also the exception's
            `failures`.
    """

    def __init__(self, message: str, findings: Sequence[Finding]) -> None:
        super().__init__(message, findings)
        self.findings = tuple(findings)
