"""What a report is about: the findings of a run, its launches, and the script's own status.

Owns the facts that every writer needs and how they are counted and placed. Must not know how any
writer words them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttools.core.findings.findings import SEVERITIES, Finding, Severity, TallyEntry, Unfinished
from ttools.core.findings.suppressions import Suppressed
from ttools.core.location import shown_path
from ttools.core.reports.sizes import SizesVerdict

if TYPE_CHECKING:
    from ttools.core.reports.tensor_map import TensorMap

_NO_LAUNCH = "no Triton kernel was launched, so nothing was checked"
_NONE_CHOSEN = "no Triton kernel of those chosen was launched, so nothing was checked"
_ELSEWHERE = "all Triton kernels were launched in a run of the program's own, not in this one"
#: Of kernels that ran in some configurations only, and of launches not checked to their end.
_MOST_LISTED = 3
#: Exit statuses of programs that SIGINT and SIGTERM end, as a shell reports them.
_INTERRUPTED = (130, 143)


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run, ready to be written.

    Attributes:
        findings: those that count.
        dropped: those that count, too, but exceed the report's limit.
        launches: what ran, equal launches together.
        suppressed: those that were found and do not count.
        maps: who touched what of the tensors concerned.
        target: what was run, as the user named it.
        exit_code: of the user's script; None if no script was run.
        fail_on: findings from this severity on fail the run.
        some_only: whether only some kernels were to be checked.
        elsewhere: whether kernels were launched in runs inside this one, with reports of their own.
        kinds: those that the run looked for, with a sentence on each.
        root: the folder that paths are shown relative to.
        sizes: what is known of a range of sizes, where one was asked about.
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
    kinds: Mapping[str, str] = field(default_factory=dict)
    root: Path = field(default_factory=Path.cwd)
    sizes: SizesVerdict | None = None

    @property
    def failing(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if at_least(f.severity, self.fail_on))

    @property
    def is_interrupted(self) -> bool:
        """True if Ctrl-C or SIGTERM ended the program."""
        return self.exit_code in _INTERRUPTED

    @property
    def unfinished(self) -> tuple[tuple[TallyEntry, Unfinished], ...]:
        """The launches that were not checked to their end, with why."""
        return tuple((entry, each) for entry in self.launches for each in entry.unfinished)

    def path(self, file: str) -> str:
        """A file as it is shown: relative to `root` when inside, else as it was recorded."""
        return shown_path(file, self.root)


def at_least(severity: Severity, threshold: Severity) -> bool:
    """Whether a severity reaches a threshold."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(threshold)


def most_severe(findings: Sequence[Finding], limit: int) -> tuple[list[Finding], list[Finding]]:
    """The most severe findings, at most `limit`, and the others; each in the given order."""
    order = range(len(findings))
    chosen = set(sorted(order, key=lambda at: SEVERITIES.index(findings[at].severity))[:limit])
    kept = [finding for at, finding in enumerate(findings) if at in chosen]
    return kept, [finding for at, finding in enumerate(findings) if at not in chosen]


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 lane`, `1,024 lanes`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def config_text(config: Mapping[str, Any] | None) -> str:
    """A configuration as people read it: `BLOCK=64, num_warps=4`; nothing for none."""
    return ", ".join(f"{name}={value}" for name, value in (config or {}).items())


def summary(report: Report) -> str:
    """The run in a line: `2 errors, 1 warning in 3 kernels, 17 launches`."""
    severities = Counter(finding.severity for finding in report.findings)
    found = ", ".join(counted(severities[name], name) for name in SEVERITIES if severities[name])
    hidden = f"; {len(report.suppressed):,} suppressed" if report.suppressed else ""
    if report.dropped:
        hidden += f"; {len(report.dropped):,} more not reported (--max-findings)"
    if report.sizes is not None:
        return f"{found or 'no finding'} in {report.sizes.summary}{hidden}{_rest(report)}"
    if report.launches:
        if partly := configs_text(report.launches):
            hidden += f"; {partly}"
        if any(entry.checked for entry in report.launches):
            found = f"{found or 'no finding'} in {launches_summary(report.launches)}"
        elif not found:
            unfinished = unfinished_text(report.launches)
            return f"no launch was checked to its end: {unfinished}{hidden}{_interrupted(report)}"
        return f"{found}{hidden}{_rest(report)}"
    return f"{found or no_launch(report)}{hidden}{_rest(report)}"


def _rest(report: Report) -> str:
    """What was not checked because something ended before its time."""
    unfinished = unfinished_text(report.launches)
    text = f"; not checked to the end: {unfinished}" if unfinished else ""
    return text + _interrupted(report)


def _interrupted(report: Report) -> str:
    if not report.is_interrupted:
        return ""
    return "; the run was interrupted, and what it had not done by then was not checked"


def unfinished_text(launches: Iterable[TallyEntry]) -> str:
    """Which launches were not checked to their end, and why; empty if all were.

    ``k` (launch 3: race analysis interrupted after 4.2 s)`.
    """
    texts = [
        f"`{entry.spec.kernel}` ({each.text})" for entry in launches for each in entry.unfinished
    ]
    listed = texts[:_MOST_LISTED]
    if len(texts) > _MOST_LISTED:
        listed.append(counted(len(texts) - _MOST_LISTED, "further launch", "further launches"))
    return ", ".join(listed)


def no_launch(report: Report) -> str:
    """What is to be said where `launches` is empty: that is no clean result."""
    if report.elsewhere:
        return _ELSEWHERE
    return _NONE_CHOSEN if report.some_only else _NO_LAUNCH


def configs_text(launches: Iterable[TallyEntry]) -> str:
    """Which autotuned kernels did not run in all of their configurations; empty if none.

    `1 of 12 configurations of `matmul` run (--all-configs)`.
    """
    ran: dict[str, set[str]] = {}
    choices: Counter[str] = Counter()
    for entry in launches:
        if entry.spec.site.choices > 1:
            ran.setdefault(entry.spec.kernel, set()).add(config_text(entry.spec.site.config))
            choices[entry.spec.kernel] = max(choices[entry.spec.kernel], entry.spec.site.choices)
    partly = [
        f"{len(configs):,} of {counted(choices[kernel], 'configuration')} of `{kernel}` run"
        for kernel, configs in ran.items()
        if len(configs) < choices[kernel]
    ]
    listed = partly[:_MOST_LISTED]
    if len(partly) > _MOST_LISTED:
        listed.append(f"{counted(len(partly) - _MOST_LISTED, 'further kernel')} likewise")
    return f"{', '.join(listed)} (--all-configs)" if listed else ""


def launches_summary(launches: Iterable[TallyEntry]) -> str:
    """`3 kernels, 17 launches`, of those that were checked to their end."""
    entries = [entry for entry in launches if entry.checked]
    kernels = {entry.spec.kernel for entry in entries}
    total = sum(entry.checked for entry in entries)
    return f"{counted(len(kernels), 'kernel')}, {counted(total, 'launch', 'launches')}"
