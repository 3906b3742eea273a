"""Scripts that compile the variants of a run: what they compile, and what they leave out."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tests.forked_python import PYTHON
from triton.tools.tensor_descriptor import TensorDescriptor

from ttools.core.compilation.compilation_log import CompilationLog, observe_compilations
from ttools.core.compilation.warm_up_script import WarmUpScript, warm_up_script
from ttools.core.gpus.targets import read_target
from ttools.interpreter import interpret

X = torch.zeros(64)
TARGET = read_target("sm_90")


class Mode(enum.Enum):
    ADD = 1


@triton.jit
def double(value):
    return value + value


@triton.jit
def fill(x_ptr, n, KIND: tl.constexpr, B: tl.constexpr, scale=None):
    lanes = tl.arange(0, B)
    value = (n + lanes).to(KIND)
    if scale is not None:
        value = value * scale
    tl.store(x_ptr + lanes, value, mask=lanes < 8)


@triton.jit
def applied(x_ptr, shape, FUNCTION: tl.constexpr, SIZES: tl.constexpr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(x_ptr + lanes, FUNCTION(lanes + shape[0] + shape[1] + SIZES[0]), mask=lanes < 8)


@triton.jit
def described(source, value):
    source.store([0, 0], source.load([0, 0]) + value)


@triton.jit
def chosen(x_ptr, MODE: tl.constexpr, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), 1.0)


tuned = triton.autotune(
    [triton.Config({"B": 16}), triton.Config({"B": 32}, num_warps=8)], key=["n"]
)(fill)


def launch_all() -> None:
    for n in (2, 3, 1, 16, 1 << 40, (1 << 40) + 1):
        fill[(1,)](X, n, KIND=tl.float32, B=16)
    fill[(1,)](X[1:], 2, KIND=tl.float16, B=16, scale=0.5, num_warps=8)
    fill[(1,)](X.bfloat16(), 2, KIND=tl.bfloat16, B=16, scale=True)
    tuned[(1,)](X, 5, KIND=tl.float32)
    applied[(1,)](X, (2, 16), FUNCTION=double, SIZES=(1, 2), B=16)
    for block in ([16, 16], [32, 16]):
        described[(1,)](TensorDescriptor.from_tensor(torch.zeros(64, 64).half(), block), 0.5)


def observed(launch: Callable[[], object]) -> CompilationLog:
    for kernel in (fill, applied, described, chosen):
        kernel.device_caches.clear()
    with observe_compilations() as log, interpret():
        launch()
    return log


def keys(log: CompilationLog) -> set[tuple[str, str]]:
    return {(entry.source.name, entry.key) for entry in log.compilations}


def executed(script: WarmUpScript) -> CompilationLog:
    """Run a script in this process."""
    scope: dict[str, Any] = {"__name__": "warm_up"}
    exec(compile(script.text, "<warm-up>", "exec"), scope)
    return observed(scope["main"])


def test_the_script_compiles_the_variants_of_the_run() -> None:
    needed = observed(launch_all)
    script = warm_up_script(needed.compilations, TARGET)
    assert script.left_out == ()
    assert script.variants == len(needed.compilations) == 12
    compiled = executed(script)
    assert keys(compiled) == keys(needed)
    assert all(entry.warm_up for entry in compiled.compilations)


def test_what_cannot_be_written_is_named() -> None:
    @triton.jit
    def inner(x_ptr, B: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, B), 1.0)

    def launch() -> None:
        inner[(1,)](X, B=16)
        chosen[(1,)](X, Mode.ADD, B=16)
        chosen[(1,)](X, "add", B=16)

    script = warm_up_script(observed(launch).compilations, TARGET)
    assert script.variants == 1
    assert script.left_out == (
        "`inner`: no name at the top level of its file leads to it",
        "`chosen`: a constant has the type Mode, which has no literal",
    )
    assert script.text.rstrip().endswith(f"# Not compiled: {script.left_out[1]}.")


SCRIPT = """\
from __future__ import annotations
import torch, triton, triton.language as tl
import not_needed_by_kernels

WIDTH = tl.constexpr(4)
SIZE = launches_something()

@triton.jit
def helper(x):
    return x * WIDTH

@triton.jit
def kernel(x_ptr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(x_ptr + lanes, helper(lanes))

if __name__ == "__main__":
    raise SystemExit("the script was started")
"""


@pytest.mark.slow
def test_a_script_is_compiled_for_a_gpu_without_ttools_and_without_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    template = warm_up_script([], TARGET).text
    call = "yield k, dict(x_ptr=Tensor(torch.float32), B=16)"
    load = f"k = from_script({str(tmp_path / 'script.py')!r}, 'kernel')"
    text, count = re.subn(r"^    pass$", f"    {load}\n    {call}", template, flags=re.M)
    assert count == 1
    (tmp_path / "warm_up.py").write_text(text)
    cache = tmp_path / "cache"
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache), "TTOOLS_BACKEND": "off"}
    result = PYTHON.run(["warm_up.py", "--without-gpu"], cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("compiled 1 variants in ")
    assert list(cache.glob("*/kernel.cubin"))
