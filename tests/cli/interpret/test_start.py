"""Imports of `ttools interpret` before the script, and the order of imports in scripts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

#: Modules that take 100 ms or more to import.
SLOW = {"torch", "triton", "numpy", "llvmlite", "pandas", "jinja2", "ml_dtypes", "scipy", "sklearn"}
#: Python itself imports about 120 modules; typer and rich account for 300 of the others.
MOST_MODULES = 550

pytest.importorskip("torch", reason="torch is not installed")


def test_a_script_without_torch_imports_no_slow_module(started_ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nprint(*sys.modules)\n")
    result = started_ttools("interpret", "script.py")
    assert result.returncode == 0, result.stderr
    imported = result.stdout.split()
    assert not SLOW & {name.partition(".")[0] for name in imported}
    assert len(imported) < MOST_MODULES
    assert "no Triton kernel was launched" in result.stderr


KERNEL = """

@triton.jit
def fill(out_ptr):
    tl.store(out_ptr, 1.0)


out = torch.zeros(1, device="cuda")
fill[(1,)](out)
print(out.item(), out.device)
"""
THREAD = """\
import threading
thread = threading.Thread(target=__import__, args=("triton",))
thread.start()
thread.join()
"""
TORCH, TRITON = "import torch\n", "import triton\nimport triton.language as tl\n"


@pytest.mark.parametrize(
    "imports",
    [
        TORCH + TRITON,
        pytest.param(TRITON + TORCH, marks=pytest.mark.slow),
        pytest.param(
            f"import importlib.util\nimportlib.util.find_spec('torch')\n{TORCH}{TRITON}",
            marks=pytest.mark.slow,
        ),
        pytest.param(f"{THREAD}{TORCH}{TRITON}", marks=pytest.mark.slow),
        pytest.param(
            "import triton.language as tl\nimport torch\nimport triton\n", marks=pytest.mark.slow
        ),
    ],
    ids=["torch first", "triton first", "looked for", "in a thread", "a part of triton first"],
)
def test_launches_are_seen_in_any_order_of_imports(
    started_ttools: Run, tmp_path: Path, imports: str
) -> None:
    (tmp_path / "script.py").write_text(imports + KERNEL)
    result = started_ttools("interpret", "--device-map", "cuda=cpu", "--stats", "script.py")
    assert result.stdout == "1.0 cuda:0\n", result.stderr
    assert "fill" in result.stderr


def test_triton_interpret_is_ignored_before_triton_is_imported(
    started_ttools: Run, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(TRITON + TORCH + KERNEL)
    result = started_ttools(
        "interpret", "--device-map", "cuda=cpu", "--stats", "script.py", TRITON_INTERPRET="1"
    )
    assert result.stdout == "1.0 cuda:0\n", result.stderr
    assert "TRITON_INTERPRET is set; this run ignores it" in result.stderr


MODULE = """
import torch
import triton
import triton.language as tl


@triton.jit
def fill(out_ptr):
    tl.store(out_ptr, 1.0)


def launch():
    fill[(1,)](torch.zeros(1))
"""


@pytest.mark.parametrize("variable", [pytest.param("", marks=pytest.mark.slow), "1"])
def test_interpret_may_be_entered_before_triton_is_imported(tmp_path: Path, variable: str) -> None:
    script = """
import os
os.environ["TRITON_INTERPRET"] = VARIABLE
from ttools.interpreter import interpret
with interpret() as outer, interpret() as run:
    import sys
    assert VARIABLE or "triton" not in sys.modules
    import torch, triton, triton.language as tl
    import module
    module.launch()
    assert [each.launches for each in run.stats] == [1]
with interpret() as empty:
    pass
before = triton.JITFunction.run
with interpret() as again:
    assert triton.JITFunction.run is not before
    module.launch()
assert triton.JITFunction.run is before
assert [each.launches for each in again.stats] == [1]
""".replace("VARIABLE", repr(variable))
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "script.py").write_text(script)
    result = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
