"""Tests of the interface for the emitter: supported operations, costs and errors."""

from __future__ import annotations

import numpy as np
import pytest
from vector_jit import apply, make_op

from ttools import ir
from ttools.core.errors import UnsupportedError
from ttools.interpreter.elementwise import cost, is_elementwise, lower
from ttools.interpreter.elementwise.libdevice import find
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue


def test_elementwise_operations() -> None:
    for name in ("arith.addi", "math.exp", "tt.fp_to_fp", "tt.extern_elementwise", "tt.clampf"):
        assert is_elementwise(name)
    for name in ("tt.load", "tt.addptr", "tt.reduce", "arith.constant", "scf.for"):
        assert not is_elementwise(name)


def test_order_of_costs() -> None:
    def of(name: str, kind: str = "f32", operands: int = 1) -> int:
        return cost(make_op(name, [kind] * operands, [kind], {}))

    assert of("arith.addf", operands=2) <= 2
    assert of("arith.addi", "i32", 2) <= 2
    assert of("arith.divf", operands=2) >= 8
    assert of("math.exp") >= 8
    assert of("math.atan") > of("math.powf") > of("math.sin") > of("math.exp")
    assert of("math.exp", "f64") > of("math.exp")
    assert of("arith.addf", "bf16", 2) > of("arith.addf", "f32", 2)
    assert of("arith.divsi", "i64", 2) > of("arith.divsi", "i32", 2) >= 8


def test_division_by_a_constant_is_cheap() -> None:
    op = make_op("arith.divsi", ["i32", "i32"], ["i32"], {})
    constant = ir.Operation("arith.constant")
    constant.results.append(op.operands[1])
    op.operands[1].define(op.operands[1].type, constant, 0, None)
    assert cost(op) < 8


def test_functions_are_defined_once() -> None:
    builder = Builder()
    op = make_op("math.exp", ["f32"], ["f32"], {})
    (once,) = lower(builder, op, 16, [SSAValue("%x", "<16 x float>")])
    lower(builder, op, 16, [once])
    assert list(builder.definitions) == ["ttools.exp.v16f32"]
    assert len(builder.lines) == 2


def test_literal_operands() -> None:
    x = np.linspace(-2, 2, 16, dtype=np.float32)
    two = "splat (float 0x4000000000000000)"
    for op, expected in (("addf", x + 2), ("divf", x / 2), ("maxnumf", np.maximum(x, 2))):
        actual = apply(f"arith.{op}", ["f32"] * 2, ["f32"], x, x, literals={1: two})
        np.testing.assert_array_equal(actual, expected)
    for op in ("math.exp", "math.sin", "math.atan"):
        folded = apply(op, ["f32"], ["f32"], x, literals={0: two})
        np.testing.assert_array_equal(folded, apply(op, ["f32"], ["f32"], np.full_like(x, 2)))


@pytest.mark.parametrize(
    ("name", "kind", "attributes", "sentence"),
    [
        ("tt.elementwise_inline_asm", "i32", {}, "inline PTX assembly"),
        ("arith.addf", "f8E5M2", {}, "arith.addf of float8e5"),
        ("math.exp", "f8E4M3FN", {}, "convert 8-bit floats to float16"),
        ("arith.truncf", "f4E2M1FN", {}, "a value of type f4E2M1FN"),
        ("tt.extern_elementwise", "f32", {"symbol": "my_function"}, "function my_function"),
        ("tt.extern_elementwise", "f32", {"symbol": "__nv_nothing"}, "triton.language.extra"),
        ("tt.fp_to_fp", "f32", {"rounding": "rs"}, "rounding mode rs of tt.fp_to_fp"),
        ("tt.reduce", "f32", {}, "operation tt.reduce"),
    ],
)
def test_errors(name: str, kind: str, attributes: dict[str, str], sentence: str) -> None:
    op = make_op(name, [kind, kind], ["f32"], attributes)
    with pytest.raises(UnsupportedError) as refusal:
        lower(Builder(), op, 16, [SSAValue(name, "<16 x float>") for name in ("%x", "%y")])
    assert sentence in str(refusal.value)


def test_names_ending_in_f() -> None:
    assert find("__nv_erf") is not None
    assert find("__nv_erff") is not None
    assert find("__nv_normcdff") is not None
    assert find("__nv_erffff") is None
    assert find("exp") is None
