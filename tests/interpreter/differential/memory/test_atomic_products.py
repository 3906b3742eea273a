"""Tests of every atomic operation on every type: correct bits, or an error at its line."""

from __future__ import annotations

import kernel_text
import numpy as np
import pytest
from atomic_kinds import KINDS
from number_formats import ALL, Array, Format, samples, to_numpy, to_torch
from triton.compiler.errors import CompilationError

from ttools.core.errors import UnsupportedError
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.ir.parser import parse_module

pytestmark = pytest.mark.usefixtures("native")

TILE = """
@triton.jit
def kernel(x_ptr, y_ptr, old_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    y = tl.load(y_ptr + lanes)
    old = {call}
    tl.store(old_ptr + lanes, old)
"""
#: Indices of adjacent lanes, which are updated together, and of reversed lanes.
INDICES = ("lanes", "(BLOCK - 1 - lanes)")
OPERATIONS = [*KINDS, "cas"]


def operands(format: Format) -> tuple[Array, Array]:
    """Return two arrays of numbers whose sums are exact; some elements are equal."""
    if format.bits == 8 or not format.is_float:
        values = np.resize(samples(format, 32), 32)
    else:
        values = np.random.default_rng(0).integers(-9, 9, 32).astype(np.float32)
        values = values.astype(format.numpy)
    return values, np.where(np.arange(32) % 3 == 0, values, values[::-1])


def changed(operation: str, x: Array, y: Array) -> Array:
    """Return the expected memory; a compare-and-swap stores `y` backwards."""
    if operation == "cas":
        bits = f"u{x.dtype.itemsize}"
        return np.where(x.view(bits) == y.view(bits), y[::-1], x)
    with np.errstate(all="ignore"):
        pairs = zip(x, y, strict=True)
        return np.array([KINDS[operation](a, b) for a, b in pairs]).astype(x.dtype)


@pytest.mark.parametrize("format", ALL, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_correct_or_an_error(operation: str, format: Format) -> None:
    x, y = operands(format)
    for index in INDICES:
        values = "y, tl.load(y_ptr + BLOCK - 1 - lanes)" if operation == "cas" else "y"
        call = f"tl.atomic_{operation}(x_ptr + {index}, {values})"
        target, old = to_torch(x.copy()), to_torch(np.zeros_like(x))
        kernel = kernel_text.kernel(TILE.format(call=call))
        try:
            kernel[(1,)](target, to_torch(y), old, BLOCK=32)
        except CompilationError as refusal:
            line = TILE[: TILE.index("old = ")].count("\n") - 1
            if f"at {line}:" not in str(refusal):
                raise
            continue
        before = x if index == "lanes" else x[::-1]
        now = changed(operation, before, y)
        now = now if index == "lanes" else now[::-1]
        assert to_numpy(target).tobytes() == np.ascontiguousarray(now).tobytes(), index
        assert to_numpy(old).tobytes() == np.ascontiguousarray(before).tobytes(), index


@pytest.mark.parametrize(
    ("kind", "element", "words"),
    [
        ("max", "f32", "float32"),
        ("umin", "f64", "float64"),
        ("add", "bf16", "bfloat16"),
        ("fadd", "i32", "int32"),
        ("fadd", "f8E5M2", "float8e5"),
    ],
)
def test_ttir_that_triton_never_prints_is_an_error(kind: str, element: str, words: str) -> None:
    text = f"""
module {{
  tt.func public @k(%p: !tt.ptr<{element}>, %v: {element}) {{
    %r = tt.atomic_rmw {kind}, relaxed, gpu, %p, %v : (!tt.ptr<{element}>, {element}) -> {element}
    tt.return
  }}
}}
"""
    with pytest.raises(UnsupportedError, match=f"tt.atomic_rmw {kind} of {words}"):
        emit_kernel(parse_module(text), Facts(), EmitOptions())
