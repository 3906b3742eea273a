"""Tests of the comparison with an earlier revision: its rows, and a small run on this revision."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]


@pytest.fixture
def revisions(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import revisions

    return revisions


def test_drift_of_the_machine_is_no_difference(revisions: Any) -> None:
    """Check that rounds are compared by ratios, because the machine may gradually become slower."""
    row = revisions.Comparison("add", before=[[1e-3, 2e-3, 4e-3]], now=[[1.1e-3, 2.2e-3, 4.4e-3]])
    assert row.ratio == pytest.approx(1.1)
    assert row.cells() == ("add", "1.000", "1.100", "1.100", "1.100-1.100")


def test_a_process_with_unlucky_memory_is_told(revisions: Any) -> None:
    row = revisions.Comparison("add", before=[[1.0], [1.0], [1.0]], now=[[1.0], [1.5], [1.01]])
    assert row.ratio == pytest.approx(1.01)
    assert row.cells()[-1] == "1.000-1.500"


def test_rows_above_the_limit_are_named(revisions: Any) -> None:
    rows = {
        name: revisions.Comparison(name, before=[[1.0]], now=[[now]])
        for name, now in (("add", 1.02), ("sort", 1.04))
    }
    sheet = revisions._sheet("ours", rows, 1.03)
    assert sheet.notes == ("geometric mean 1.030; over 1.03: sort",)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("no-such-revision",), "no-such-revision"),
        (("HEAD", "--sides", "torch"), "torch"),
        (("HEAD", "--only", "nothing"), "nothing"),
        (("HEAD", "--threads", "0"), "0"),
    ],
)
def test_mistakes_are_named(revisions: Any, arguments: tuple[str, ...], named: str) -> None:
    program = typer.Typer()
    program.command()(revisions.main)
    done = CliRunner().invoke(program, arguments)
    assert done.exit_code == 2
    assert named in done.stderr


@pytest.mark.slow
def test_a_comparison_with_the_last_commit(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    options = ("--only", "add_1m_f32", "--processes", "1", "--rounds", "2", "--threads", "1")
    done = _compare("HEAD", *options, "--json", str(file))
    assert done.returncode == 0, done.stderr
    samples = json.loads(file.read_text())
    assert set(samples) == {
        *("ours, ms, threads: 1", "memcheck, ms, threads: 1", "memcheck / unchecked, threads: 1"),
        *("compilation, ours, ms", "compilation, memcheck, ms"),
    }
    for rows in samples.values():
        (before,), (now,) = rows["add 1M f32"]
        assert len(before) == len(now) == 2
        assert min(*before, *now) > 0


def _compare(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "revisions.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
