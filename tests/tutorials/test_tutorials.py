"""Triton's tutorials run unmodified, with a CPU device instead of the GPU.

They are not part of this repository: `TTOOLS_TUTORIALS` names their folder (`python/tutorials` in a
checkout of Triton). Only their benchmarks are shortened.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.tutorials, pytest.mark.slow, pytest.mark.timeout(900)]

#: For each file, the arguments to run, and the text that the output must contain.
TUTORIALS: dict[str, tuple[list[str], str]] = {
    "01-vector-add.py": ([], "difference between torch and triton is 0.0"),
    "02-fused-softmax.py": ([], "softmax-performance"),
    "03-matrix-multiplication.py": ([], "Triton and Torch match"),
    "04-low-memory-dropout.py": ([], "output (seed = 512)"),
    "05-layer-norm.py": ([], "layer-norm-backward"),
    "06-fused-attention.py": ([], "fused-attention-batch4-head32-d64-fwd"),
    "07-extern-functions.py": ([], "maximum difference between torch and triton is"),
    "08-grouped-gemm.py": ([], "group-gemm-performance"),
}


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `ttools interpret` on a tutorial, which may leave files in `folder`."""
    environment = {
        **os.environ,
        "MPLBACKEND": "Agg",
        "PYTHONPATH": str(Path(__file__).parent / "shortened"),
    }
    prefix = [sys.executable, "-m", "ttools_entry", "interpret", "--device-map", "cuda=cpu"]
    return subprocess.run(
        prefix + command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorial(name: str, tmp_path: Path) -> None:
    path = Path(os.environ["TTOOLS_TUTORIALS"]).absolute() / name
    if not path.exists():
        pytest.skip(f"{path.parent} has no {name}")
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    arguments, expected = TUTORIALS[name]
    result = run([str(path), *arguments], tmp_path)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    assert expected in result.stdout


def test_persistent_matmul_and_its_profile(tmp_path: Path) -> None:
    path = Path(os.environ["TTOOLS_TUTORIALS"]).absolute() / "09-persistent-matmul.py"
    if not path.exists():
        pytest.skip(f"{path.parent} has no {path.name}")
    pytest.importorskip("hatchet", reason="llnl-hatchet is not installed")
    result = run([str(path), "--prec", "fp16", "-K", "64"], tmp_path)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    assert "M=8192, N=8192, K=64, verification naive vs" in result.stdout
    assert result.stdout.count("Persistent: ✅") >= 2
    assert "❌" not in result.stdout
    root = json.loads((tmp_path / "matmul.hatchet").read_text())[0]
    launches = [node for node in root["children"] if node["metrics"].get("count")]
    assert len(launches) >= 2
    for node in launches:
        assert node["metrics"]["time (ns)"] > 0
        assert node["metrics"]["flops16"] == 2 * 8192 * 8192 * 64
        assert node["frame"]["name"] in result.stdout


def test_the_tests_of_the_attention_tutorial(tmp_path: Path) -> None:
    path = Path(os.environ["TTOOLS_TUTORIALS"]).absolute() / "06-fused-attention.py"
    if not path.exists():
        pytest.skip(f"{path.parent} has no {path.name}")
    # The tutorial has tests of its correctness, of which the smaller sizes suffice here.
    command = ["-m", "pytest", "-q", "-x", str(path), "-k", "64-128-2-1 or 128-128-2-1"]
    result = run(command, tmp_path)
    assert result.returncode == 0, result.stdout[-4000:]
    assert "passed" in result.stdout
