"""Tests of `tt.extern_elementwise` with every symbol that Triton's libdevice modules can emit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_formats import assert_same_floats
from vector_jit import TYPES, Case, apply, apply_all

from ttools.interpreter.elementwise.libdevice import find

NAN, INF = math.nan, math.inf
_KINDS = {"int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64"}
_KINDS |= {"fp32": "f32", "fp64": "f64"}
_ROW = re.compile(r'\(((?:core\.dtype\("\w+"\),?\s*)+)\):\s*\(\s*"(\w+)",\s*core\.dtype\("(\w+)"\)')


@cache
def symbols() -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the operand types and the result type of each symbol in Triton's own tables."""
    import triton.language.extra

    types_of_symbol = {}
    for folder in triton.language.extra.__path__:
        for vendor in ("cuda", "hip"):
            text = (Path(folder) / vendor / "libdevice.py").read_text()
            for arguments, symbol, result in _ROW.findall(text):
                operands = tuple(_KINDS[k] for k in re.findall(r'"(\w+)"', arguments))
                types_of_symbol[symbol] = operands, _KINDS[result]
    return types_of_symbol


def call(symbol: str, *arguments: Any, width: int = 16) -> Any:
    operands, result = symbols()[symbol]
    typed = [np.asarray(a).astype(TYPES[k]) for a, k in zip(arguments, operands, strict=True)]
    return apply("tt.extern_elementwise", operands, [result], *typed, width=width, symbol=symbol)


def test_the_tables_are_not_empty() -> None:
    assert len(symbols()) > 400
    assert symbols()["__nv_powf"] == (("f32", "f32"), "f32")


def test_every_symbol_is_supported() -> None:
    assert [s for s in symbols() if find(s) is None] == []


@pytest.mark.slow
def test_every_symbol_runs_on_vectors_as_on_scalars() -> None:
    rng = np.random.default_rng(0)
    cases, arrays = [], []
    for symbol, (operands, result) in symbols().items():
        attributes = (("symbol", symbol),)
        cases.append(
            Case(
                name="tt.extern_elementwise",
                operands=operands,
                results=(result,),
                attributes=attributes,
            )
        )
        arrays.append(
            [rng.uniform(0.1, 0.9, 16) if k[0] == "f" else rng.integers(1, 5, 16) for k in operands]
        )
    vectors = apply_all(cases, arrays)
    scalars = apply_all([replace(c, width=1) for c in cases], arrays)
    for case, vector, scalar in zip(cases, vectors, scalars, strict=True):
        np.testing.assert_array_equal(vector, scalar, err_msg=str(case))


# ---- functions that NumPy or Python has, too
def vectorised(function: Callable[..., Any]) -> Callable[..., Any]:
    return np.vectorize(function, otypes=[np.float64])


FLOATS: dict[str, tuple[Callable[..., Any], float, float]] = {
    # name: reference function, and the interval of the comparison
    "fabs": (np.abs, -9, 9),
    "floor": (np.floor, -9, 9),
    "ceil": (np.ceil, -9, 9),
    "trunc": (np.trunc, -9, 9),
    "rint": (np.rint, -9, 9),
    "nearbyint": (np.rint, -9, 9),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), -9, 9),
    "sqrt": (np.sqrt, 0, 9),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 9),
    "exp": (np.exp, -9, 9),
    "exp2": (np.exp2, -9, 9),
    "exp10": (lambda x: 10.0**x, -9, 9),
    "expm1": (np.expm1, -9, 9),
    "log": (np.log, 0, 9),
    "log2": (np.log2, 0, 9),
    "log10": (np.log10, 0, 9),
    "log1p": (np.log1p, -0.9, 9),
    "sin": (np.sin, -9, 9),
    "cos": (np.cos, -9, 9),
    "tan": (np.tan, -9, 9),
    "sinpi": (lambda x: np.sin(math.pi * (x - 2 * np.rint(x / 2))), -9, 9),
    "cospi": (lambda x: np.cos(math.pi * (x - 2 * np.rint(x / 2))), -9, 9),
    "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1),
    "atan": (np.arctan, -9, 9),
    "sinh": (np.sinh, -9, 9),
    "cosh": (np.cosh, -9, 9),
    "tanh": (np.tanh, -9, 9),
    "asinh": (np.arcsinh, -9, 9),
    "acosh": (np.arccosh, 1, 9),
    "atanh": (np.arctanh, -0.99, 0.99),
    "cbrt": (np.cbrt, -9, 9),
    "rcbrt": (lambda x: 1 / np.cbrt(x), 0.1, 9),
    "erf": (vectorised(math.erf), -3, 3),
    "erfc": (vectorised(math.erfc), -3, 9),
    "tgamma": (vectorised(math.gamma), 0.1, 9),
    "lgamma": (vectorised(math.lgamma), 3, 9),
    "normcdf": (vectorised(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))), -5, 5),
    "logb": (lambda x: np.frexp(x)[1] - 1.0, 0.01, 9),
    "cyl_bessel_i0": (np.i0, -20, 20),
}


