"""`ttools profile view` on files that Proton writes."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from tests.cli.conftest import Run

#: Proton itself writes the file; a CPU device replaces the GPU.
SCRIPT = """\
import torch
import triton
import triton.language as tl
import triton.profiler as proton


@triton.jit
def scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2.0, mask=offs < n)


x = torch.ones(1000, device="cuda")
proton.start("mine")
for n in range(2):
    with proton.scope(f"step {n}", {"bytes": 8000, "flops32": 1000}):
        scale_kernel[(4,)](x, 1000, BLOCK=256)
proton.finalize()
"""


def test_a_file_that_proton_wrote(ttools: Run, called_ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(SCRIPT)
    result = ttools("interpret", "run.py")
    assert result.returncode == 0, result.stderr
    result = called_ttools("profile", "view", "--list", "mine.hatchet")
    assert result.returncode == 0, result.stderr
    assert "metrics: " in result.stdout
    assert "gbyte/s" in result.stdout
    words = ("-m", "count,bytes,gbyte/s", "--format", "markdown", "mine.hatchet")
    shown = called_ttools("profile", "view", *words).stdout.splitlines()
    assert shown[2].startswith("| name | count | bytes | gbyte/s")
    words = ("-m", "count,bytes,gbyte/s", "--format", "csv", "mine.hatchet")
    result = called_ttools("profile", "view", *words)
    rows = {row["name"]: row for row in csv.DictReader(StringIO(result.stdout))}
    assert (rows["step 1"]["count"], rows["step 1"]["bytes"]) == ("1.0", "8000.0")
    assert rows["ROOT"]["bytes"] == "16000.0"
    assert float(rows["ROOT"]["gbyte/s"]) > 0
    result = called_ttools("profile", "view", "-m", "util", "mine.hatchet")
    assert result.returncode == 0
    assert "util is unknown" in result.stderr
    result = called_ttools("profile", "view", "mine.hatchet", "mine.hatchet", COLUMNS="150")
    assert (result.returncode, result.stderr) == (0, "")
    assert "time/ms ratio" in " ".join(result.stdout.split())
    assert "    scale_kernel" in result.stdout


def test_traces_of_profile_can_be_viewed(ttools: Run, called_ttools: Run, tmp_path: Path) -> None:
    script = SCRIPT.replace('proton.start("mine")', "").replace("proton.finalize()", "")
    (tmp_path / "run.py").write_text(script)
    result = ttools("profile", "--format", "chrome", "--output", "t.json", "run.py")
    assert result.returncode == 0, result.stderr
    result = called_ttools("profile", "view", "-m", "count,bytes", "--format", "csv", "t.json")
    rows = {row["name"]: row for row in csv.DictReader(StringIO(result.stdout))}
    assert (rows["step 0"]["count"], rows["ROOT"]["count"]) == ("1.0", "2.0")
    assert rows["ROOT"]["bytes"] == "16000.0"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("gone.hatchet",), "cannot read `gone.hatchet`"),
        (("bad.hatchet",), "is neither JSON nor MessagePack"),
        (("-m", "wattage", "good.hatchet"), "the metric `wattage` needs `wattage`"),
        (("--output", "gone/v.txt", "good.hatchet"), "there is no folder `gone`"),
    ],
)
def test_usage_errors(
    called_ttools: Run, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "bad.hatchet").write_text("[")
    tree = {"frame": {"name": "ROOT"}, "metrics": {"time (ns)": 1}, "children": []}
    (tmp_path / "good.hatchet").write_text(json.dumps([tree]))
    result = called_ttools("profile", "view", *words)
    assert result.returncode == 2
    assert sentence in result.stderr


def test_titles_of_many_columns_are_wrapped(called_ttools: Run, tmp_path: Path) -> None:
    kernel = {"frame": {"name": "k"}, "metrics": {"time (ns)": 1234567, "count": 3}}
    for name in ("a", "b"):
        tree = {"frame": {"name": "ROOT"}, "metrics": {}, "children": [kernel]}
        (tmp_path / f"{name}.hatchet").write_text(json.dumps([tree]))
    metrics = "time/ns,time/us,avg_time/ns,avg_time/us,count"
    result = called_ttools(
        "profile", "view", "-m", metrics, "a.hatchet", "b.hatchet", COLUMNS="100"
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "…" not in result.stdout
    assert result.stdout.count(" 1,234,567 ") == 4
    assert result.stdout.count(" 411,522 ") == 4


def test_an_empty_profile(called_ttools: Run, tmp_path: Path) -> None:
    tree = {"frame": {"name": "ROOT"}, "metrics": {}, "children": []}
    (tmp_path / "empty.hatchet").write_text(json.dumps([tree]))
    result = called_ttools("profile", "view", "empty.hatchet")
    assert result.returncode == 0
    assert "nothing ran while Proton recorded" in result.stderr
