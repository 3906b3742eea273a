"""The content of a report: a run's findings and launches, and the script's exit status.

All writers share the summaries in this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ttools.core.findings.findings import SEVERITIES, Finding, Severity
from ttools.core.location import shown_path

if TYPE_CHECKING:  # commands import this module to format a number; the imports below are slower
    from ttools.core.findings.causes import Cause
    from ttools.core.findings.findings import TallyEntry, Unfinished
    from ttools.core.findings.suppressions import Suppressed
    from ttools.core.reports.accuracy import LineErrors, OutputAccuracy
    from ttools.core.reports.cases import CasesVerdict
    from ttools.core.reports.sizes import SizesVerdict
    from ttools.core.reports.tensor_map import TensorMap

_NO_LAUNCH = "no Triton kernel was launched, so nothing was checked"
_NONE_CHOSEN = "none of the selected Triton kernels was launched, so nothing was checked"
_ELSEWHERE = (
    "all Triton kernels were launched in runs that the program itself started, which have their "
    "own reports"
)
#: Maximum number of kernels or launches listed in a summary.
_MOST_LISTED = 3
#: Kinds of findings that may be consequences of accesses outside a tensor.
_RACES = ("overlapping_store", "race", "intra_program_race")
_UNDEFINED = "uninit_read"
#: Exit statuses of programs that SIGINT and SIGTERM terminate, as a shell reports them.
_INTERRUPTED = (130, 143)


@dataclass(frozen=True)
class Rule:
    """The description of a kind of findings, for formats that list the rules of a run.

    Attributes:
        meaning: One sentence that explains findings of this kind.
        help: The general advice on how to correct the defect, if there is any.
        page: The documentation page on it, relative to the folder of the documentation.
        can_be_suppressed: True if a comment in the source suppresses findings of this kind.
    """

    meaning: str
    help: str | None = None
    page: str = "reference/findings.md#kinds"
    can_be_suppressed: bool = True


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run, ready to be written.

    Attributes:
        findings: Findings that are not suppressed.
        dropped: Further findings that exceed the report's limit.
        launches: The launches that ran; equal launches are combined.
        suppressed: Suppressed findings, which do not count.
        maps: Accesses of programs to the affected tensors.
        target: The program as the user named it.
        exit_code: Exit status of the user's script; None if no script was run.
        fail_on: The lowest severity at which findings fail the run.
        some_only: True if only selected kernels were to be checked.
        elsewhere: True if kernels were launched in nested runs, which have reports of their own.
        rules: The kinds of findings that the run looked for.
        root: Folder that displayed paths are relative to.
        sizes: The verdict on a range of sizes, if one was requested.
        cases: The verdict of a comparison with a reference, if that is the subject of the report.
        examined: What was examined if there was no run, such as `3 files with 40 configurations`.
        accuracy: The errors of the outputs, if the check `accuracy` ran.
        line_errors: The errors of the source lines, if the check `accuracy` ran.
        suggests_tolerances: If True, the report contains a suggested tolerance for each output.
    """

    findings: tuple[Finding, ...]
    dropped: tuple[Finding, ...] = ()
    launches: tuple[TallyEntry, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    target: str = ""
    exit_code: int | None = None
    fail_on: Severity = "error"
    some_only: bool = False
    elsewhere: bool = False
    rules: Mapping[str, Rule] = field(default_factory=dict)
    root: Path = field(default_factory=Path.cwd)
    sizes: SizesVerdict | None = None
    cases: CasesVerdict | None = None
    examined: str = ""
    accuracy: tuple[OutputAccuracy, ...] = ()
    line_errors: tuple[LineErrors, ...] = ()
    suggests_tolerances: bool = False

    @property
    def failing(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if at_least(f.severity, self.fail_on))

    @property
    def outcome(self) -> Literal["passed", "failed", "unknown"]:
        """Return the verdict in the words that all commands use, whatever the exit status is."""
        if self.cases is not None:
            return self.cases.verdict
        if self.failing or (self.sizes is not None and self.sizes.verdict == "fails"):
            return "failed"
        is_proved = self.sizes is None or self.sizes.verdict == "proved"
        is_complete = not (self.unfinished or self.is_interrupted)
        return "passed" if is_proved and is_complete else "unknown"

    @property
    def is_interrupted(self) -> bool:
        """Return whether Ctrl-C or SIGTERM ended the program."""
        return self.exit_code in _INTERRUPTED

    @property
    def failed_before_launches(self) -> bool:
        """Return whether the program failed before it launched a kernel."""
        return bool(self.exit_code) and not self.launches

    @property
    def unfinished(self) -> tuple[tuple[TallyEntry, Unfinished], ...]:
        """Return the launches that were not checked completely, with the reasons."""
        return tuple((entry, reason) for entry in self.launches for reason in entry.unfinished)

    def path(self, file: str) -> str:
        """Return a file's path for display: relative to `root` if inside it, else unchanged."""
        return shown_path(file, self.root)


def at_least(severity: Severity, threshold: Severity) -> bool:
    """Return whether a severity is at least as high as a threshold."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(threshold)


def by_cause(findings: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """Group findings by cause, in order of appearance; a finding without a cause is a group.

    Within a group, errors precede warnings and notes, because only the first one is shown in full.
    """
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        key = number if finding.cause is None else finding.cause.id
        groups.setdefault(key, []).append(finding)
    return [
        tuple(sorted(group, key=lambda finding: SEVERITIES.index(finding.severity)))
        for group in groups.values()
    ]


def cause_text(group: Sequence[Finding]) -> str:
    """Return a sentence with the common cause of findings, and the number of findings.

    An example is "mask `m = offs < D` (line 12) admits lanes 40-63; 4 accesses leave their
    tensors".
    """
    cause = united_cause(group)
    accesses = [f for f in group if f.kind not in (*_RACES, _UNDEFINED)]
    undefined = sum(finding.kind == _UNDEFINED for finding in group)
    line = f" (line {cause.location.line})" if cause.location is not None else ""
    mask = f"mask `{cause.source}`{line}" if cause.source else cause.phrase
    texts = {
        "mask": f"{mask} admits {cause.lanes_text or 'out-of-bounds lanes'}",
        "index": f"index `{cause.source}`{line} is not bounded",
        "barrier": f"a barrier is missing before `{cause.source}`{line}",
        "update": f"`{cause.name}` is updated{line} by a load and a store, not by an atomic",
    }
    parts = [f"loop `{cause.source}`{line} runs too far" if cause.is_loop else texts[cause.kind]]
    if accesses:
        one = len(accesses) == 1
        leaving = counted(len(accesses), "access", "accesses")
        parts.append(f"{leaving} {'leaves its tensor' if one else 'leave their tensors'}")
    races = len(group) - len(accesses) - undefined
    for number, noun, plural in (
        (races, "race", "races"),
        (undefined, "use of undefined lanes", "uses of undefined lanes"),
    ):
        if number:
            follow = "follows" if number == 1 else "follow"
            parts.append(f"{counted(number, noun, plural)} {follow}")
    return "; ".join(parts)


def united_cause(group: Sequence[Finding]) -> Cause:
    """Return the common cause of findings, with the lanes of all of them."""
    causes = [finding.cause for finding in group if finding.cause is not None]
    runs: list[tuple[int, int]] = []
    for first, last in sorted(run for cause in causes for run in cause.lanes):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = runs[-1][0], max(last, runs[-1][1])
        else:
            runs.append((first, last))
    programs = {cause.program for cause in causes if cause.lanes}
    program = causes[0].program if len(programs) == 1 else None
    return replace(causes[0], lanes=tuple(runs), program=program)


def most_severe(findings: Sequence[Finding], limit: int) -> tuple[list[Finding], list[Finding]]:
    """Return the `limit` most severe findings and the other findings, both in the given order."""
    order = range(len(findings))
    chosen = set(sorted(order, key=lambda at: SEVERITIES.index(findings[at].severity))[:limit])
    kept = [finding for at, finding in enumerate(findings) if at in chosen]
    return kept, [finding for at, finding in enumerate(findings) if at not in chosen]


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 lane`, `1,024 lanes`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def config_text(config: Mapping[str, Any] | None) -> str:
    """Format a configuration as `BLOCK=64, num_warps=4`; empty for None."""
    return ", ".join(f"{name}={value}" for name, value in (config or {}).items())


def summary(report: Report) -> str:
    """Summarise the run in one line: `2 errors, 1 warning in 3 kernels, 17 launches`."""
    severities = Counter(finding.severity for finding in report.findings)
    counts = ", ".join(counted(severities[name], name) for name in SEVERITIES if severities[name])
    causes = len(by_cause(report.findings))
    if causes < len(report.findings):
        counts += f" of {counted(causes, 'cause')}"
    hidden = f"; {len(report.suppressed):,} suppressed" if report.suppressed else ""
    if report.dropped:
        hidden += f"; {len(report.dropped):,} more not reported (--max-findings)"
    if report.examined:
        return f"{counts or 'no finding'} in {report.examined}{hidden}"
    if report.cases is not None:
        passed = report.cases.verdict == "passed"
        tried = "" if passed else f"{counted(report.cases.tried, 'case')} tried"
        return "; ".join(filter(None, [report.cases.conclusion, counts, tried]))
    if report.sizes is not None:
        word = "failed" if report.outcome == "failed" else report.sizes.word
        checked = f"; checked {report.sizes.scope}" if report.sizes.scope else ""
        counts = f"{word}: {counts or 'no finding'}{checked}"
        return f"{counts}{hidden}{_rest(report)}"
    if report.launches:
        if partly := configs_text(report.launches):
            hidden += f"; {partly}"
        if any(entry.checked for entry in report.launches):
            counts = f"{counts or 'no finding'} in {launches_summary(report.launches)}"
        elif not counts:
            unfinished = unfinished_text(report.launches)
            return f"no launch was checked to its end: {unfinished}{hidden}{_interrupted(report)}"
        return f"{counts}{hidden}{_rest(report)}"
    return f"{counts or no_launch(report)}{hidden}{_rest(report)}"


def _rest(report: Report) -> str:
    """Describe the launches that were not checked to the end, and whether the run was stopped."""
    unfinished = unfinished_text(report.launches)
    text = f"; not checked to the end: {unfinished}" if unfinished else ""
    return text + _interrupted(report)


def _interrupted(report: Report) -> str:
    if not report.is_interrupted:
        return ""
    return "; the run was interrupted, so the rest of the program was not checked"


def unfinished_text(launches: Iterable[TallyEntry]) -> str:
    """List launches that were not checked completely, with reasons; empty if there are none.

    An example is ``k` (launch 3: race analysis interrupted after 4.2 s)`.
    """
    texts = [
        f"`{entry.spec.kernel}` ({reason.text})"
        for entry in launches
        for reason in entry.unfinished
    ]
    listed = texts[:_MOST_LISTED]
    if len(texts) > _MOST_LISTED:
        listed.append(counted(len(texts) - _MOST_LISTED, "further launch", "further launches"))
    return ", ".join(listed)


def no_launch(report: Report) -> str:
    """Return the sentence for a run without launches, which is not a clean result."""
    if report.elsewhere:
        return _ELSEWHERE
    return _NONE_CHOSEN if report.some_only else _NO_LAUNCH


def configs_text(launches: Iterable[TallyEntry]) -> str:
    """List autotuned kernels that did not run in all of their configurations; empty if none.

    An example is `1 of 12 configurations of `matmul` ran (--all-configs)`.
    """
    configs_by_kernel: dict[str, set[str]] = {}
    choices: Counter[str] = Counter()
    for entry in launches:
        if entry.spec.site.choices > 1:
            configs_by_kernel.setdefault(entry.spec.kernel, set()).add(
                config_text(entry.spec.site.config)
            )
            choices[entry.spec.kernel] = max(choices[entry.spec.kernel], entry.spec.site.choices)
    partly = [
        f"{len(configs):,} of {counted(choices[kernel], 'configuration')} of `{kernel}` ran"
        for kernel, configs in configs_by_kernel.items()
        if len(configs) < choices[kernel]
    ]
    listed = partly[:_MOST_LISTED]
    if len(partly) > _MOST_LISTED:
        listed.append(f"{counted(len(partly) - _MOST_LISTED, 'further kernel')} likewise")
    return f"{', '.join(listed)} (--all-configs)" if listed else ""


def launches_summary(launches: Iterable[TallyEntry]) -> str:
    """Count the completely checked launches: `3 kernels, 17 launches`."""
    entries = [entry for entry in launches if entry.checked]
    kernels = {entry.spec.kernel for entry in entries}
    total = sum(entry.checked for entry in entries)
    return f"{counted(len(kernels), 'kernel')}, {counted(total, 'launch', 'launches')}"
