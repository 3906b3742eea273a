"""Findings: defects in the user's kernel, as plain data, and how they add up over a run.

Owns what a finding says. Must not know how one is found (an engine's events), nor how one is
written (`reports`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ttools.core.errors import TtoolsError
from ttools.core.location import SourceLocation
from ttools.core.reports.shown import ShowsItself
from ttools.core.spec import ArgumentSpec, LaunchSpec

Severity = Literal["error", "warning", "note"]
#: Most severe first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
#: What a launch at the sizes of a finding shows, where all sizes of a range were looked at.
Witness = Literal["confirmed", "not shown", "too large", "not made"]


@dataclass(frozen=True, kw_only=True)
class Related:
    """Another location that takes part in a defect: the other access of a race, an origin."""

    message: str
    location: SourceLocation | None = None
    program: tuple[int, int, int] | None = None
    lane: tuple[int, ...] | None = None
    iteration: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Finding(ShowsItself):
    """One defect site, with its first witness.

    Attributes:
        kind: machine-readable kind: `oob_load`, `race` …
        check: the check that found it: `memcheck` …
        severity: see `SEVERITIES`.
        message: one line, naming access and argument, without the location.
        kernel: name of the kernel.
        argument: the argument at fault, if one can be named.
        location: of the operation; its `callers` are the inlined call stack.
        program: coordinates of the first witness's program.
        lane: of the witness in its tile, one index per axis; `()` for a scalar.
        shape: of that tile.
        iteration: zero-based iteration of each enclosing loop, outermost first.
        variables: name and value of the variables that led to it, in the lane.
        notes: further facts, one line each: `the access is 288 bytes past its end`.
        count: lanes affected over the whole run, exactly.
        programs: programs affected; 0 if not counted.
        related: other locations concerned.
        launch: `file:line` of the launch in host code.
        launch_callers: the lines that call it, the innermost first.
        config: the autotuner's configuration in which the witness was seen, `BLOCK` → 128.
        other_configs: further configurations that have the defect, without repetition.
        help: what to do about it.
        sizes: the least sizes at which it appears, where all sizes of a range were looked at.
        witness: what a launch that was made at these sizes shows.
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

    @property
    def site(self) -> tuple[object, ...]:
        """What makes two findings the same defect.

        Not the launch nor the configuration: a defect stays one however often it is met. Without
        a source location only the message can tell defects apart.
        """
        argument = self.argument.name if self.argument else ""
        where = self.location or self.message
        return (self.kind, self.severity, self.kernel, where, argument)

    @property
    def configs(self) -> tuple[Mapping[str, Any], ...]:
        """All configurations of the autotuner that are known to have the defect."""
        return () if self.config is None else (self.config, *self.other_configs)


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per site, in order of appearance: the first witness, the sum of the counts.

    Configurations of an autotuner do not make another site: the finding lists them.
    """
    return _merged(findings, operator.add)


def merge_in_launch(findings: Iterable[Finding]) -> list[Finding]:
    """The same of what one launch has shown, where nothing is to be counted twice.

    Copies of a location in unrolled code are met by the same programs as a rule: those that meet
    only the rarer copies are not counted. Where the messages differ, the same lanes have been met
    at several uses, and the first is reported.
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
    known = list(first.configs)
    known += [config for config in later.configs if config not in known]
    return replace(first, config=known[0] if known else None, other_configs=tuple(known[1:]))


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """Why a launch was not checked to its end.

    Attributes:
        number: number of the launch among those of its kernel in its process, from 1.
        phase: what was cut short: `compilation`, `run`, `race analysis` …
        reason: `timeout`, `interrupted`, `failed` for an exception, or `running` for a launch that
            had not ended when the report was made.
        seconds: how long the phase had taken.
        checks: names of the checks that did not finish.
    """

    number: int
    phase: str
    reason: Literal["timeout", "interrupted", "failed", "running"]
    seconds: float
    checks: tuple[str, ...]

    @property
    def text(self) -> str:
        """`launch 3: race analysis interrupted after 4.2 s`."""
        ended = {
            "timeout": "stopped after",
            "interrupted": "interrupted after",
            "failed": "failed after",
            "running": "still going on after",
        }
        return f"launch {self.number:,}: {self.phase} {ended[self.reason]} {self.seconds:.3g} s"


@dataclass(frozen=True, kw_only=True)
class TallyEntry:
    """One line of a report's list of launches; equal launches are counted together.

    Attributes:
        spec: The launch, without its arguments. The extents of its grid are zero if the compilation
            of its kernel did not end, so that they are unknown.
        count: Number of launches.
        seconds: Seconds that they took together.
        unfinished: The launches among these that were not checked to their end.
    """

    spec: LaunchSpec
    count: int = 1
    seconds: float = 0.0
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.spec.kernel

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The autotuner's configuration."""
        return self.spec.site.config

    @property
    def checked(self) -> int:
        """How many of the launches were checked to their end."""
        return self.count - len(self.unfinished)


class FindingsError(TtoolsError):
    """A sanitizer run was asked to fail on findings, and has some; the text is the report.

    Attributes:
        findings: those that are severe enough.
    """

    def __init__(self, message: str, findings: Sequence[Finding]) -> None:
        super().__init__(message)
        self.findings = tuple(findings)
