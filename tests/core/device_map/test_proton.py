"""Tests of Proton under a device map: its files and its viewer, with times of the interpreter."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.forked_python import PYTHON

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")

_HEAD = """
import torch, triton, triton.language as tl
import triton.profiler as proton

def metadata(grid, kernel, arguments):
    return {"name": f"named <{grid[0]}>", "flops32": 8.0 * grid[0]}

@triton.jit
def plain(x_ptr, N: tl.constexpr):
    at = x_ptr + tl.program_id(0) * N + tl.arange(0, N)
    tl.store(at, tl.load(at) + 1)

@triton.jit(launch_metadata=metadata)
def described(x_ptr, N: tl.constexpr):
    at = x_ptr + tl.program_id(0) * N + tl.arange(0, N)
    tl.store(at, tl.load(at) + 1)

x = torch.zeros(64, device="cuda")
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script under the device map with this working directory."""
    script = folder / "script.py"
    script.write_text(_HEAD + textwrap.dedent(code))
    command = ["-m", "ttools_entry", "interpret", "--device-map", "cuda=cpu"]
    return PYTHON.run([*command, str(script)], cwd=folder)


def tree_of(node: dict[str, Any]) -> dict[str, Any]:
    """Return the frames below a node by name, with the number of launches and their frames."""
    return {
        child["frame"]["name"]: (child["metrics"].get("count", 0), tree_of(child))
        for child in node["children"]
    }


SESSION = """
session = proton.start("profile", hook="triton")
proton.deactivate(session)
plain[(4,)](x, N=16)
proton.activate(session)
for turn in range(3):
    with proton.scope("outer", {"width": 2.5}):
        described[(4,)](x, N=16)
        with proton.scope("inner"):
            plain[(4,)](x, N=16)
            plain[(2,)](x, N=16)
plain[(4,)](x, N=16)
proton.deactivate(session)
plain[(4,)](x, N=16)
proton.finalize()
assert x[:32].eq(12).all() and x[32:].eq(9).all(), x
"""


def test_a_session_contains_the_launches_of_its_scopes(tmp_path: Path) -> None:
    completed = run(SESSION, tmp_path)
    assert completed.returncode == 0, completed.stderr
    root = json.loads((tmp_path / "profile.hatchet").read_text())[0]
    outer: dict[str, Any] = {"named <4>": (3, {}), "inner": (0, {"plain": (6, {})})}
    assert tree_of(root) == {"outer": (0, outer), "plain": (1, {})}
    nodes = {child["frame"]["name"]: child for child in root["children"]}
    assert nodes["outer"]["metrics"]["width"] == 7.5
    described = next(n for n in nodes["outer"]["children"] if n["frame"]["name"] == "named <4>")
    assert described["metrics"]["flops32"] == 96
    assert 0 < described["metrics"]["time (ns)"] < 1e10
    assert {"time (ns)", "count", "flops32", "width"} <= set(root["metrics"])


def test_the_viewer_shows_total_times(tmp_path: Path) -> None:
    pytest.importorskip("hatchet", reason="llnl-hatchet is not installed")
    view = """
    import triton.profiler.viewer as viewer
    tree, metrics = viewer.parse(["time/ns", "avg_time/ns", "flop32/s"], "profile.hatchet")
    times = dict(zip(tree.dataframe["name"], tree.dataframe["time/ns (inc)"]))
    assert times["ROOT"] > times["outer"] > times["named <4>"] > 0
    viewer.print_tree(tree, metrics)
    """
    completed = run(SESSION + textwrap.dedent(view), tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert "named <4>" in completed.stdout


def test_without_the_hook_kernels_have_their_own_names(tmp_path: Path) -> None:
    code = """
    first = proton.start("first")
    described[(4,)](x, N=16)
    second = proton.start("second")
    described[(4,)](x, N=16)
    proton.finalize(first)
    described[(4,)](x, N=16)
    proton.finalize(second)
    described[(4,)](x, N=16)
    """
    completed = run(code, tmp_path)
    assert completed.returncode == 0, completed.stderr
    for name in ("first", "second"):
        root = json.loads((tmp_path / f"{name}.hatchet").read_text())[0]
        assert tree_of(root) == {"described": (2, {})}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('backend="instrumentation"', "Proton's instrumentation of kernels on the CPU"),
        ('mode="pcsampling"', "Proton's mode 'pcsampling' on the CPU"),
        ('data="trace"', "Proton's data 'trace' on the CPU"),
    ],
)
def test_features_that_need_a_gpu_are_errors(tmp_path: Path, arguments: str, message: str) -> None:
    completed = run(f'proton.start("profile", {arguments})', tmp_path)
    assert completed.returncode != 0
    assert message in completed.stderr
    assert "Traceback" not in completed.stderr


def test_proton_is_restored_after_the_map(tmp_path: Path) -> None:
    code = """
    import importlib
    from ttools.core.device_map.mapping import map_devices

    with map_devices({"cuda": "cpu"}):
        profile = importlib.import_module("triton.profiler.profile")
        inside = profile._select_backend
        assert inside() == "cpu"
    assert profile._select_backend is not inside
    assert "stand_in" not in getattr(profile.libproton.start, "__module__", "")
    """
    script = tmp_path / "code.py"
    script.write_text(textwrap.dedent(code))
    completed = PYTHON.run([str(script)])
    assert completed.returncode == 0, completed.stderr
