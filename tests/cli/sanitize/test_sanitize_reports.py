"""`ttools sanitize`: report formats, suppressions, baselines, and limits on findings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from junitparser import JUnitXml
from tests.cli.sanitize.buggy_script import BUGGY, SUMMARY

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# --- formats ----------------------------------------------------------------------------------


def test_json_report_in_a_file(ttools: Run, buggy: str, tmp_path: Path) -> None:
    result = ttools("sanitize", "--format", "json", "--output", "report.json", buggy)
    assert (result.stdout, result.returncode) == ("right: True\n", 1)
    assert result.stderr == f"note: {SUMMARY}; the report is in report.json\n"
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["schema"] == "ttools.report/1"
    assert report["script"] == {"target": "buggy.py", "exit_code": 0}
    (launch,) = report["launches"]
    assert (launch["kernel"], launch["grid"], launch["count"]) == ("add_one", [16, 1, 1], 1)
    (finding,) = report["findings"]
    assert (finding["kind"], finding["count"]) == ("oob_load", 24)
    assert finding["argument"]["name"] == "x_ptr"
    assert (finding["program"], finding["lane"]) == ([15, 0, 0], [40])


def test_markdown(ttools: Run, buggy: str) -> None:
    result = ttools("sanitize", "--format", "markdown", buggy)
    assert result.returncode == 1
    title, _, *table = result.stdout.splitlines()
    assert title == f"**{SUMMARY}**"
    assert table[:2] == ["| severity | kind | place | kernel | message |", "|---|---|---|---|---|"]
    (row,) = table[2:]
    assert row.startswith("| error | oob\\_load | buggy.py:")
    assert "right: True" in result.stderr


def test_json_keeps_the_status_of_the_script(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "buggy.py").write_text(f"{BUGGY}\nraise SystemExit(7)\n")
    result = ttools("sanitize", "--format", "json", "--output", "report.json", "buggy.py")
    assert result.returncode == 7
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["script"]["exit_code"] == 7
    assert len(report["findings"]) == 1


def test_other_formats_reach_standard_output(ttools: Run, buggy: str) -> None:
    def report(form: str) -> str:
        result = ttools("sanitize", "--format", form, buggy)
        assert result.returncode == 1
        own = "right: True\n"
        if form != "github":  # the log of a CI job also shows the output of the script
            assert own in result.stderr
            return result.stdout
        assert result.stdout.startswith(own)
        return result.stdout.removeprefix(own)

    assert json.loads(report("sarif"))["runs"][0]["results"][0]["ruleId"] == "oob_load"
    (suite,) = JUnitXml.fromstring(report("junit").encode())
    assert (suite.name, suite.failures) == ("add_one", 1)
    assert report("github").startswith("::error file=buggy.py,line=10,endLine=10,col=9,")
    page = report("html")
    assert page.startswith("<!DOCTYPE html>")
    assert 'data-kind="oob_load"' in page


# --- suppression ------------------------------------------------------------------------------

RULE = '[[suppress]]\nkind = "oob_load"\nkernel = "add_one"\nreason = "padded"\n'


def test_suppressions_file(ttools: Run, buggy: str, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULE)
    result = ttools("sanitize", "--suppressions", "rules.toml", buggy)
    assert result.returncode == 0
    assert result.stdout == "right: True\nno finding in 1 kernel, 1 launch; 1 suppressed\n"


def test_unused_suppression_is_a_note(ttools: Run, buggy: str, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULE + RULE.replace("oob_load", "race"))
    result = ttools("sanitize", "--suppressions", "rules.toml", buggy)
    assert result.returncode == 0
    assert (
        "rules.toml:5:1: note[unused_suppression]: this suppression matched no finding\n"
        "    5 | [[suppress]]\n"
    ) in result.stdout
    assert ttools("sanitize", "--suppressions", "rules.toml", "--fail-on", "note", buggy).returncode


def test_comments_in_the_source_suppress_findings(ttools: Run, buggy: str, tmp_path: Path) -> None:
    line = "    x = tl.load(x_ptr + offs)"
    commented = BUGGY.replace(line, f"{line}  # ttools: ignore[oob_load] padded")
    (tmp_path / "buggy.py").write_text(commented)
    result = ttools("sanitize", buggy)
    assert (result.returncode, "1 suppressed" in result.stdout) == (0, True)


def test_baseline_hides_its_findings(ttools: Run, buggy: str, tmp_path: Path) -> None:
    first = ttools("sanitize", "--baseline", "known.json", "--update-baseline", buggy)
    assert first.returncode == 0
    assert "known.json now holds 1 finding" in first.stderr
    (tmp_path / "buggy.py").write_text("# moved\n" + BUGGY)
    again = ttools("sanitize", "--baseline", "known.json", buggy)
    assert again.returncode == 0
    assert "no finding in 1 kernel, 1 launch; 1 suppressed" in again.stdout
    worse = BUGGY.replace("mask=offs < n)\n\n", "mask=offs < n + 1)\n\n", 1)
    (tmp_path / "buggy.py").write_text(worse)
    result = ttools("sanitize", "--baseline", "known.json", buggy)
    assert result.returncode == 1
    assert "error[oob_store]: out-of-bounds store" in result.stdout
    assert "1 error in 1 kernel, 1 launch; 1 suppressed" in result.stdout


def test_suppressed_findings_do_not_count_towards_the_limit(
    ttools: Run, buggy: str, tmp_path: Path
) -> None:
    ignored = "x = tl.load(x_ptr + offs)  # ttools: ignore[oob_load] padded"
    wrong = BUGGY.replace("x = tl.load(x_ptr + offs)", ignored).replace(", mask=offs < n)", ")", 1)
    (tmp_path / "buggy.py").write_text(wrong)
    result = ttools("sanitize", "--max-findings", "1", buggy)
    assert "error[oob_store]: out-of-bounds store" in result.stdout
    assert result.returncode == 1


def test_limit_keeps_the_most_severe_and_the_baseline_keeps_all(
    ttools: Run, buggy: str, tmp_path: Path
) -> None:
    wrong = BUGGY.replace(", mask=offs < n)", ")", 1).replace(
        "= torch.arange(n,", "= torch.arange(n + 24,"
    )
    wrong = wrong.replace("float32)", "float32)[:n]").replace("(out == x + 1).all()", "True")
    (tmp_path / "buggy.py").write_text(wrong)
    result = ttools(
        "sanitize", "--max-findings", "1", "--baseline", "b.json", "--update-baseline", buggy
    )
    assert "error[oob_store]: out-of-bounds store" in result.stdout, result.stdout
    assert result.stdout.endswith(
        "1 error in 1 kernel, 1 launch; 1 more not reported (--max-findings)\n"
    )
    assert "b.json now holds 2 findings" in result.stderr
    assert ttools("sanitize", "--fail-on", "warning", "--baseline", "b.json", buggy).returncode == 0


def test_a_dash_means_standard_output(ttools: Run, buggy: str, tmp_path: Path) -> None:
    result = ttools("sanitize", "--format", "json", "--output", "-", buggy)
    assert json.loads(result.stdout.removeprefix("right: True\n"))["summary"] == SUMMARY
    assert not (tmp_path / "-").exists()


_WRONG_MASK = """\
import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(x_ptr, cos_ptr, sin_ptr, stride_row, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    half = D // 2
    m = offs < D
    a = tl.load(x_ptr + row * stride_row + offs, mask=m)
    b = tl.load(x_ptr + row * stride_row + half + offs, mask=m)
    c = tl.load(cos_ptr + row * half + offs, mask=m)
    s = tl.load(sin_ptr + row * half + offs, mask=m)
    tl.store(x_ptr + row * stride_row + offs, a * c - b * s, mask=m)
    tl.store(x_ptr + row * stride_row + half + offs, a * s + b * c, mask=m)


x, cos, sin = torch.randn(16, 80), torch.randn(16, 40), torch.randn(16, 40)
rope_kernel[(16,)](x, cos, sin, x.stride(0), 80, BLOCK=64)
"""


def test_one_wrong_mask_is_one_short_block(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "rope.py").write_text(_WRONG_MASK)
    result = ttools("sanitize", "rope.py")
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert sum(max(1, -(-len(line) // 80)) for line in lines) <= 40
    assert lines[:2] == [
        "mask `m = offs < D` (line 11) admits lanes 40-63; 4 accesses leave their",
        "  tensors; 5 races follow",
    ]
    assert lines[2].startswith("rope.py:13:9: error[oob_load]: out-of-bounds load of 4 bytes from")
    assert "  help: the mask is too wide for this tensor: lanes 40-63 pass `m` (line 11)" in (
        result.stdout
    )
    assert "  8 further findings (`-v` shows them in full):" in lines
    assert lines[-1] == "7 errors, 2 warnings of 1 cause in 1 kernel, 1 launch"
    full = ttools("-v", "sanitize", "rope.py").stdout
    assert "further finding" not in full
    assert full.count("help:") == 9