@pytest.mark.parametrize("name", FLOATS)
def test_functions_of_one_number(name: str) -> None:
    reference, low, high = FLOATS[name]
    x = np.linspace(low, high, 1003)
    single = x.astype(np.float32)
    actual = call(f"__nv_{name}f", single)
    expected = reference(single.astype(np.float64))
    np.testing.assert_allclose(
        actual, expected, rtol=2.4e-7, atol=3e-7 * (name in ("sinpi", "cospi"))
    )
    np.testing.assert_allclose(call(f"__nv_{name}", x), reference(x), rtol=4e-14, atol=4e-15)


TWO: dict[str, Callable[..., Any]] = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "fmod": np.fmod,
    "remainder": vectorised(math.remainder),
    "copysign": np.copysign,
    "fdim": lambda x, y: np.where(x > y, x - y, 0.0),
    "pow": lambda x, y: np.power(x, y),
}


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(name: str) -> None:
    x, y = np.random.default_rng(0).uniform(-9, 9, (2, 1000))
    a, b = x.astype(np.float32), y.astype(np.float32)
    wide = TWO[name](a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(call(f"__nv_{name}f", a, b), wide, rtol=2.4e-7)
    np.testing.assert_allclose(call(f"__nv_{name}", x, y), TWO[name](x, y), rtol=1e-14)


def test_norms() -> None:
    x = np.random.default_rng(0).uniform(0.1, 9, (4, 1000))
    for count, name in ((3, "norm3d"), (4, "norm4d")):
        length = np.sqrt((x[:count] ** 2).sum(0))
        np.testing.assert_allclose(call(f"__nv_{name}", *x[:count]), length, rtol=1e-15)
        np.testing.assert_allclose(call(f"__nv_r{name}f", *x[:count]), 1 / length, rtol=3e-7)


@pytest.mark.parametrize(
    ("symbol", "reference", "points"),
    [
        ("__nv_erfinv", lambda m, x: m.erfinv(x), [-0.999999, -0.5, 1e-12, 0.3, 0.9, 0.999]),
        ("__nv_erfcinv", lambda m, x: m.erfinv(1 - x), [1e-30, 1e-5, 0.4, 1.0, 1.7, 1.99999]),
        ("__nv_normcdfinv", lambda m, x: m.sqrt(2) * m.erfinv(2 * x - 1), [1e-20, 0.1, 0.5, 0.9]),
        ("__nv_erfcx", lambda m, x: m.exp(x * x) * m.erfc(x), [-5, -0.5, 0.5, 9, 25.9, 26.1, 1e4]),
        ("__nv_cyl_bessel_i0", lambda m, x: m.besseli(0, x), [0, 1e-9, 1, 29.9, 30.1, -100, 700]),
        ("__nv_cyl_bessel_i1", lambda m, x: m.besseli(1, x), [1e-9, -1, 29.9, 30.1, -100, 700]),
        ("__nv_j0", lambda m, x: m.besselj(0, x), [0, 1, 5, 50]),
        ("__nv_j1", lambda m, x: m.besselj(1, x), [1, 5, 50]),
        ("__nv_y0", lambda m, x: m.bessely(0, x), [0.1, 5, 50]),
        ("__nv_y1", lambda m, x: m.bessely(1, x), [0.1, 5, 50]),
        ("__nv_lgamma", lambda m, x: m.log(abs(m.gamma(x))), [-2.5, 0.1, 5, 150]),
    ],
)
def test_special_functions(symbol: str, reference: Callable[..., Any], points: list[float]) -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workprec(200):
        exact = [float(reference(mpmath, mpmath.mpf(x))) for x in points]
    np.testing.assert_allclose(call(symbol, np.array(points)), exact, rtol=1e-13, atol=1e-300)
    single = np.array(points, np.float32)
    in_range = [abs(x) < 80 and abs(e) < 1e38 for x, e in zip(points, exact, strict=True)]
    with mpmath.workprec(200):
        exact = [float(reference(mpmath, mpmath.mpf(float(x)))) for x in single[in_range]]
    np.testing.assert_allclose(call(f"{symbol}f", single[in_range]), exact, rtol=1.2e-7)


@pytest.mark.parametrize("name", ["sinpi", "cospi"])
@pytest.mark.parametrize(("suffix", "numbers"), [("f", np.float32), ("", np.float64)])
def test_sinpi_and_cospi_near_their_zeros(name: str, suffix: str, numbers: Any) -> None:
    """Check errors of at most 2 ulps, as documented for CUDA, and exact zeros."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    zeros = np.arange(-6, 6) + (0.5 if name == "cospi" else 0.0)
    away = 10.0 ** rng.uniform(-8, 0, (len(zeros), 20)) * rng.choice([-1, 1], (len(zeros), 20))
    x = np.concatenate([zeros, (zeros[:, None] + away).ravel(), rng.uniform(-2, 2, 200)])
    x = np.concatenate([x, np.nextafter(x, INF, dtype=numbers)]).astype(numbers)
    x = x[(x == 0) | (np.abs(x) >= np.finfo(numbers).tiny)]  # libdevice treats smaller numbers as 0
    actual = call(f"__nv_{name}{suffix}", x)
    assert not actual[: len(zeros)].any()
    with mpmath.workprec(200):
        for at, value in zip(x, actual, strict=True):
            exact = getattr(mpmath, name)(mpmath.mpf(float(at)))
            unit = float(np.spacing(numbers(abs(float(exact)))))
            assert abs(mpmath.mpf(float(value)) - exact) <= 2 * unit, at


def test_ends_of_inverses() -> None:
    assert call("__nv_erfinvf", [1.0, -1.0, 0.0, 2.0]).tolist()[:3] == [INF, -INF, 0.0]
    assert np.isnan(call("__nv_erfinvf", [2.0, NAN])).all()
    assert call("__nv_erfcinv", [0.0, 2.0, 1.0]).tolist() == [INF, -INF, 0.0]
    assert call("__nv_normcdfinvf", [0.0, 1.0, 0.5]).tolist() == [-INF, INF, 0.0]


def test_integer_orders() -> None:
    mpmath = pytest.importorskip("mpmath")
    orders, x = np.array([0, 1, 2, 5]), np.array([1.5, 2.5, 3.5, 9.0])
    for name, function in (("jn", mpmath.besselj), ("yn", mpmath.bessely)):
        exact = [float(function(int(n), v)) for n, v in zip(orders, x, strict=True)]
        np.testing.assert_allclose(call(f"__nv_{name}", orders, x), exact, rtol=1e-13)
    np.testing.assert_allclose(call("__nv_powif", x, orders), x**orders, rtol=1e-7)
    np.testing.assert_allclose(call("__nv_ldexp", x, orders), np.ldexp(x, orders))
    scaled = call("__nv_scalbnf", np.array([1, 1.5, 1, 1]), [-149, -149, 200, -200])
    assert scaled.tolist() == [2.0**-149, 2.0**-148, INF, 0.0]


# ---- bits and integers
def test_neighbours() -> None:
    x = np.array([1, -1, 0.0, -0.0, 0.0, 1, INF, NAN, 1e-45, 2.5], np.float32)
    y = np.array([2, 2, 1, -1, -0.0, 1, 0, 1, 0, -9], np.float32)
    tiny = np.float32(2.0**-126)  # libdevice's smallest number
    expected = np.array([np.nextafter(a, b) for a, b in zip(x[:2], y[:2], strict=True)])
    expected = np.concatenate([expected, [tiny, -tiny, -0.0, 1, np.nextafter(x[6], y[6]), NAN]])
    expected = np.concatenate([expected, [0.0, np.nextafter(x[9], y[9])]]).astype(np.float32)
    assert_same_floats(call("__nv_nextafterf", x, y), expected, x, y)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    assert_same_floats(call("__nv_nextafter", wide_x, wide_y), np.nextafter(wide_x, wide_y))


def test_integer_functions() -> None:
    x = np.array([0, 1, -1, 7, 0x12345678, 2**31 - 1, -(2**31), -12345678], np.int32)
    y = np.array([3, -5, -1, 9, 0x0FEDCBA9, 2**31 - 1, 1, 2**20 + 7], np.int32)
    a, b = x.astype(object), y.astype(object)
    ua, ub = a % 2**32, b % 2**32

    def wrap(values: Any) -> list[int]:
        return [(int(v) + 2**31) % 2**32 - 2**31 for v in values]

    assert call("__nv_mulhi", x, y).tolist() == wrap(a * b >> 32)
    assert call("__nv_umulhi", x, y).tolist() == wrap(ua * ub >> 32)
    assert call("__nv_hadd", x, y).tolist() == wrap((a + b) >> 1)
    assert call("__nv_rhadd", x, y).tolist() == wrap((a + b + 1) >> 1)
    assert call("__nv_uhadd", x, y).tolist() == wrap((ua + ub) >> 1)
    assert call("__nv_urhadd", x, y).tolist() == wrap((ua + ub + 1) >> 1)
    assert call("__nv_sad", x, y, x).tolist() == wrap(abs(a - b) + a)
    assert call("__nv_usad", x, y, x).tolist() == wrap(abs(ua - ub) + a)
    low24 = [(v + 2**23) % 2**24 - 2**23 for v in a], [(v + 2**23) % 2**24 - 2**23 for v in b]
    assert call("__nv_mul24", x, y).tolist() == wrap(p * q for p, q in zip(*low24, strict=True))
    assert call("__nv_umul24", x, y).tolist() == wrap((ua % 2**24) * (ub % 2**24))
    texts = [format(v, "032b") for v in ua]
    assert call("__nv_popc", x).tolist() == [t.count("1") for t in texts]
    assert call("__nv_clz", x).tolist() == [len(t) - len(t.lstrip("0")) for t in texts]
    assert call("__nv_ffs", x).tolist() == [t[::-1].find("1") + 1 for t in texts]
    assert call("__nv_brev", x).tolist() == wrap(int(t[::-1], 2) for t in texts)
    assert call("__nv_abs", x).tolist() == wrap(abs(a))
    bytes_of = [
        list(v.to_bytes(4, "little")) + list(w.to_bytes(4, "little"))
        for v, w in zip(ua, ub, strict=True)
    ]
    selector = np.full(8, 0x5D48, np.int32)
    chosen = [int.from_bytes(bytes(c[n & 7] for n in (8, 4, 0xD, 5)), "little") for c in bytes_of]
    assert call("__nv_byte_perm", x, y, selector).tolist() == wrap(chosen)


def test_64_bit_integer_functions() -> None:
    x = np.array([0, 1, -1, 2**63 - 1, -(2**63), 123456789012345], np.int64)
    texts = [format(int(v) % 2**64, "064b") for v in x]
    assert call("__nv_popcll", x).tolist() == [t.count("1") for t in texts]
    assert call("__nv_clzll", x).tolist() == [len(t) - len(t.lstrip("0")) for t in texts]
    assert call("__nv_ffsll", x).tolist() == [t[::-1].find("1") + 1 for t in texts]
    product = x.astype(object) * x.astype(object)
    assert call("__nv_mul64hi", x, x).tolist() == [int(p) >> 64 for p in product]


def test_bits_of_doubles() -> None:
    x = np.array([1.5, -math.pi, 1e300, 0.0])
    bits = x.view(np.int64)
    assert call("__nv_double2hiint", x).tolist() == (bits >> 32).tolist()
    assert call("__nv_double2loint", x).tolist() == bits.astype(np.int32).tolist()
    doubles = call("__nv_hiloint2double", bits >> 32, bits.astype(np.int32))
    assert doubles.tolist() == x.tolist()
    assert call("__nv_double_as_longlong", x).tolist() == bits.tolist()


def test_predicates_and_exponents() -> None:
    x = np.array([NAN, INF, -INF, 0.0, -0.0, 1e-45, -3.0, 8.0], np.float32)
    assert call("__nv_isnanf", x).tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert call("__nv_isinff", x).tolist() == [0, 1, 1, 0, 0, 0, 0, 0]
    assert call("__nv_finitef", x).tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert call("__nv_signbitf", x).tolist()[2:] == [1, 0, 1, 0, 1, 0]
    lowest = -(2**31)
    assert call("__nv_ilogbf", x).tolist() == [
        lowest,
        2**31 - 1,
        2**31 - 1,
        lowest,
        lowest,
        lowest,
        1,
        3,
    ]
    assert_same_floats(call("__nv_logbf", x), np.array([NAN, INF, INF, -INF, -INF, -150, 1, 3]))
    wide = np.array([5e-324, 2.0**-1000])
    assert call("__nv_ilogb", wide).tolist() == [-1074, -1000]
    assert call("__nv_saturatef", x).tolist() == [0, 1, 0, 0, 0, 0, 0, 1]


# ---- rounding modes
MODES: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "rd": lambda got, exact: got <= exact,
    "ru": lambda got, exact: got >= exact,
    "rz": lambda got, exact: abs(got) <= abs(exact),
}
DIRECTED: dict[str, tuple[int, Callable[..., Fraction]]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "div": (2, lambda a, b: a / b),
    "rcp": (1, lambda a: 1 / a),
    "fma": (3, lambda a, b, c: a * b + c),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", DIRECTED)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_directed_rounding(kind: str, name: str, mode: str) -> None:
    count, exact = DIRECTED[name]
    symbol = f"__nv_{'fd'[kind == 'f64']}{name}_{mode}"
    if name == "fma":
        symbol = f"__nv_fma{'f' if kind == 'f32' else ''}_{mode}"
    arguments = np.random.default_rng(0).normal(0, 3, (count, 160)).astype(TYPES[kind])
    results = apply("tt.extern_elementwise", [kind] * count, [kind], *arguments, symbol=symbol)
    check_directed(results, exact, arguments, mode)


def check_directed(results: Any, exact: Callable[..., Fraction], arguments: Any, mode: str) -> None:
    """Check that each result is on the right side of the exact value, and the next value is not."""
    for got, *values in zip(results, *arguments, strict=True):
        truth = exact(*(Fraction(float(v)) for v in values))
        assert MODES[mode](Fraction(float(got)), truth), values
        toward = truth - Fraction(float(got))
        if toward:
            beyond = np.nextafter(got, got.dtype.type(INF if toward > 0 else -INF))
            assert not MODES[mode](Fraction(float(beyond)), truth), values


@pytest.mark.parametrize("mode", MODES)
def test_directed_conversions(mode: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 3, (1, 160))
    check_directed(call(f"__nv_double2float_{mode}", x[0]), lambda v: v, x, mode)
    n = rng.integers(-(2**31), 2**31, (1, 160))
    check_directed(call(f"__nv_int2float_{mode}", n[0]), lambda v: v, n, mode)
    root = call(f"__nv_dsqrt_{mode}", np.abs(x[0]))
    for got, value in zip(root.tolist(), np.abs(x[0]).tolist(), strict=True):
        assert MODES[mode](Fraction(got) ** 2, Fraction(value))


def test_the_rounding_mode_is_restored() -> None:
    call("__nv_fadd_ru", [1.0], [1e-9])
    one, tiny = np.array([1.0], np.float32), np.array([1e-9], np.float32)
    assert apply("arith.addf", ["f32"] * 2, ["f32"], one, tiny).tolist() == [1]


def test_conversions_to_integers() -> None:
    x = np.array([2.5, -2.5, 3.7, -3.7, 1e20, -1e20], np.float32)
    top, bottom = 2**31 - 1, -(2**31)
    assert call("__nv_float2int_rn", x).tolist() == [2, -2, 4, -4, top, bottom]
    assert call("__nv_float2int_rd", x).tolist() == [2, -3, 3, -4, top, bottom]
    assert call("__nv_float2int_ru", x).tolist() == [3, -2, 4, -3, top, bottom]
    assert call("__nv_float2int_rz", x).tolist() == [2, -2, 3, -3, top, bottom]
    assert call("__nv_float2uint_rn", x).tolist() == [2, 0, 4, 0, -1, 0]
    assert call("__nv_llrintf", x).tolist() == [2, -2, 4, -4, 2**63 - 1, -(2**63)]
    assert call("__nv_llroundf", x).tolist() == [3, -3, 4, -4, 2**63 - 1, -(2**63)]
