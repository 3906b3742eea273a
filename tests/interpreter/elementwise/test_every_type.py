"""Every operation in every type at every width: it compiles, resolves, and lanes do not differ."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from vector_jit import TYPES, apply

WIDTHS = (2, 4, 8, 16, 32)
FLOATS = ("f16", "bf16", "f32", "f64")
FP8 = ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ")
INTEGERS = ("i1", "i8", "i16", "i32", "i64")

FLOAT_OPS = {
    **dict.fromkeys(("addf", "subf", "mulf", "divf", "remf"), 2),
    **dict.fromkeys(("maxnumf", "minnumf", "maximumf", "minimumf"), 2),
    "negf": 1,
}
MATH_OPS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh"),
    *("sqrt", "rsqrt", "erf", "erfc", "floor", "ceil", "trunc", "round", "roundeven", "absf"),
    *("atan", "cbrt", "sinh"),
)
INTEGER_OPS = (
    *("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui"),
    *("floordivsi", "andi", "ori", "xori", "shli", "shrsi", "shrui", "minsi", "maxsi", "minui"),
    "maxui",
)


def patterns(kind: str, seed: int, count: int = 64) -> np.ndarray:
    """Random bits, one in four a number near one."""
    rng = np.random.default_rng(seed)
    size = np.dtype(TYPES[kind]).itemsize
    values = rng.integers(0, 256, count * size, dtype=np.uint8).view(TYPES[kind])
    near = rng.uniform(0.5, 5, count).astype(TYPES[kind])
    chosen = np.where(np.arange(count) % 4 == 0, near, values)
    return (chosen & 1) if kind == "i1" else chosen


def same_at_every_width(
    op: str, operands: list[str], result: str, widths: tuple[int, ...] = WIDTHS, **attributes: str
) -> None:
    arguments = [patterns(kind, seed) for seed, kind in enumerate(operands)]
    scalar = apply(op, operands, [result], *arguments, width=1, **attributes)
    wanted = scalar.astype(np.float64)
    for width in widths:
        vector = apply(op, operands, [result], *arguments, width=width, **attributes)
        np.testing.assert_array_equal(vector.astype(np.float64), wanted, err_msg=f"width {width}")


@pytest.mark.parametrize("kind", FLOATS)
def test_float_operations(kind: str) -> None:
    for name, count in FLOAT_OPS.items():
        same_at_every_width(f"arith.{name}", [kind] * count, kind)
    same_at_every_width("math.fma", [kind] * 3, kind)
    same_at_every_width("tt.clampf", [kind] * 3, kind)
    same_at_every_width("math.powf", [kind] * 2, kind)
    same_at_every_width("math.copysign", [kind] * 2, kind)


@pytest.mark.parametrize("kind", FLOATS)
def test_math_functions(kind: str) -> None:
    for name in MATH_OPS:
        same_at_every_width(f"math.{name}", [kind], kind, (4, 16, 32))


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_operations(kind: str) -> None:
    for name in INTEGER_OPS:
        same_at_every_width(f"arith.{name}", [kind] * 2, kind)
    if kind != "i1":
        for name in ("ctpop", "ctlz", "cttz", "absi"):
            same_at_every_width(f"math.{name}", [kind], kind)
        same_at_every_width("tt.mulhiui", [kind] * 2, kind)


@pytest.mark.parametrize("source", [*FLOATS, *FP8])
def test_float_casts(source: str) -> None:
    for target, rounding in product((*FLOATS, *FP8), ("rtne", "rtz")):
        same_at_every_width("tt.fp_to_fp", [source], target, (4, 16), rounding=rounding)


@pytest.mark.parametrize("kind", INTEGERS)
def test_casts_of_integers(kind: str) -> None:
    for real in FLOATS:
        same_at_every_width("arith.sitofp", [kind], real)
        same_at_every_width("arith.uitofp", [kind], real)
        if kind != "i1":
            same_at_every_width("arith.fptosi", [real], kind)
            same_at_every_width("arith.fptoui", [real], kind)
