"""Tests of float arithmetic and comparisons, and of casts between floats and integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from float_formats import all_values, assert_same_floats, flushed, nearest
from vector_jit import TYPES, apply

FLOATS = ("f16", "bf16", "f32", "f64")
NAN, INF = math.nan, math.inf


def samples(kind: str, count: int = 4000, seed: int = 0) -> np.ndarray:
    """Return random bit patterns, numbers around one, and all special values."""
    rng = np.random.default_rng(seed)
    size = np.dtype(TYPES[kind]).itemsize
    patterns = rng.integers(0, 256, count * size, dtype=np.uint8).view(TYPES[kind])
    near = rng.normal(0, 3, count).astype(TYPES[kind])
    special = np.array([0.0, -0.0, 1, -1, NAN, INF, -INF, 2.5, -2.5, 0.5, 3], TYPES[kind])
    values = np.concatenate([patterns, near, special])
    return values[rng.permutation(values.size)]


def round_to(kind: str, exact: np.ndarray) -> np.ndarray:
    """Round a result in f64 to `kind`; f64 is precise enough for results of f32."""
    return nearest(exact, kind) if kind in ("f16", "bf16") else exact.astype(TYPES[kind])


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(
    ("op", "oracle"),
    [
        ("addf", np.add),
        ("subf", np.subtract),
        ("mulf", np.multiply),
        ("divf", np.divide),
    ],
)
def test_arithmetic_rounds_once(op: str, oracle: Callable[..., Any], kind: str) -> None:
    a, b = samples(kind, seed=1), samples(kind, seed=2)
    expected = round_to(kind, oracle(a.astype(np.float64), b.astype(np.float64)))
    assert_same_floats(apply(f"arith.{op}", [kind] * 2, [kind], a, b), expected, a, b)


def remainders(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute `x - trunc(x / y) * y` with a quotient rounded to the operands' type, as GPUs do."""
    wide = np.float64 if x.dtype == np.float64 else np.float32
    results = np.empty(x.size, wide)
    with np.errstate(all="ignore"):
        quotients = np.trunc(x.astype(wide) / y.astype(wide))
    for i, (a, b, q) in enumerate(zip(x.astype(float), y.astype(float), quotients, strict=True)):
        if np.isinf(b):
            results[i] = a
        elif np.isfinite([a, b, q]).all():
            exact = Fraction(a) - int(q) * Fraction(b)
            results[i] = nearest_of(exact, wide)
        else:
            with np.errstate(all="ignore"):
                results[i] = a - np.float64(q) * b
    return results


def nearest_of(exact: Fraction, kind: Any) -> Any:
    """Round a fraction to f32 or f64."""
    value = kind(float(exact))
    candidates = [value, np.nextafter(value, kind(-INF)), np.nextafter(value, kind(INF))]
    finite = [c for c in candidates if np.isfinite(c)]
    distance = {float(c): abs(Fraction(float(c)) - exact) for c in finite}
    closest = min(distance.values(), default=Fraction(0))
    best = [c for c in finite if distance[float(c)] == closest]
    return min(best, key=lambda c: int(c.view(f"u{c.itemsize}")) & 1) if best else value


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("kind", FLOATS)
def test_remainders(kind: str, width: int) -> None:
    """Include numbers so different that the GPU's rounded quotient gives no true remainder."""
    x, y = samples(kind, seed=1)[:1500], samples(kind, seed=2)[:1500]
    special = np.array([0, -0.0, 1, 3, -2.5, INF, -INF, NAN], TYPES[kind])
    x, y = np.concatenate([x, np.repeat(special, 8)]), np.concatenate([y, np.tile(special, 8)])
    # Quotients are just below and above integers.
    rng = np.random.default_rng(0)
    near = rng.uniform(0.1, 1, 300).astype(TYPES[kind])
    products = (rng.integers(1, 40, 300) * near.astype(float)).astype(TYPES[kind])
    x, y = np.concatenate([x, products, -products]), np.concatenate([y, near, near])
    expected = remainders(x, y)
    if kind in ("f16", "bf16"):
        expected = nearest(expected.astype(np.float64), kind)
    actual = apply("arith.remf", [kind] * 2, [kind], x, y, width=width)
    assert_same_floats(actual, expected, x, y)


