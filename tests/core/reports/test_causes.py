"""Findings with a common cause: one block in the text and on the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from junitparser import JUnitXml
from tests.core.reports.conftest import column

from ttools.core.findings.causes import Cause, definition_text
from ttools.core.findings.findings import Finding, Related
from ttools.core.location import SourceLocation
from ttools.core.reports.conclusion import page_summary
from ttools.core.reports.registry import write_report
from ttools.core.reports.report import Report, by_cause, cause_text, united_cause
from ttools.core.reports.sizes import KernelSizes, SizesVerdict, Unproved
from ttools.core.reports.text import Findings, finding_text


@pytest.fixture
def grouped(report: Report, source: str) -> Report:
    """Return a report in which two loads and a race have one cause; other findings have none."""
    load, race, inlined, _ = report.findings
    cause = Cause(
        kind="mask",
        kernel="kernel",
        name="m",
        source="m = offs < n",
        location=SourceLocation(source, 8, 5, "m"),
        lanes=((40, 63),),
    )
    again = replace(load, location=SourceLocation(source, 12, column(12, "helper")), cause=cause)
    narrow = replace(cause, lanes=((48, 63), (8, 8)), program=(1, 0, 0))
    return replace(
        report,
        findings=(
            replace(load, cause=cause),
            inlined,
            replace(again, cause=narrow),
            replace(race, cause=cause),
        ),
    )


def test_text_golden(grouped: Report, golden: Callable[[str, str], None]) -> None:
    golden("grouped.txt", write_report(grouped, "text"))


def test_a_verbose_text_has_all_findings_in_full(grouped: Report) -> None:
    text = write_report(grouped, "text", verbose=True)
    assert "further" not in text
    for finding in grouped.findings:
        assert finding_text(finding, grouped.root) in text
    assert text.index("mask `m = offs < n`") == 0


def test_findings_at_the_sizes_of_a_script_are_grouped_beside_a_verdict_on_all(
    grouped: Report,
) -> None:
    unknown = KernelSizes(
        kernel="kernel", checked={"n": (1, 9)}, unproved=(Unproved("the time was over"),)
    )
    sizes = SizesVerdict(checked={"n": (1, 9)}, verdict="not proved", kernels=(unknown,))
    report = replace(grouped, sizes=sizes)
    text = write_report(report, "text")
    assert "2 further findings (`-v` shows them in full):" in text
    assert text.count("help: mask the load") == 1
    assert "failed: 3 errors, 1 warning of 2 causes; checked n = 1 to 9" in " ".join(text.split())
    page = page_summary(report, {})
    assert page.verdict == "failed"
    assert page.conclusion.startswith("failed: 3 errors")
    assert json.loads(write_report(report, "json"))["outcome"] == "failed"


def test_the_summary_counts_findings_and_causes(grouped: Report) -> None:
    text = write_report(grouped, "text")
    assert "\n3 errors, 1 warning of 2 causes in 3 kernels, 18 launches" in text
    assert "cause" not in write_report(replace(grouped, findings=grouped.findings[:2]), "text")


def test_other_formats_have_one_entry_per_finding(grouped: Report) -> None:
    annotations = write_report(grouped, "github").splitlines()
    assert sum(line.startswith(("::error", "::warning")) for line in annotations) == 4
    cases = [case for suite in JUnitXml.fromstring(write_report(grouped, "junit").encode())
             for case in suite]  # fmt: skip
    assert sum("launches" not in (case.name or "") for case in cases) == 5  # one is suppressed
    findings = json.loads(write_report(grouped, "json"))["findings"]
    identities = [finding.get("cause", {}).get("id") for finding in findings]
    assert identities[0] is not None
    assert identities == [identities[0], None, identities[0], identities[0]]


def test_page_folds_findings_under_their_cause(
    grouped: Report, dump_dom: Callable[[Path], str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text(write_report(grouped, "html"), "utf-8")
    text = dump_dom(page)
    section = text[text.index('class="cause"') :]
    assert text.count('<section class="cause"') == 1
    assert text.count("<article") == 4
    folded = section[section.index("<details>") : section.index("</details>")]
    assert folded.count("<article") == 2
    assert "2 further findings with this cause" in folded
    assert "mask `m = offs &lt; n` (line 8) admits lanes 8, 40-63" in section
    assert 'class="folded" href="#finding-3"' in text


def test_notebooks_show_a_group_as_one_block(grouped: Report) -> None:
    shown = Findings(grouped.findings)._repr_html_()
    assert shown.count("<details>") == 2
    assert "kernel: mask `m = offs &lt; n`" in shown


def test_lanes_of_a_group_are_united(grouped: Report) -> None:
    (group, _) = by_cause(grouped.findings)
    assert united_cause(group).lanes == ((8, 8), (40, 63))
    assert united_cause(group).program is None
    assert cause_text(group).endswith("2 accesses leave their tensors; 1 race follows")


def test_a_finding_takes_few_lines(report: Report, source: str) -> None:
    race = report.findings[1]
    many = replace(
        race,
        location=SourceLocation(source, 3, 12, callers=(SourceLocation(source, 12, 14),) * 6),
        notes=tuple(f"note {number}" for number in range(9)),
        related=(*race.related, *(Related(message=f"place {number}") for number in range(9))),
        launch="a.py:3",
        launch_callers=("b.py:3", "c.py:3"),
        help="do this",
    )
    short = finding_text(many, report.root, verbose=False).splitlines()
    assert len(short) <= 12
    assert "  help: do this" in short
    assert any("called from" in line for line in short)
    assert any(line.endswith("(8 more notes with -v)") for line in short)
    assert len(finding_text(many, report.root).splitlines()) > 30


def test_a_kernel_takes_few_lines(report: Report, source: str) -> None:
    load = report.findings[0]
    lines = range(1, 15)
    findings = [replace(load, location=SourceLocation(source, line, 1)) for line in lines]
    text = write_report(replace(report, findings=tuple(findings)), "text")
    assert len(text.splitlines()) <= 40
    shown = [int(line) for line in re.findall(r"(?:^kernel\.py:|^ +line )(\d+)", text, re.M)]
    assert shown == list(lines)[: len(shown)]
    (more,) = re.findall(r"and (\d+) more findings", text)
    assert len(shown) + int(more) == len(findings)


@pytest.mark.parametrize(
    ("lines", "position", "name", "expected"),
    [
        (["m = offs < n  # why"], (1, 5), "m", "m = offs < n"),
        (["tl.load(p, mask=offs < n)"], (1, 17), "", "offs < n"),
        (["tl.load(p, mask=offs < n)"], (1, 22), "", "offs < n"),  # at the operator
        (["m = (r < M)[:, None] & (c < N)[None, :]"], (1, 25), "", "c < N"),
        (["m = (", "    offs", "    < n", ")"], (2, 5), "m", "m = ( offs < n )"),
        (["m = " + "a + " * 30 + "a"], (1, 5), "m", "m = " + "a + " * 13 + "a …"[1:]),
        (["m = ("], (1, 5), "m", "m"),
    ],
)
def test_definitions(
    tmp_path: Path, lines: list[str], position: tuple[int, int], name: str, expected: str
) -> None:
    path = tmp_path / "source.py"
    path.write_text("\n".join(lines) + "\n")
    text = definition_text(SourceLocation(str(path), *position), name)
    assert text == expected if len(expected) < 58 else text.startswith(expected[:50])
    assert len(text) <= 60


def test_causes_of_different_kernels_differ() -> None:
    location = SourceLocation("k.py", 3, 1)
    causes = [Cause(kind="mask", kernel=kernel, location=location) for kernel in ("a", "b")]
    findings = [
        Finding(kind="race", check="c", severity="error", message="m", kernel=c.kernel, cause=c)
        for c in causes
    ]
    assert [len(group) for group in by_cause(findings)] == [1, 1]
