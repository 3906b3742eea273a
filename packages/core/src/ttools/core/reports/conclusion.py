"""The first part of a report's page: the conclusion, the reasons with evidence, and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from ttools.core.findings.findings import SEVERITIES, Finding
from ttools.core.location import excerpt
from ttools.core.reports.page_template import PageSummary, Point
from ttools.core.reports.report import Report, by_cause, cause_text, counted, summary
from ttools.core.reports.sizes import KernelSizes, SizesVerdict
from ttools.core.reports.text import argument_lines, headline, location_text, witness_text

#: Maximum number of reasons; the page lists all findings below them.
_MOST_POINTS = 3


def page_summary(report: Report, links: Mapping[int, str]) -> PageSummary:
    """Return the first part of a report's page.

    Args:
        report: The report of the page.
        links: Identifiers that findings have on the page, by `id(finding)`.
    """
    points = list(_points(report, links))
    left = len(points) - _MOST_POINTS
    conclusion = _conclusion(report)
    about = f"`{report.target}`" if report.target else ""
    if report.exit_code:
        about = f"{about or 'The program'} ended with status {report.exit_code}"
    counts = summary(report).removeprefix(conclusion).removeprefix("; ")
    return PageSummary(
        conclusion=conclusion,
        verdict=_verdict(report),
        about="; ".join(filter(None, [about, counts])),
        points=tuple(points[:_MOST_POINTS]),
        more=f"{counted(left, 'further reason')} below." if left > 0 else "",
    )


def _verdict(report: Report) -> Literal["passed", "failed", "unknown", ""]:
    """Return the verdict; empty for a run without failures that covers only some sizes."""
    some_sizes = report.cases is None and report.sizes is None and not report.examined
    return "" if some_sizes and report.outcome != "failed" else report.outcome


def _conclusion(report: Report) -> str:
    """Return the result as a sentence."""
    if report.cases is not None:
        return report.cases.conclusion
    if report.sizes is not None and report.sizes.verdicts:
        return _sizes_conclusion(report.sizes, report)
    return summary(report)


def _sizes_conclusion(sizes: SizesVerdict, report: Report) -> str:
    """Return the verdict on the only kernel, or the number of kernels for each verdict."""
    kernels = sizes.verdicts
    if report.failing and all(kernel.verdict != "failed" for kernel in kernels):
        return summary(report)  # findings at the script's own sizes
    if len(kernels) == 1:
        return kernels[0].text(report.root)
    counts = Counter(kernel.verdict for kernel in kernels)
    verdicts: tuple[Literal["failed", "unknown", "proved"], ...] = ("failed", "unknown", "proved")
    parts = [f"{counts[verdict]:,} {verdict}" for verdict in verdicts if counts[verdict]]
    return f"{counted(len(kernels), 'kernel')}: {', '.join(parts)}"


def _points(report: Report, links: Mapping[int, str]) -> Iterator[Point]:
    findings = list(report.findings)
    if report.sizes is not None:
        kernels = sorted(report.sizes.verdicts, key=_urgency)
        only = len(kernels) == 1
        for kernel in kernels:
            own = [f for f in findings if f.sizes is not None and f.kernel == kernel.kernel]
            findings = [finding for finding in findings if finding not in own]
            if kernel.verdict == "failed":
                text = kernel.failure if only else f"{kernel.text(report.root)}: {kernel.failure}"
                yield _point(text, own, report, links)
            elif kernel.verdict == "unknown" and not only:
                yield Point(text=kernel.text(report.root))
    if report.cases is not None and report.cases.reason:
        yield Point(text=report.cases.reason)
    groups = by_cause(findings)
    for group in sorted(groups, key=lambda g: min(SEVERITIES.index(f.severity) for f in g)):
        yield _point(cause_text(group) if len(group) > 1 else "", group, report, links)


def _urgency(kernel: KernelSizes) -> int:
    return ("failed", "unknown", "proved").index(kernel.verdict)


def _point(text: str, group: Sequence[Finding], report: Report, links: Mapping[int, str]) -> Point:
    """Return findings with a common cause as one reason; the first finding is the evidence."""
    if not group:
        return Point(text=text)
    first = group[0]
    return Point(
        text=text or headline(first),
        place=location_text(first.location, report.root) if first.location else "",
        evidence="\n".join(_evidence(first)),
        action=first.help or "",
        link=links.get(id(first), ""),
    )


def _evidence(finding: Finding) -> Iterable[str]:
    source = excerpt(finding.location).splitlines() if finding.location else []
    return filter(None, [*source, witness_text(finding), *argument_lines(finding)])