@pytest.mark.parametrize("kind", FLOATS)
def test_roots(kind: str) -> None:
    a = samples(kind)
    root = np.sqrt(a.astype(np.float64))
    assert_same_floats(apply("tt.precise_sqrt", [kind], [kind], a), round_to(kind, root), a)
    if kind in ("f32", "bf16"):
        root = np.sqrt(flushed(a.astype(np.float64)))
    assert_same_floats(apply("math.sqrt", [kind], [kind], a), round_to(kind, root), a)
    reciprocal = apply("math.rsqrt", [kind], [kind], a).astype(np.float64)
    finite = np.isfinite(root) & (root > 0)
    error = np.abs(reciprocal * root - 1)[finite]
    assert error.max() < {"f16": 6e-4, "bf16": 5e-3, "f32": 1.3e-7, "f64": 5e-16}[kind]
    assert np.isinf(apply("math.rsqrt", [kind], [kind], np.zeros(1)).astype(float)).all()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_every_square_root_of_16_bits(kind: str) -> None:
    values = all_values(kind)
    wide = values.astype(np.float64)
    expected = nearest(np.sqrt(flushed(wide) if kind == "bf16" else wide), kind)
    assert_same_floats(apply("math.sqrt", [kind], [kind], values), expected, values)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_fma_of_16_bits_rounds_once(kind: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 2, (2, 3000)).astype(TYPES[kind])
    # Sums are at or near midpoints, where a second rounding would change the result.
    c = np.where(np.arange(3000) % 2, -a * b, rng.normal(0, 1e4, 3000)).astype(TYPES[kind])
    actual = apply("math.fma", [kind] * 3, [kind], a, b, c).astype(np.float64)
    for x, y, z, got in zip(*(v.astype(float) for v in (a, b, c, actual)), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        # Rounding to odd in f64 first does not change the result of the second rounding.
        wide = float(exact)
        if Fraction(wide) != exact and np.float64(wide).view(np.int64) % 2 == 0:
            wide = math.nextafter(wide, INF if exact > Fraction(wide) else -INF)
        assert got == nearest(np.array([wide]), kind)[0], (x, y, z)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_fma_is_fused(kind: str) -> None:
    tiny = 2.0**-12 if kind == "f32" else 2.0**-27
    a = np.full(4, 1 + tiny)
    exact = apply("math.fma", [kind] * 3, [kind], a, a, -(1 + 2 * tiny))
    assert exact.tolist() == [tiny**2] * 4


@pytest.mark.parametrize("kind", FLOATS)
def test_minimum_and_maximum(kind: str) -> None:
    special = [NAN, 0.0, -0.0, 1, -1, INF, -INF, 2.5]
    a = np.array([x for x in special for _ in special], TYPES[kind])
    b = np.array(special * len(special), TYPES[kind])

    def larger(x: float, y: float) -> float:
        return max((x, y), key=lambda v: (v, math.copysign(1, v)))

    def smaller(x: float, y: float) -> float:
        return -larger(-x, -y)

    def dropping(pick: Callable[[float, float], float]) -> list[float]:
        pairs = zip(a.astype(float), b.astype(float), strict=True)
        return [y if math.isnan(x) else x if math.isnan(y) else pick(x, y) for x, y in pairs]

    def propagating(pick: Callable[[float, float], float]) -> list[float]:
        pairs = zip(a.astype(float), b.astype(float), strict=True)
        return [NAN if math.isnan(x) or math.isnan(y) else pick(x, y) for x, y in pairs]

    for op, expected in (
        ("maxnumf", dropping(larger)),
        ("minnumf", dropping(smaller)),
        ("maximumf", propagating(larger)),
        ("minimumf", propagating(smaller)),
    ):
        for width in (1, 16):
            actual = apply(f"arith.{op}", [kind] * 2, [kind], a, b, width=width)
            assert_same_floats(actual, np.array(expected), a, b)


@pytest.mark.parametrize("kind", FLOATS)
def test_clamp(kind: str) -> None:
    x = np.array([NAN, -3, -1, 0.5, 2, 7, INF, -INF], TYPES[kind])
    low, high = np.full(8, -1, TYPES[kind]), np.full(8, 2, TYPES[kind])
    for mode, nan in (("none", -1.0), ("all", NAN)):
        actual = apply("tt.clampf", [kind] * 3, [kind], x, low, high, propagateNan=mode)
        assert_same_floats(actual, np.array([nan, -1, -1, 0.5, 2, 2, 2, -1]), x)
    actual = apply("math.clampf", [kind] * 3, [kind], x, low, high)
    assert_same_floats(actual, np.array([NAN, -1, -1, 0.5, 2, 2, 2, -1]), x)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(
    ("op", "oracle"),
    [
        ("math.floor", np.floor),
        ("math.ceil", np.ceil),
        ("math.trunc", np.trunc),
        ("math.roundeven", np.rint),
        ("math.round", lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
        ("math.absf", np.abs),
        ("arith.negf", np.negative),
    ],
)
def test_exact_functions(op: str, oracle: Callable[[Any], Any], kind: str) -> None:
    x = samples(kind)
    if op == "math.round":
        # The sum in the oracle must be exact.
        x = x[~(np.abs(x.astype(np.float64)) > 2.0**40)]
    if kind in ("f16", "bf16"):
        x = all_values(kind) if op != "math.round" else x
    wide = x.astype(np.float64)
    if kind in ("f32", "bf16") and op in ("math.floor", "math.ceil"):
        wide = flushed(wide)
    assert_same_floats(apply(op, [kind], [kind], x), oracle(wide), x)


PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "false": lambda a, b: a != a * 0 + a,
    "oeq": lambda a, b: a == b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "one": lambda a, b: (a < b) | (a > b),
    "ord": lambda a, b: (a == a) & (b == b),
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "une": lambda a, b: ~(a == b),
    "uno": lambda a, b: ~((a == a) & (b == b)),
    "true": lambda a, b: np.ones(a.shape, bool),
}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("number", range(16))
def test_comparisons(number: int, kind: str) -> None:
    name, oracle = list(PREDICATES.items())[number]
    a, b = samples(kind, 500, 1), samples(kind, 500, 2)
    b = np.where(np.arange(b.size) % 3, b, a)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    expected = np.zeros(a.shape, bool) if name == "false" else oracle(wide_a, wide_b)
    for predicate in (name, number):
        got = apply("arith.cmpf", [kind] * 2, ["i1"], a, b, predicate=predicate)
        np.testing.assert_array_equal(got.astype(bool), expected)


@pytest.mark.parametrize("kind", [*FLOATS, "i1", "i8", "i64", "f8E5M2"])
def test_select(kind: str) -> None:
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 2, 100)
    a, b = rng.integers(0, 2, (2, 100)).astype(TYPES[kind])
    actual = apply("arith.select", ["i1", kind, kind], [kind], mask, a, b)
    assert actual.tobytes() == np.where(mask, a, b).astype(TYPES[kind]).tobytes()


