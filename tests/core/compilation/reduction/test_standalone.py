"""Kernels are written as text that needs only Triton, and that compiles to the same TTIR."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from tests.core.compilation.reduction import helper_module
from tests.core.compilation.reduction.helper_module import tripled as imported_name

from ttools.core.compilation.kernel_source import KernelSource, source_of_signature
from ttools.core.compilation.reduction import Compiler
from ttools.core.compilation.standalone import standalone_kernel
from ttools.core.errors import UsageError
from ttools.core.gpus.targets import read_target
from ttools.core.triton_versions import begin_compilation, triton_version

FACTOR = tl.constexpr(5)
UNWRITABLE = helper_module.Unwritable()


@triton.jit
def many_names(x_ptr, n, DTYPE: tl.constexpr, SHAPE: tl.constexpr, BLOCK: tl.constexpr = 64):
    """Use functions and constants of several modules."""
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n).to(DTYPE)
    x = helper_module.tripled(x) + imported_name(x) * FACTOR
    x = tl.reshape(x, SHAPE)
    tl.store(x_ptr + tl.reshape(offsets, SHAPE), x + tl.sum(x, 0)[None, :])


@triton.jit
def with_keywords(x_ptr, *, BLOCK: tl.constexpr = 64):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)


@triton.jit
def with_function(x_ptr, ACTIVATION: tl.constexpr):
    tl.store(x_ptr, ACTIVATION(tl.load(x_ptr)))


@triton.jit
def with_object(x_ptr):
    tl.store(x_ptr, UNWRITABLE)


def _closed_over(size: int) -> Any:
    width = tl.constexpr(size)

    @triton.jit
    def kernel(x_ptr):
        tl.store(x_ptr + tl.arange(0, width), 1.0)

    return kernel


def _ttir(function: Any, source: KernelSource) -> str:
    compilable = triton.compiler.ASTSource(
        function, dict(source.signature), dict(source.constants), dict(source.hints)
    )
    text = str(begin_compilation(compilable, read_target("sm_90").gpu_target(), {}).module)
    text = re.sub(r'loc\((?:[^()"]|"[^"]*"|\([^()]*\))*\)|^#loc.*$', "", text, flags=re.MULTILINE)
    return re.sub(r"@[\w.]*?(\w+?)__\w*", r"@\1", text)


def _assert_same_code(source: KernelSource, folder: Path) -> str:
    """Compile a kernel and its stand-alone text with Triton's front end, and compare the TTIR."""
    kernel = standalone_kernel(source)
    path = folder / "alone.py"
    path.write_text(kernel.definitions)
    assert "tests" not in kernel.definitions
    namespace: dict[str, Any] = {"__name__": "alone"}
    exec(compile(kernel.definitions, str(path), "exec"), namespace)
    alone = namespace[kernel.name]
    assert list(alone.arg_names) == list(source.signature)
    assert _ttir(alone, source) == _ttir(source.function, source)
    return kernel.definitions


def test_functions_of_other_modules_are_included(tmp_path: Path) -> None:
    source = source_of_signature(many_names, "*fp16:16,i32,tl.float32,(8,8),64", {"num_warps": 2})
    text = _assert_same_code(source, tmp_path)
    assert text.count("def tripled") == 1
    factors = [line for line in text.splitlines() if line.startswith("FACTOR")]
    assert sorted(line.partition(" = ")[2] for line in factors) == [
        "tl.constexpr(3)",
        "tl.constexpr(5)",
    ]
    assert len({line.partition(" = ")[0] for line in factors}) == 2
    kernel = standalone_kernel(source)
    constants = {p.name: dict(p.constants).get(()) for p in kernel.parameters}
    assert constants["DTYPE"] == "tl.float32"
    assert constants["BLOCK"] == "64"
    assert kernel.options == (("num_warps", "2"),)
    with Compiler(read_target("sm_90"), 200.0) as compiler:
        assert compiler.compile(kernel, "ttir") is None


@pytest.mark.skipif(
    triton_version() < (3, 9),
    reason="kernels have no keyword-only parameters in this version of Triton",
)
def test_keyword_only_parameters_become_ordinary_ones(tmp_path: Path) -> None:
    source = source_of_signature(with_keywords, "*fp32,32", {})
    assert "def with_keywords(x_ptr, BLOCK: " in _assert_same_code(source, tmp_path)


def test_closures_are_written_as_globals(tmp_path: Path) -> None:
    text = _assert_same_code(source_of_signature(_closed_over(32), "*fp32", {}), tmp_path)
    assert "width = tl.constexpr(32)" in text.splitlines()


def test_a_function_as_a_constant_is_included() -> None:
    source = KernelSource(
        name="with_function",
        function=with_function,
        signature={"x_ptr": "*fp32", "ACTIVATION": "constexpr"},
        constants={(1,): helper_module.tripled},
    )
    kernel = standalone_kernel(source)
    assert dict(kernel.parameters[1].constants) == {(): "tripled"}
    assert "def tripled" in kernel.definitions


def test_an_object_without_text_is_named() -> None:
    with pytest.raises(
        UsageError, match=r"^`with_object` refers to `UNWRITABLE`, which is .* cannot be written "
    ):
        standalone_kernel(source_of_signature(with_object, "*fp32", {}))


def test_ttir_has_no_source() -> None:
    with pytest.raises(UsageError, match="is TTIR, which has no Python source"):
        standalone_kernel(KernelSource(name="kernel", path=Path("kernel.ttir")))
