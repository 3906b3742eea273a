"""Tests of the tool that compares the operations of the engine with those of a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return PYTHON.run(["-m", "tools.gpu_op_table", *arguments], cwd=ROOT, timeout=1200)


@pytest.mark.gpu
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_every_row_is_within_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    jobs = str(min(12, os.cpu_count() or 1))
    finished = run_tool("--jobs", jobs, "--json", str(file))
    assert file.exists(), finished.stderr
    rows = json.loads(file.read_text())["rows"]
    failed = [
        (row["operation"], row["types"], row.get("error") or row["example"])
        for row in rows
        if row["status"] not in ("equal", "within", "known")
    ]
    assert not failed, failed
    assert len(rows) > 900
    assert finished.returncode == 0


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(("fma(x, y, z) [f16]", "xor_sum [i32]", "x // y [i32]"), id="some"),
        pytest.param((), id="all", marks=pytest.mark.slow),
    ],
)
def test_the_eager_engine_computes_the_same(tmp_path: Path, rows: tuple[str, ...]) -> None:
    file = tmp_path / "table.json"
    only = [word for row in rows for word in ("--only", row)]
    finished = run_tool("--reference", "eager", *only, "--json", str(file))
    assert file.exists(), finished.stderr
    table = json.loads(file.read_text())["rows"]
    statuses = [row["status"] for row in table]
    assert len(statuses) == len(rows) if rows else len(statuses) > 900
    assert statuses.count("equal") > 0.98 * len(statuses)
    outside = {row["operation"] for row in table if row["status"] not in ("equal", "within")}
    # Undefined results can differ: an eager program computes `x % 0` before it encounters `x // 0`
    # (docs/design/numerics.md).
    assert outside == (set() if rows else {"x // y + x % y"})


def test_without_a_gpu_the_schedules_are_compared(tmp_path: Path) -> None:
    table, page = tmp_path / "table.json", tmp_path / "page.md"
    page.write_text(
        "before\n<!-- begin: gpu agreement -->\nold\n<!-- end: gpu agreement -->\nafter\n"
    )
    finished = run_tool(
        *("--reference", "materialised", "--only", "fma(x, y, z) [f16]", "--only", "xor_sum [i32]"),
        *("--json", str(table), "--markdown", str(page)),
    )
    assert finished.returncode == 0, finished.stderr
    rows = json.loads(table.read_text())["rows"]
    assert [(row["operation"], row["types"], row["status"]) for row in rows] == [
        ("fma(x, y, z)", "f16", "equal"),
        ("xor_sum", "i32", "equal"),
    ]
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "`xor_sum`" in text


def test_unknown_rows_are_usage_errors() -> None:
    finished = run_tool("--reference", "materialised", "--only", "no such row")
    assert finished.returncode == 2
    assert "--only" in finished.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu_the_default_explains_the_options() -> None:
    finished = run_tool("--only", "xor_sum [i32]")
    assert finished.returncode == 2
    assert "--reference materialised" in finished.stderr


@pytest.mark.parametrize(
    ("dtype", "actual", "expected", "ulps", "different"),
    [
        (torch.float32, 1.0, 1.0, 0, 0),
        (torch.float32, 0.0, -0.0, 0, 1),
        (torch.float32, 1.0, 1.0 + 2**-23, 1, 1),
        (torch.float64, -1.0, -1.0 - 2**-51, 2, 1),
        (torch.float16, 2**-24, -(2**-24), 2, 1),
        (torch.bfloat16, float("nan"), float("nan"), 0, 0),
        (torch.float32, float("nan"), 1.0, float("inf"), 1),
        (torch.float8_e5m2, 1.0, 1.25, 1, 1),
        (torch.int8, -128, 127, 255, 1),
        (torch.int64, -1, 1, 2, 1),
        (torch.bool, True, False, 1, 1),
    ],
)
def test_distances(dtype, actual, expected, ulps, different) -> None:
    sys.path.insert(0, str(ROOT))
    from tools.gpu_op_table.comparison import distance
    from tools.gpu_op_table.rows import EXACT, Bound

    a, b = torch.tensor([actual]).to(dtype), torch.tensor([expected]).to(dtype)
    if dtype.itemsize == 8:
        a, b = torch.tensor([actual], dtype=dtype), torch.tensor([expected], dtype=dtype)
    result = distance(a, b, EXACT)
    assert (result.ulps, result.different, result.outside) == (ulps, different, different)
    wide = distance(a, b, Bound(ulps=300))
    assert wide.outside == (ulps == float("inf"))
