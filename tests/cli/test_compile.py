"""Commands on a script that compiles a function for CUDA see every launch.

All commands share one cache folder of Inductor.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")

SCRIPT = """
import torch, triton, triton.language as tl
from torch.nn import functional

@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, at < n) * 2, at < n)

def forward(x):
    out = torch.empty_like(x)
    doubled[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return functional.gelu(out).softmax(-1)

weight = torch.randn(100, 100, device="cuda", requires_grad=True)

def loss(x):
    return (x @ weight).relu().softmax(-1).square().sum()

x = torch.randn(64, 100, device="cuda")
torch.testing.assert_close(torch.compile(forward)(x), functional.gelu(x * 2).softmax(-1))
compiled = torch.compile(loss)
for _ in range(2):
    gradient, = torch.autograd.grad(compiled(x), weight)
torch.testing.assert_close(gradient, torch.autograd.grad(loss(x), weight)[0])
print("equal")
"""
#: Launches of the script: one run of `forward`, two of `loss` and its backward pass.
LAUNCHES = 2 + 2 * 3


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the cache folder of Inductor that all tests share."""
    return str(tmp_path_factory.mktemp("inductor"))


@pytest.fixture
def compiling(ttools: Run, tmp_path: Path, written: str) -> Callable[..., str]:
    """Return a function that runs a command on the script.

    It returns the content of the outputfile.
    """
    (tmp_path / "script.py").write_text(SCRIPT)

    def run(command: str, *options: str, file: str = "out.json") -> str:
        words = (command, *options, "--output", file, "script.py")
        result = ttools(*words, TORCHINDUCTOR_CACHE_DIR=written)
        assert result.returncode == 0, result.stderr
        assert "equal" in result.stdout
        return (tmp_path / file).read_text("utf-8", "replace")

    return run


def _launches(report: str) -> dict[str, int]:
    return {row["kernel"]: row["launches"] for row in json.loads(report)["kernels"]}


def test_interpret(compiling: Callable[..., str]) -> None:
    launches = _launches(compiling("interpret", "--first-config", "--format", "json"))
    assert launches["doubled"] == 1
    assert sum(launches.values()) == LAUNCHES
    assert sorted(launches.values()) == [1, 1, 2, 2, 2]


@pytest.mark.slow
def test_sanitize(compiling: Callable[..., str]) -> None:
    report = json.loads(compiling("sanitize", "--format", "json"))
    assert report["findings"] == []
    assert sum(row["count"] for row in report["launches"]) == LAUNCHES


@pytest.mark.slow
def test_sanitize_in_all_configurations(compiling: Callable[..., str]) -> None:
    report = json.loads(compiling("sanitize", "--all-configs", "--format", "json"))
    assert report["findings"] == []
    assert sum(row["count"] for row in report["launches"]) > LAUNCHES


@pytest.mark.slow
def test_profile(compiling: Callable[..., str]) -> None:
    report = json.loads(compiling("profile", "--target", "sm_80", "--format", "json"))
    launches: Counter[str] = Counter()
    for row in report["kernels"]:
        launches[row["kernel"]] += row["launches"]
        assert row["bytes"] > 0
        assert row["config"]
    assert sum(launches.values()) == LAUNCHES
    assert {row["kernel"] for row in report["compiled"]} == set(launches)


@pytest.mark.slow
def test_inspect(compiling: Callable[..., str]) -> None:
    report = json.loads(compiling("inspect", "--gpu", "sm_90", "--format", "json"))
    kernels = [row["kernel"] for row in report["kernels"]]
    assert len(kernels) == len(set(kernels)) == 5
    (own,) = (row for row in report["kernels"] if row["kernel"] == "doubled")
    assert own["parameters"]["BLOCK"] == "constant 64"


@pytest.mark.slow
def test_record(compiling: Callable[..., str], ttools: Run) -> None:
    compiling("record", "--launch", "0:100", file="launches.tt")
    again = ttools("sanitize", "launches.tt")
    assert again.returncode == 0, again.stderr
    assert f"no finding in 5 kernels, {LAUNCHES} launches" in again.stdout


@pytest.mark.slow
def test_tune(compiling: Callable[..., str]) -> None:
    report = json.loads(compiling("tune", "--workers", "0", "--format", "json"))
    tuned = {row["kernel"] for row in report["problems"]}
    assert "doubled" in tuned
    assert len(tuned) > 1


@pytest.mark.slow
def test_eager_engine(compiling: Callable[..., str]) -> None:
    launches = _launches(compiling("interpret", "--engine", "eager", "--format", "json"))
    assert sum(launches.values()) == LAUNCHES
