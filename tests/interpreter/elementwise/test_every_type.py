"""Tests that every operation compiles in every type and width, with the same results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from vector_jit import TYPES, Case, apply_all

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
    """Return random bit patterns, a quarter of which are numbers near one."""
    rng = np.random.default_rng(seed)
    size = np.dtype(TYPES[kind]).itemsize
    values = rng.integers(0, 256, count * size, dtype=np.uint8).view(TYPES[kind])
    near = rng.uniform(0.5, 5, count).astype(TYPES[kind])
    chosen = np.where(np.arange(count) % 4 == 0, near, values)
    return (chosen & 1) if kind == "i1" else chosen


def same_at_every_width(cases: list[Case], widths: tuple[int, ...] = (1, *WIDTHS)) -> None:
    """Check that the results of each case do not depend on its width."""
    arrays = [[patterns(k, seed) for seed, k in enumerate(c.operands)] for c in cases]
    scalar_results = apply_all([replace(c, width=1) for c in cases], arrays)
    for width in widths:
        results = apply_all([replace(c, width=width) for c in cases], arrays)
        for case, result, scalar in zip(cases, results, scalar_results, strict=True):
            np.testing.assert_array_equal(
                result.astype(np.float64), scalar.astype(np.float64), err_msg=f"{case} {width}"
            )


def case(name: str, operands: list[str], result: str, **attributes: str) -> Case:
    return Case(
        name=name,
        operands=tuple(operands),
        results=(result,),
        attributes=tuple(attributes.items()),
    )


@pytest.mark.parametrize("kind", FLOATS)
def test_float_operations(kind: str) -> None:
    cases = [case(f"arith.{name}", [kind] * n, kind) for name, n in FLOAT_OPS.items()]
    cases += [case(name, [kind] * 3, kind) for name in ("math.fma", "tt.clampf")]
    cases += [case(name, [kind] * 2, kind) for name in ("math.powf", "math.copysign")]
    same_at_every_width(cases)


@pytest.mark.parametrize("kind", FLOATS)
def test_math_functions(kind: str) -> None:
    same_at_every_width([case(f"math.{name}", [kind], kind) for name in MATH_OPS])


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_operations(kind: str) -> None:
    cases = [case(f"arith.{name}", [kind] * 2, kind) for name in INTEGER_OPS]
    if kind != "i1":
        counts = ("ctpop", "ctlz", "cttz", "absi")
        cases += [case(f"math.{name}", [kind], kind) for name in counts]
        cases += [case("tt.mulhiui", [kind] * 2, kind)]
    same_at_every_width(cases)


@pytest.mark.parametrize("source", [*FLOATS, *FP8])
def test_float_casts(source: str) -> None:
    same_at_every_width(
        [
            case("tt.fp_to_fp", [source], target, rounding=rounding)
            for target in (*FLOATS, *FP8)
            for rounding in ("rtne", "rtz")
        ]
    )


@pytest.mark.parametrize("kind", INTEGERS)
def test_casts_of_integers(kind: str) -> None:
    cases = []
    for real in FLOATS:
        cases += [case(f"arith.{name}", [kind], real) for name in ("sitofp", "uitofp")]
        if kind != "i1":
            cases += [case(f"arith.{name}", [real], kind) for name in ("fptosi", "fptoui")]
    same_at_every_width(cases)