# ---- integers
SATURATION = {"i8": 16, "i16": 16, "i32": 32, "i64": 64}


def to_integer(value: float, source: str, target: str, signed: bool) -> int:
    """Convert as PTX `cvt` does: with saturation, and i8 as the low half of an i16."""
    bits = SATURATION[target]
    size = int(target[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if math.isnan(value):
        number = 1 << (bits - 1) if source == "f64" or bits == 64 else 0
    elif math.isinf(value):
        number = high if value > 0 else low
    else:
        number = min(max(int(value), low), high)
    return (number + (1 << (size - 1))) % (1 << size) - (1 << (size - 1))


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", SATURATION)
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
def test_float_to_integer(source: str, target: str, signed: bool) -> None:
    edges = [sign * (2.0**k + d) for k in range(65) for sign in (1, -1) for d in (-1, -0.5, 0, 0.7)]
    x = np.concatenate([np.array(edges, TYPES[source]), samples(source, 500)])
    op = "arith.fptosi" if signed else "arith.fptoui"
    expected = [to_integer(v, source, target, signed) for v in x.astype(float).tolist()]
    for width in (1, 16):
        actual = apply(op, [source], [target], x, width=width).tolist()
        wrong = [t for t in zip(x, actual, expected, strict=True) if t[1] != t[2]]
        assert not wrong, wrong[:5]


def test_integer_conversions_of_an_h200() -> None:
    x = np.array([1e20, 300.7, -1.5, NAN, 40000.0], np.float32)
    assert apply("arith.fptosi", ["f32"], ["i8"], x).tolist() == [-1, 44, -1, 0, -1]
    assert apply("arith.fptoui", ["f32"], ["i8"], x).tolist() == [-1, 44, 0, 0, 64]
    assert apply("arith.fptosi", ["f32"], ["i32"], x).tolist() == [2**31 - 1, 300, -1, 0, 40000]
    assert apply("arith.fptosi", ["f32"], ["i64"], x).tolist()[3] == -(2**63)


@pytest.mark.parametrize("source", ["i1", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
def test_integer_to_float(source: str, target: str, signed: bool) -> None:
    bits = int(source[1:])
    rng = np.random.default_rng(0)
    raw = [
        int(v) >> int(s)
        for v, s in zip(*rng.integers(0, 2**63, (2, 500)) % [[2**63], [64]], strict=True)
    ]
    # Values next to midpoints of every format, where rounding twice would change the result.
    raw += [
        (1 << k) + (1 << max(0, k - d)) + e
        for k in range(64)
        for d in (8, 9, 11, 12, 24, 25, 53, 54)
        for e in (-1, 0, 1)
    ]
    values = [v % (1 << bits) for v in raw]
    if signed:
        values = [v - (1 << bits) if v >> (bits - 1) else v for v in values]
    x = np.array([v % (1 << bits) for v in values], np.uint64)
    x = x.astype(np.uint8) if bits == 1 else x.astype(f"u{bits // 8}").view(TYPES[source])
    exact = [Fraction(v) for v in values]

    def to_odd(value: Fraction) -> float:
        wide = float(value)
        if Fraction(wide) != value and np.float64(wide).view(np.int64) % 2 == 0:
            return math.nextafter(wide, INF if value > Fraction(wide) else -INF)
        return wide

    if target == "f64":
        expected = np.array([float(v) for v in exact])
    elif target == "f32":
        expected = np.array([to_odd(v) for v in exact]).astype(np.float32)
    else:
        expected = nearest(np.array([to_odd(v) for v in exact]), target)
    op = "arith.sitofp" if signed else "arith.uitofp"
    for width in (1, 16):
        actual = apply(op, [source], [target], x, width=width)
        assert_same_floats(actual, expected, x)


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind.startswith("f8")])
def test_sign_of_fp8(kind: str) -> None:
    """Check the sign of fp8; FNUZ formats have neither -0 nor a NaN without the sign bit."""
    bits = np.arange(256, dtype=np.uint8)
    x = bits.view(TYPES[kind])
    unsigned_zero = kind.endswith("FNUZ")
    for name, flipped in (("arith.negf", bits ^ 0x80), ("math.absf", bits & 0x7F)):
        actual = apply(name, [kind], [kind], x).view(np.uint8)
        kept = unsigned_zero & ((bits & 0x7F) == 0)
        np.testing.assert_array_equal(actual, np.where(kept, bits, flipped))
