"""`x ** y` of f32, computed as `2 ** (y * log2 |x|)` in double, with an error of at most 0.51 ulp.

Signs, zeros, infinities and NaN follow C's `pow` (C11 F.10.4.4), as CUDA's `powf` does.
"""

from __future__ import annotations

from ttools.interpreter.elementwise.libm import call_doubles
from ttools.interpreter.elementwise.vector import Vector

# Coefficients of log2((1 + s) / (1 - s)) / s as a polynomial in s^2, for a mantissa in
# [sqrt(1/2), sqrt(2)]; the relative error is 2^-45.
_LOG2 = (
    *(0.2829425529804756, 0.3199028859493462, 0.41220931681585227),
    *(0.5770779417712003, 0.9617966941152186, 2.885390081777849),
)
# Coefficients of 2^r for |r| <= 1/2; the relative error is 2^-34.5.
_EXP2 = (
    *(1.5201916353619889e-05, 0.0001546931815285325, 0.001333392277851145),
    *(0.009618027169565805, 0.05550410352961135, 0.2402265119878427),
    *(0.6931471807286399, 0.9999999999616191),
)
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_LOG2_10 = 3.321928094887362
_ROUND = 1.5 * 2**52
_INFINITY = float("inf")


def _log2(x: Vector) -> Vector:
    """Return the binary logarithm of a non-negative double; NaN stays NaN."""
    bits = x.as_int()
    exponent = (bits - _SQRT_HALF_BITS).arithmetic_shift(52)
    mantissa = (bits - (exponent << 52)).as_float("double")
    s = (mantissa - 1.0) / (mantissa + 1.0)
    # The exponent fits in an i32, whose conversion to double is fast on all CPUs.
    e = exponent.cast("trunc", "i32").cast("sitofp", "double")
    value = x.lanes.fma(x.lanes.polynomial(s * s, _LOG2), s, e)
    value = x.compare("oeq", 0.0).choose(x.coerce(-_INFINITY), value)
    return x.compare("olt", _INFINITY).choose(value, x)


def _exp2(t: Vector) -> Vector:
    """Return `2 ** t` for a double that is first clamped to [-200, 200]; NaN stays NaN."""
    t = t.compare("olt", -200.0).choose(t.coerce(-200.0), t)
    t = t.compare("ogt", 200.0).choose(t.coerce(200.0), t)
    shifted = t + _ROUND
    value = t.lanes.polynomial(t - (shifted - _ROUND), _EXP2)
    return (value.as_int() + (shifted.as_int() << 52)).as_float("double")


def exp10(x: Vector) -> Vector:
    """Return `10 ** x` of floats or doubles."""
    if x.scalar == "double":
        return call_doubles("pow", x.coerce(10.0), x)
    return _exp2(x.cast("fpext", "double") * _LOG2_10).cast("fptrunc", "float")


def _is_integer(y: Vector) -> Vector:
    return y.lanes.intrinsic("trunc", y).compare("oeq", y)


def power(x: Vector, y: Vector) -> Vector:
    """Return `x ** y` of two f32 vectors."""
    magnitude = x.abs()
    t = y.cast("fpext", "double") * _log2(magnitude.cast("fpext", "double"))
    value = _exp2(t).cast("fptrunc", "float")
    integer = _is_integer(y)
    odd = integer & ~_is_integer(y * 0.5)
    negative = x.as_int().compare("slt", 0)
    value = (odd & negative).choose(-value, value)
    undefined = negative & ~integer & magnitude.compare("ogt", 0.0)
    undefined = undefined & magnitude.compare("olt", _INFINITY)
    value = undefined.choose(value.coerce(float("nan")), value)
    # If |x| is 1 and y is infinite, the result is 1. So are x ** 0 and 1 ** y, even for NaN.
    one = magnitude.compare("oeq", 1.0) & y.abs().compare("oeq", _INFINITY)
    one = one | x.compare("oeq", 1.0) | y.compare("oeq", 0.0)
    return one.choose(value.coerce(1.0), value)
