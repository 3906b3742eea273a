"""Functions in float64 and in extended precision, and their derivatives, against mpmath."""

from __future__ import annotations

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.sanitizer.accuracy.functions import (
    SEVERAL,
    UNARY,
    is_rounding,
    library_function,
    library_name,
)
from ttools.sanitizer.accuracy.shadow import EXTENDED, HAS_EXTENDED

_EXACT = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "sqrt": mpmath.sqrt,
    "precise_sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "erf": mpmath.erf,
    "fabs": abs,
    "fneg": lambda x: -x,
    "expm1": mpmath.expm1,
    "exp10": lambda x: mpmath.power(10, x),
    "log1p": mpmath.log1p,
    "log10": mpmath.log10,
    "tan": mpmath.tan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "asinh": mpmath.asinh,
    "acosh": lambda x: mpmath.acosh(x + 1),
    "atanh": mpmath.atanh,
    "cbrt": mpmath.cbrt,
    "erfc": mpmath.erfc,
    "lgamma": mpmath.loggamma,
    "sinpi": mpmath.sinpi,
    "cospi": mpmath.cospi,
}
_BINARY = {
    "fadd": lambda x, y: x + y,
    "fsub": lambda x, y: x - y,
    "fmul": lambda x, y: x * y,
    "fdiv": lambda x, y: x / y,
    "atan2": mpmath.atan2,
    "hypot": mpmath.hypot,
    "pow": mpmath.power,
}
_numbers = st.floats(0.05, 0.95)


@pytest.mark.parametrize("name", _EXACT)
@settings(max_examples=12)
@given(x=_numbers)
def test_functions_of_one_number(name: str, x: float) -> None:
    argument = x + 1 if name == "acosh" else x
    if name in UNARY:
        function, derivative = UNARY[name]
        slope = derivative(np.array(argument))
    else:
        found = library_function(name)
        assert found is not None
        function, partials = found
        (slope,) = partials(np.array(argument))
    assert float(function(np.array(argument))) == pytest.approx(float(_EXACT[name](x)), rel=1e-12)
    assert float(slope) == pytest.approx(float(mpmath.diff(_EXACT[name], x)), rel=1e-9, abs=1e-12)


@pytest.mark.skipif(not HAS_EXTENDED, reason="there is no type with more precision than float64")
@pytest.mark.parametrize("name", [*_EXACT, *_BINARY])
@settings(max_examples=12)
@given(x=_numbers, y=_numbers)
def test_functions_in_extended_precision(name: str, x: float, y: float) -> None:
    found = library_function(name, extended=True)
    if name == "lgamma":
        assert found is None  # only in float64
        return
    function = UNARY[name][0] if name in UNARY else (found or SEVERAL[name])[0]
    numbers = (x, y) if name in _BINARY else (x,)
    shift = 1 if name == "acosh" else 0
    arguments = [np.array(EXTENDED(n) + shift) for n in numbers]
    result = np.asarray(function(*arguments))
    assert result.dtype == EXTENDED
    with mpmath.workdps(60):
        exact = {**_EXACT, **_BINARY}[name](*map(mpmath.mpf, numbers))
        high = float(result)
        value = mpmath.mpf(high) + mpmath.mpf(float(result - high))
        assert abs(value - exact) <= mpmath.mpf(2) ** -58 * max(abs(exact), 0.1)


@pytest.mark.skipif(not HAS_EXTENDED, reason="there is no type with more precision than float64")
@given(st.floats(1e-3, 9.0), st.sampled_from([-1, 1]))
def test_error_functions_in_extended_precision(size: float, sign: int) -> None:
    x = sign * size
    for name, exact in (("erf", mpmath.erf), ("erfc", mpmath.erfc)):
        found = library_function(name, extended=True)
        assert found is not None
        result = found[0](np.array([x], EXTENDED))[0]
        high = float(result)
        with mpmath.workdps(60):
            wanted = exact(mpmath.mpf(x))
            error = mpmath.mpf(high) + mpmath.mpf(float(result - high)) - wanted
            assert abs(error) <= mpmath.mpf(2) ** -56 * abs(wanted)


@pytest.mark.parametrize("name", _BINARY)
@settings(max_examples=12)
@given(x=_numbers, y=_numbers)
def test_functions_of_two_numbers(name: str, x: float, y: float) -> None:
    found = SEVERAL.get(name) or library_function(name)
    assert found is not None
    function, partials = found
    exact = _BINARY[name]
    assert float(function(np.array(x), np.array(y))) == pytest.approx(float(exact(x, y)), rel=1e-12)
    slopes = partials(np.array(x), np.array(y))
    wanted = [mpmath.diff(exact, (x, y), order) for order in ((1, 0), (0, 1))]
    assert [float(s) for s in slopes] == pytest.approx([float(w) for w in wanted], rel=1e-9)


def test_names_of_the_library() -> None:
    symbols = ("__nv_expm1f", "__nv_expm1", "__nv_fast_expf", "__nv_erff", "__nv_fdiv_rn")
    assert [library_name(s) for s in symbols] == ["expm1", "expm1", "exp", "erf", "fdiv"]
    assert is_rounding(library_name("__nv_rintf"))
    assert library_function(library_name("__nv_j0f")) is None
