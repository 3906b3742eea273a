"""Transcendental functions of f32 as vector polynomials, within 1 to 2 ulp over the whole range.

Coefficients are minimax fits (Remez) made for this file; each comment gives the interval and the
fit's relative error.  Infinities, NaN, denormals and large arguments are handled, and no step is
undefined for any input.
"""

from __future__ import annotations

from ttools.interpreter.elementwise.vector import Lanes, Vector

_LOG2_E = 1.4426950408889634
# ln 2 in two floats; the upper one has few bits, so that n * LN2_HIGH is exact.
_LN2_HIGH = 0.693145751953125
_LN2_LOW = 1.4286068203094172e-06
# Adding it rounds a float to the nearest integer, whose bits are then the lowest of the sum.
_ROUND = 1.5 * 2**23

_INFINITY = float("inf")
_NAN = float("nan")


# ---- exponentials
def _nearest_integer(value: Vector) -> tuple[Vector, Vector]:
    """The nearest integer of |value| < 2^22, as a float and as an i32 (any bits for NaN)."""
    shifted = value + _ROUND
    return shifted - _ROUND, shifted.as_int() - shifted.coerce(_ROUND).as_int()


def scale(value: Vector, exponent: Vector) -> Vector:
    """`value * 2^exponent` for |exponent| <= 252, rounded once where the result is denormal."""
    half = exponent.arithmetic_shift(1)
    rest = exponent - half
    return value * ((half + 127) << 23).as_float() * ((rest + 127) << 23).as_float()


def clamp(value: Vector, low: float, high: float) -> Vector:
    """Both ends clamped; NaN passes."""
    low_vector, high_vector = value.coerce(low), value.coerce(high)
    value = value.compare("olt", low).choose(low_vector, value)
    return value.compare("ogt", high).choose(high_vector, value)


# (e^r - 1 - r) / r^2 on |r| <= ln2/2, 2^-25.6
_EXP = (0.0013806687202304602, 0.008358609862625599, 0.04166778549551964)
_EXP += (0.16666604578495026, 0.4999999701976776)


def _exp(x: Vector) -> Vector:
    lanes = x.lanes
    bounded = clamp(x, -104.0, 89.0)
    n, exponent = _nearest_integer(bounded * _LOG2_E)
    r = lanes.fma(n, -_LN2_LOW, lanes.fma(n, -_LN2_HIGH, bounded))
    value = lanes.fma(lanes.polynomial(r, _EXP), r * r, r) + 1.0
    return scale(value, exponent)


# (2^r - 1) / r on |r| <= 1/2, 2^-25.8
_EXP2 = (0.0001554494519950822, 0.0013381186872720718, 0.009617784060537815)
_EXP2 += (0.05550377070903778, 0.24022652208805084, 0.6931471824645996)


def _exp2(x: Vector) -> Vector:
    lanes = x.lanes
    bounded = clamp(x, -151.0, 129.0)
    n, exponent = _nearest_integer(bounded)
    r = bounded - n
    return scale(lanes.fma(lanes.polynomial(r, _EXP2), r, 1.0), exponent)


# ---- logarithms
_SQRT_HALF_BITS = 0x3F3504F3


def _split_log(x: Vector) -> tuple[Vector, Vector]:
    """`x = 2^e * (1 + f)` with 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x."""
    tiny = x.compare("olt", 2.0**-126)
    bits = tiny.choose(x * 2.0**23, x).as_int()
    exponent = (bits - _SQRT_HALF_BITS).arithmetic_shift(23)
    mantissa = (bits - (exponent << 23)).as_float()
    adjusted = exponent - tiny.choose(exponent.coerce(23), 0)
    return adjusted.cast("sitofp", "float"), mantissa - 1.0


def _log_specials(x: Vector, value: Vector) -> Vector:
    """`value`, but for 0 (-inf), negative numbers (NaN), +inf and NaN (themselves)."""
    ordinary = x.compare("ogt", 0.0) & x.compare("olt", _INFINITY)
    special = x.compare("olt", 0.0).choose(x.coerce(_NAN), x)
    special = x.compare("oeq", 0.0).choose(x.coerce(-_INFINITY), special)
    return ordinary.choose(value, special)


# (log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], 2^-27.3
_LOG = (-0.07622313499450684, 0.12766529619693756, -0.1316680610179901, 0.14201539754867554)
_LOG += (-0.1662270426750183, 0.20001214742660522, -0.25000837445259094, 0.3333333134651184)


def _log(x: Vector) -> Vector:
    lanes = x.lanes
    e, f = _split_log(x)
    series = lanes.fma(lanes.polynomial(f, _LOG), f, -0.5)
    value = lanes.fma(series, f * f, f)
    return _log_specials(x, lanes.fma(e, _LN2_HIGH, lanes.fma(e, _LN2_LOW, value)))


#: Functions of one f32 that have a polynomial.
POLYNOMIALS = {"exp": _exp, "exp2": _exp2, "log": _log}


def apply(name: str, value: Vector) -> Vector:
    """`name(value)` of f32 through a function that is inlined."""
    return value.lanes.function(name, "float", POLYNOMIALS[name], value)


__all__ = ["POLYNOMIALS", "Lanes", "apply", "clamp", "scale"]
