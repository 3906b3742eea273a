"""The benchmark runs, compares results, and writes what it measured. No time is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "run.py"), *options],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.slow
def test_quick_run_writes_json(tmp_path: Path) -> None:
    output = tmp_path / "results" / "add.json"
    done = run(
        *("--quick", "--only", "add_1m", "--sides", "ours,torch", "--threads", "1"),
        *("--json", str(output)),
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(output.read_text("utf-8"))

    assert [row["workload"] for row in results["rows"]] == ["add_1m_f32", "add_1m_bf16"]
    for row in results["rows"]:
        assert row["threads"] == 1
        assert set(row["sides"]) == {"ours", "torch"}
        for times in row["sides"].values():
            assert times["right"]
            assert len(times["samples"]) == 2
            assert times["median_s"] > 0
    for kind in ("cold", "warm"):
        kernels = [record["kernel"] for record in results["compilation"][kind]]
        assert kernels == ["tiny_kernel", "add_kernel", "add_kernel"]
    cold = results["compilation"]["cold"][1]["phases"]
    assert min(cold[phase] for phase in ("make_ir", "emit", "codegen", "load", "total")) > 0
    assert results["compilation"]["warm"][1]["phases"]["codegen"] == 0
    assert results["compilation"]["cold"][1]["memory"]["arena"] > 0
    assert results["compilation"]["cold"][1]["memory"]["peak"] >= 0
    assert results["launch"]["launch_s"] > 0
    names = [figure["name"] for figure in results["figures"]]
    assert "cold compilation, most" in names
    assert all(isinstance(figure["reached"], bool) for figure in results["figures"])

    assert "ttools / torch" in done.stdout
    assert "### Targets" in output.with_suffix(".md").read_text("utf-8")


@pytest.mark.slow
def test_each_side_compiles_each_new_kernel_cold(tmp_path: Path) -> None:
    output = tmp_path / "scatter.json"
    done = run(
        *("--quick", "--only", "scatter", "--sides", "ours,memcheck,checks", "--threads", "1"),
        *("--json", str(output)),
    )
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr
    # Both workloads launch the same kernel, which is compiled for the first workload.
    (record,) = json.loads(output.read_text("utf-8"))["checked_compilation"]
    assert (record["workload"], record["kernel"]) == ("scatter", "scatter_kernel")
    for side in ("ours", "memcheck", "checks"):
        assert record[side] > 0
        assert record["phases"][side]["make_ir"] > 0
        assert record["phases"][side]["codegen"] > 0
    assert "Compilation under the checks, cold" in output.with_suffix(".md").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--only", "nothing"), "no workload has a name that contains nothing"),
        pytest.param(
            *(("--sides", "theirs"), "sides are ours, torch, upstream, memcheck, checks, viz"),
            marks=pytest.mark.slow,
        ),
        pytest.param(("--threads", "0"), "numbers of threads", marks=pytest.mark.slow),
    ],
)
def test_options_that_make_no_sense(options: tuple[str, ...], said: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())
