"""Reviewed verdicts on findings, and a run of the tool on a folder."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import PYTHON
from tools.sanitize_files import (
    Ran,
    Verdict,
    failed,
    listed,
    read_verdicts,
    scripts_of,
    summary,
    table,
    unreviewed,
    why,
)

ROOT = Path(__file__).parent.parent.parent
REVIEWED = sorted((ROOT / "tools" / "reviewed").glob("*.json"))

SCRIPT = """
import torch, triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs{mask})
    tl.store(out_ptr + offs, x, mask=offs < n)

copy_kernel[(1,)](torch.ones(60), torch.empty(60), 60, BLOCK=64)
"""


def finding(kind: str = "oob_load", line: int = 8, severity: str = "error") -> dict[str, Any]:
    location = {"file": "/folder/a.py", "line": line}
    return {
        "kind": kind,
        "severity": severity,
        "kernel": "copy_kernel",
        "location": location,
        "message": "out-of-bounds load",
        "count": 4,
    }


def ran(*findings: dict[str, Any], ended: str = "ok", said: str = "") -> Ran:
    return Ran(file="a.py", ended=ended, seconds=1.0, launches=1, findings=findings, said=said)


def verdict(kind: str = "oob_load", verdict: str = "real", **fields: Any) -> Verdict:
    return Verdict(file="a.py", kind=kind, verdict=verdict, reason="so it is", **fields)


@pytest.mark.parametrize(
    ("verdicts", "left"),
    [
        ([], 1),
        ([verdict()], 0),
        ([verdict("*", kernel="copy_kernel", line=8)], 0),
        ([verdict(line=9)], 1),
        ([verdict("oob_store")], 1),
        ([verdict(kernel="other_kernel")], 1),
        ([verdict(verdict="false")], 1),
        ([Verdict(file="b.py", kind="*", verdict="real", reason="r")], 1),
    ],
)
def test_a_finding_is_reviewed_if_a_verdict_matches(verdicts: list[Verdict], left: int) -> None:
    assert len(list(unreviewed(ran(finding()), verdicts))) == left


def test_a_finding_without_a_location_can_be_reviewed() -> None:
    nowhere = {**finding(), "location": None}
    assert list(unreviewed(ran(nowhere), [verdict()])) == []
    assert list(unreviewed(ran(nowhere), [verdict(line=8)])) == [nowhere]


def test_listed_defects_have_to_be_found() -> None:
    verdicts = [verdict(listed=True), verdict("race")]
    assert listed([ran(finding())], verdicts) == {"a.py": True}
    assert listed([ran(finding("race"))], verdicts) == {"a.py": False}
    assert "not found: a.py" in summary([ran(finding("race"))], verdicts)
    assert listed([ran()], [verdict()]) == {}


def test_a_script_may_be_known_not_to_run() -> None:
    broken = ran(ended="exit 1", said="note: ours\nImportError: no triton.ops\nwarning: ours")
    assert failed(broken, [verdict()])
    assert not failed(broken, [verdict("script", "upstream")])
    assert why(broken) == "ImportError: no triton.ops"
    assert "0 ran, 0 are known not to, 1 failed a.py" in summary([broken], [])


def test_table_counts_by_severity_and_verdict() -> None:
    row = table([ran(finding(), finding("race"), finding("nan", severity="warning"))], [verdict()])
    assert "| 1 oob_load, 1 race, 1 nan (warning) | real, 2 to review |" in row


def test_scripts_of_folders_and_by_name(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "c.txt"):
        (tmp_path / name).touch()
    named = tmp_path / "c.txt"
    assert scripts_of([tmp_path, named], "*.py") == [tmp_path / "a.py", tmp_path / "b.py", named]


@pytest.mark.parametrize("path", REVIEWED, ids=lambda path: path.stem)
def test_reviewed_lists_are_well_formed(path: Path) -> None:
    verdicts = read_verdicts(path)
    keys = [(v.file, v.kind, v.kernel, v.line) for v in verdicts]
    assert len(keys) == len(set(keys))
    assert {v.verdict for v in verdicts} <= {"real", "right", "upstream"}
    assert all(v.reason and "*" not in v.file for v in verdicts)


def test_the_page_has_a_sentence_for_every_file() -> None:
    page = (ROOT / "docs" / "reference" / "sanitizer_sweep.md").read_text()
    for verdict in read_verdicts(ROOT / "tools" / "reviewed" / "tritonbench_g.json"):
        assert any(
            f"`{verdict.file}`" in line and verdict.reason in line for line in page.splitlines()
        ), verdict.file


@pytest.mark.slow
def test_the_tool_runs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "masked.py").write_text(SCRIPT.format(mask=", mask=offs < n"))
    (tmp_path / "unmasked.py").write_text(SCRIPT.format(mask=""))
    reviewed, results = tmp_path / "reviewed.json", tmp_path / "results.json"
    real = {"file": "unmasked.py", "kind": "oob_load", "verdict": "real", "reason": "no mask"}

    def tool(path: Path, verdicts: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
        reviewed.write_text(json.dumps(verdicts))
        words = [str(path), "--reviewed", str(reviewed), "--json", str(results)]
        return PYTHON.run(["-m", "tools.sanitize_files", *words], cwd=ROOT)

    result = tool(tmp_path, [])
    assert result.returncode == 1, result.stderr
    assert "error[oob_load] unmasked.py:8 `copy_kernel`" in result.stdout
    assert (
        "2 ran, 0 are known not to, 0 failed\nfindings in 1 scripts; 1 to review" in result.stdout
    )
    masked, unmasked = json.loads(results.read_text())
    assert (masked["findings"], unmasked["findings"][0]["count"]) == ([], 4)
    result = tool(tmp_path / "unmasked.py", [{**real, "listed": True}])
    assert result.returncode == 0, result.stdout
    assert result.stdout.rstrip().endswith("listed: 1 of 1 found")
