"""Tests of elementwise operators and functions in every format, compared with NumPy."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable

import kernel_text
import ml_dtypes
import numpy as np
import pytest
import torch
import triton.language as tl
from joint_kernels import Cases, Launch, elementwise, evaluate, launch_together
from number_formats import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I32,
    I64,
    INTEGERS,
    SIGNED,
    U8,
    U16,
    U32,
    U64,
    UNSIGNED,
    Array,
    Format,
    assert_same,
    assert_ulps,
    empty,
    samples,
    to_numpy,
    to_torch,
)

pytestmark = [
    pytest.mark.usefixtures("schedule"),
    # NumPy warns about the special values that these tests need.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

ARITHMETIC_FLOATS = (F64, F32, F16, BF16)


def run(expression: str, out: Format, *inputs: Array) -> Array:
    """Evaluate an expression of x, y and z in two programs, the second with a mask."""
    launch = elementwise(expression, out, inputs)
    launch_together([launch], 2)
    return to_numpy(launch.arguments[0])


def pairs(format: Format, seed: int = 1) -> tuple[Array, Array]:
    """Return all pairs of special values, then random pairs."""
    values = samples(format, 200, seed)
    special = values[:18]
    x, y = np.repeat(special, special.size), np.tile(special, special.size)
    shuffled = np.random.default_rng(seed).permutation(values)
    return np.concatenate([x, values]), np.concatenate([y, shuffled])


# --- functions of one argument --------------------------------------------------------------------

#: Triton's expression, the function in higher precision, error in ulps for f32, sampled domain.
FUNCTIONS: dict[str, tuple[str, Callable[[Array], Array], float, tuple[float, float]]] = {
    "exp": ("tl.exp(x)", np.exp, 2, (-100, 100)),
    "exp2": ("tl.exp2(x)", np.exp2, 2, (-125, 130)),
    "log": ("tl.log(x)", np.log, 2, (-1, 1e4)),
    "log2": ("tl.log2(x)", np.log2, 2, (-1, 1e4)),
    "sin": ("tl.sin(x)", np.sin, 2, (-100, 100)),
    "cos": ("tl.cos(x)", np.cos, 2, (-100, 100)),
    "sqrt": ("tl.sqrt(x)", np.sqrt, 0.5, (-1, 1e6)),
    "rsqrt": ("tl.rsqrt(x)", lambda x: 1 / np.sqrt(x), 2, (-1, 1e6)),
    "floor": ("tl.floor(x)", np.floor, 0, (-1e4, 1e4)),
    "ceil": ("tl.ceil(x)", np.ceil, 0, (-1e4, 1e4)),
    "erf": (
        "tl.erf(x)",
        lambda x: torch.erf(torch.from_numpy(x.astype(float))).numpy(),
        4,
        (-6, 6),
    ),
    "sigmoid": ("tl.sigmoid(x)", lambda x: 1 / (1 + np.exp(-x)), 4, (-30, 30)),
    "negate": ("-x", np.negative, 0, (-1e4, 1e4)),
    "abs": ("tl.abs(x)", np.abs, 0, (-1e4, 1e4)),
}


@pytest.mark.parametrize("format", [F32, F64], ids=lambda f: f.name)
def test_functions(format: Format) -> None:
    special = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-30, 2.5, -2.5]
    cases = []
    for expression, _, _, (low, high) in FUNCTIONS.values():
        rng = np.random.default_rng(0)
        x = np.concatenate([special, rng.uniform(low, high, 3000)]).astype(format.numpy)
        cases.append((expression, format, [x]))
    for name, (_, _, (x,)), got in zip(FUNCTIONS, cases, evaluate(cases), strict=True):
        _, exact, ulps, _ = FUNCTIONS[name]
        with np.errstate(all="ignore"):
            expected = exact(x.astype(np.longdouble) if name != "erf" else x)
        # f64 is not optimised: errors that are usual for a libm are accepted, but not those of f32.
        limit = max(ulps, 4 if ulps and format is F64 else 0)
        assert_ulps(got, expected, limit, floor=1e-300, label=name)


@pytest.mark.smoke
def test_subnormal_and_overflowing_exponentials() -> None:
    x = np.array([-104, -103.5, -100, -88, -87, 88.7, 88.8, 89, 200, -200], np.float32)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.longdouble))
    got = run("tl.exp(x)", F32, x)
    # Subnormal results may be flushed to zero, as by the GPU's approximation.
    assert_ulps(got, exact, 2, floor=float(np.finfo(np.float32).smallest_normal))


@pytest.mark.parametrize("format", [F16, BF16], ids=lambda f: f.name)
def test_functions_of_half_precision_round_once(format: Format) -> None:
    x = np.linspace(-8, 8, 1000).astype(format.numpy)
    expressions = (f"tl.exp(x.to(tl.float32)).to(tl.{format.name})", "-x")
    exponential, negative = evaluate([(text, format, [x]) for text in expressions])
    assert_ulps(exponential, np.exp(x.astype(np.float64)), 0.51)
    assert_same(negative, (-x.astype(np.float32)).astype(format.numpy))


# --- operators of two arguments -------------------------------------------------------------------


def _wrapping(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def apply(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(x, y).astype(x.dtype)

    return apply


ANY_OPERATORS: dict[str, Callable[[Array, Array], Array]] = {
    "x + y": _wrapping(lambda x, y: x + y),
    "x - y": _wrapping(lambda x, y: x - y),
    "x * y": _wrapping(lambda x, y: x * y),
}
MINIMA: dict[str, Callable[[Array, Array], Array]] = {
    "tl.maximum(x, y)": np.fmax,
    "tl.minimum(x, y)": np.fmin,
    "tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)": np.maximum,
    "tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)": np.minimum,
}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


NUMBERS = (*ARITHMETIC_FLOATS, *INTEGERS)
OPERATORS = Cases(
    itertools.product(ANY_OPERATORS, NUMBERS),
    lambda case: elementwise(*case, pairs(case[1])),
    programs=2,
)


@pytest.mark.parametrize("format", NUMBERS, ids=lambda f: f.name)
@pytest.mark.parametrize("operator", ANY_OPERATORS)
def test_operator(operator: str, format: Format, schedule: str) -> None:
    x, y = pairs(format)
    got = to_numpy(OPERATORS.arguments((operator, format), schedule)[0])
    with np.errstate(all="ignore"):
        if format in (F16, BF16):
            # One f32 operation whose result is rounded again is correctly rounded in 16 bits.
            wide = ANY_OPERATORS[operator](x.astype(np.float32), y.astype(np.float32))
            expected = wide.astype(format.numpy)
        else:
            expected = ANY_OPERATORS[operator](x, y)
    assert_same(got, expected, operator)


@pytest.mark.parametrize("format", [F32, F16, BF16, F64, I32, U8, I64], ids=lambda f: f.name)
def test_minimum_and_maximum(format: Format) -> None:
    x, y = pairs(format)
    results = evaluate([(expression, format, (x, y)) for expression in MINIMA])
    for (expression, function), got in zip(MINIMA.items(), results, strict=True):
        expected = function(x, y)
        if format.is_float:
            # The maximum of -0.0 and 0.0 is 0.0 on a GPU, but either one in NumPy.
            zeros = (x == 0) & (y == 0)
            signs = np.signbit(x.astype(np.float32)), np.signbit(y.astype(np.float32))
            negative = signs[0] & signs[1] if "max" in expression else signs[0] | signs[1]
            expected = np.where(zeros, np.where(negative, -0.0, 0.0), expected.astype(np.float64))
            expected = expected.astype(format.numpy)
        elif "propagate_nan" in expression:
            continue
        assert_same(got, expected, expression)


COMPARED = Cases(
    NUMBERS,
    lambda format: elementwise(
        " | ".join(f"((x {op} y).to(tl.int32) << {i})" for i, op in enumerate(COMPARISONS)),
        *(I32, pairs(format)),
    ),
    programs=2,
)


@pytest.mark.parametrize("format", NUMBERS, ids=lambda f: f.name)
def test_comparisons(format: Format, schedule: str) -> None:
    x, y = pairs(format)
    got = to_numpy(COMPARED.arguments(format, schedule)[0])
    with np.errstate(all="ignore"):
        wide = (x.astype(np.float32), y.astype(np.float32)) if format is BF16 else (x, y)
        tests = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
        expected = sum(test(*wide).astype(np.int32) << i for i, test in enumerate(tests))
    assert_same(got, np.asarray(expected, np.int32))


@pytest.mark.parametrize("format", [F32, F64, F16, BF16], ids=lambda f: f.name)
def test_float_division(format: Format) -> None:
    x, y = pairs(format)
    wide = np.float64 if format is F64 else np.float32
    out = F64 if format is F64 else F32
    with np.errstate(all="ignore"):
        exact = x.astype(np.longdouble) / y.astype(np.longdouble)
        # The GPU's division is an approximation with an error of two ulps, so that is accepted.
        assert_ulps(run("x / y", out, x, y), exact, 2, floor=float(np.finfo(wide).smallest_normal))
    if format is F32:
        got = run("tl.div_rn(x, y)", F32, x, y)
        with np.errstate(all="ignore"):
            assert_same(got, x / y)


@pytest.mark.skipif(
    "approx" not in inspect.signature(tl.fdiv).parameters, reason="needs Triton 3.9"
)
def test_approximate_division() -> None:
    x, y = pairs(F32)
    with np.errstate(all="ignore"):
        exact = x.astype(np.longdouble) / y.astype(np.longdouble)
    smallest = float(np.finfo(np.float32).smallest_normal)
    assert_ulps(run("tl.fdiv(x, y, approx=True)", F32, x, y), exact, 2, floor=smallest)


def divisible(format: Format) -> tuple[Array, Array]:
    """Return pairs of numbers, the second of which is not zero."""
    x, y = pairs(format)
    return x[y != 0], y[y != 0]


DIVISIONS = Cases(
    itertools.product(("x // y", "x % y"), INTEGERS),
    lambda case: elementwise(*case, divisible(case[1])),
    programs=2,
)


@pytest.mark.parametrize("format", INTEGERS, ids=lambda f: f.name)
def test_integer_division(format: Format, schedule: str) -> None:
    x, y = divisible(format)
    exact = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    quotient = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in exact]
    remainder = [abs(a) % abs(b) * (-1 if a < 0 else 1) for a, b in exact]
    wrap = 2**format.bits

    def typed(values: list[int]) -> Array:
        unsigned = np.array([v % wrap for v in values], np.uint64)
        return unsigned.astype(f"u{format.bits // 8}").view(format.numpy)

    for expression, expected in (("x // y", quotient), ("x % y", remainder)):
        got = to_numpy(DIVISIONS.arguments((expression, format), schedule)[0])
        assert_same(got, typed(expected), expression)


@pytest.mark.smoke
def test_integer_division_as_the_hardware_does_it() -> None:
    low = np.iinfo(np.int32).min
    x = np.array([7, -7, 5, -7, 7, -7, 5, low, low], np.int32)
    y = np.array([-2, 2, 0, 0, 0, 0, 0, -1, 1], np.int32)
    assert run("x // y", I32, x, y).tolist() == [-3, -3, -1, -1, -1, -1, -1, low, low]
    remainders = run("x % y", I32, x, y).tolist()
    assert remainders[:7] == [1, -1, -1, -1, -1, -1, -1]
    assert remainders[8] == 0


def amounts_of(format: Format, count: int) -> Array:
    """Return shift amounts, some of which exceed the number of bits."""
    return (np.arange(count) % (format.bits + 9)).astype(format.numpy)


def shift_or_bits(case: tuple[str, Format]) -> Launch:
    expression, format = case
    x, y = pairs(format)
    second = amounts_of(format, x.size) if expression in ("x << y", "x >> y") else y
    return elementwise(expression, format, [x, second] if "y" in expression else [x])


BITS = ("x << y", "x >> y", "x & y", "x | y", "x ^ y", "~x")
BITWISE = Cases(itertools.product(BITS, INTEGERS), shift_or_bits, programs=2)


@pytest.mark.parametrize("format", INTEGERS, ids=lambda f: f.name)
def test_shifts_and_bits(format: Format, schedule: str) -> None:
    x, y = pairs(format)
    amounts = amounts_of(format, x.size)
    over = amounts >= format.bits
    safe = np.where(over, 0, amounts).astype(format.numpy)
    filled = np.where(x < 0, -1, 0).astype(format.numpy) if format in SIGNED else np.zeros_like(x)
    shifted = np.where(over, 0, x << safe), np.where(over, filled, x >> safe)
    expected = (*(values.astype(x.dtype) for values in shifted), x & y, x | y, x ^ y, ~x)
    for expression, reference in zip(BITS, expected, strict=True):
        got = to_numpy(BITWISE.arguments((expression, format), schedule)[0])
        assert_same(got, reference, expression)


def choices(format: Format) -> tuple[Array, Array, Array]:
    """Return two arrays of values, and the condition that selects from them."""
    x = samples(format)
    return x, x[::-1].copy(), np.random.default_rng(3).random(x.size) < 0.5


CHOSEN = (F32, F16, BF16, *FP8, I8, I64, BOOL)
CHOICES = Cases(
    CHOSEN, lambda format: elementwise("tl.where(z, x, y)", format, choices(format)), programs=2
)


@pytest.mark.parametrize("format", CHOSEN, ids=lambda f: f.name)
def test_where(format: Format, schedule: str) -> None:
    x, y, condition = choices(format)
    got = to_numpy(CHOICES.arguments(format, schedule)[0])
    assert_same(got, np.where(condition, x, y).astype(format.numpy))


def test_logic_of_booleans() -> None:
    x = np.array([False, False, True, True] * 5)
    y = np.array([False, True, False, True] * 5)
    expected = {
        "x & y": x & y, "x | y": x | y, "x ^ y": x ^ y, "~x": ~x,
        "(x == y) & (x < y)": np.zeros_like(x),
    }  # fmt: skip
    results = evaluate([(text, BOOL, (x, y) if "y" in text else (x,)) for text in expected])
    for (expression, reference), got in zip(expected.items(), results, strict=True):
        assert_same(got, reference, expression)


#: Formats of x and y, and the format to which both are converted, which the result has, too.
PROMOTIONS = [
    (I8, U8, U8), (I32, I64, I64), (I32, U32, U32), (U16, I32, I32), (I32, F16, F16),
    (F16, BF16, F16), (BF16, F32, F32), (I64, BF16, F32), (F32, F64, F64), (BOOL, I32, I32),
    (BOOL, F32, F32),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "common"), PROMOTIONS, ids=lambda f: f.name)
def test_promotion(left: Format, right: Format, common: Format) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2 if left is BOOL else 50, 100).astype(left.numpy)
    y = rng.integers(0, 50, 100).astype(right.numpy)
    if right not in UNSIGNED:
        y[::2] = -y[::2]
    # The kernel asserts the type that the result has before it is stored.
    source = f"""
    @triton.jit
    def kernel(out_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        mask = lanes < 100
        z = tl.load(x_ptr + lanes, mask=mask) * 2 + tl.load(y_ptr + lanes, mask=mask)
        tl.static_assert(z.dtype == tl.{common.name}) if {left is not BOOL} else None
        tl.store(out_ptr + lanes, z, mask=mask)
    """
    out = empty(100, common)
    kernel_text.kernel(source)[(1,)](out, to_torch(x), to_torch(y), BLOCK=128)
    doubled = (x.astype(np.int64) * 2).astype(np.int32 if left is BOOL else left.numpy)
    expected = doubled.astype(common.numpy) + y.astype(common.numpy)
    assert_same(to_numpy(out), expected.astype(common.numpy))


@pytest.mark.smoke
def test_fused_multiply_add_and_high_product() -> None:
    rng = np.random.default_rng(6)
    x, y, z = (rng.normal(0, 1, 500).astype(np.float32) for _ in range(3))
    exact = x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble)
    assert_same(run("tl.fma(x, y, z)", F32, x, y, z), exact.astype(np.float32))
    formats = (U32, U64, I32, I64)
    results = evaluate([("tl.umulhi(x, y)", format, pairs(format)) for format in formats])
    for format, got in zip(formats, results, strict=True):
        a, b = pairs(format)
        product = [
            int(p) * int(q) >> format.bits
            for p, q in zip(
                a.view(f"u{format.bits // 8}"), b.view(f"u{format.bits // 8}"), strict=True
            )
        ]
        expected = np.array(product, np.uint64).astype(f"u{format.bits // 8}").view(format.numpy)
        assert_same(got, expected, format.name)


def test_clamp_and_division_of_integers_as_floats() -> None:
    x = samples(F32)
    low, high = np.full_like(x, -3), np.full_like(x, 7)
    got = run("tl.clamp(x, y, z)", F32, x, low, high)
    assert_same(got, np.fmin(np.fmax(x, low), high))
    a, b = np.arange(-50, 50, dtype=np.int32), np.arange(1, 101, dtype=np.int32)
    assert_ulps(run("x / y", F32, a, b), a.astype(np.float64) / b, 2)
    assert_same(run("tl.cdiv(x, y)", I32, np.abs(a), b), -(-np.abs(a) // b))


def test_contracted_products_differ_by_at_most_one_rounding() -> None:
    rng = np.random.default_rng(8)
    x, y, z = (rng.normal(0, 1, 1000).astype(np.float32) for _ in range(3))
    got = run("x * y + z", F32, x, y, z)
    fused = (x.astype(np.longdouble) * y + z).astype(np.float32)
    separate = x * y + z
    assert ((got == fused) | (got == separate)).all()


def test_bf16_arithmetic_rounds_after_each_operation() -> None:
    bf16 = ml_dtypes.bfloat16
    rng = np.random.default_rng(9)
    x, y, z = (rng.normal(0, 10, 1000).astype(bf16) for _ in range(3))
    got = run("(x + y) + z", BF16, x, y, z)
    assert_same(got, ((x + y).astype(bf16) + z).astype(bf16))
