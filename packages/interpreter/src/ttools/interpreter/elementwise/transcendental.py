"""Transcendental functions as vector polynomials, within 1 to 2 ulp over the whole range.

Most are functions of f32; exponentials have polynomials for f64, too, within 1 ulp.
The coefficients are minimax fits (Remez's algorithm) that were computed for this file. The comment
before each list names the function that is fitted, its interval, and the relative error of the fit.
Infinities, NaN, denormals and large arguments are handled, and no step is undefined for any input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ttools.interpreter.elementwise.trigonometry import COS, SIN, TAN
from ttools.interpreter.elementwise.vector import Vector

_LOG2_E = 1.4426950408889634
# ln 2 and log10 2 as sums of two floats; the upper one has few bits, so that its product with an
# exponent is exact.
_LN2 = (0.693145751953125, 1.4286068203094172e-06)
_LOG10_2 = (0.301025390625, 4.605039066518657e-06)
# Adding this constant rounds a float to the nearest integer, which is then in the lowest bits of
# the sum.
_ROUND = 1.5 * 2**23

_INFINITY = float("inf")
_NAN = float("nan")


# ---- exponentials
def _nearest_integer(value: Vector) -> tuple[Vector, Vector]:
    """Return the nearest integer as a float and as an i32, for |value| < 2^22.

    The results for NaN are arbitrary.
    """
    shifted = value + _ROUND
    return shifted - _ROUND, shifted.as_int() - shifted.coerce(_ROUND).as_int()


def _power_of_two(exponent: Vector) -> Vector:
    """Return `2^exponent` as a float, for an i32 in [-126, 127]."""
    return ((exponent + 127) << 23).as_float()


def _scale(value: Vector, exponent: Vector) -> Vector:
    """Return `value * 2^exponent` for |exponent| <= 252, rounded once if it is denormal."""
    half = exponent.arithmetic_shift(1)
    return value * _power_of_two(half) * _power_of_two(exponent - half)


def _clamp(value: Vector, low: float, high: float) -> Vector:
    """Clamp a value to a range; NaN stays."""
    value = value.compare("olt", low).choose(value.coerce(low), value)
    return value.compare("ogt", high).choose(value.coerce(high), value)


def _split_exponential(x: Vector) -> tuple[Vector, Vector]:
    """Return `(e^r - 1, n)` with `x = n * ln 2 + r` and |r| <= ln2 / 2."""
    lanes = x.lanes
    n, exponent = _nearest_integer(x * _LOG2_E)
    r = lanes.fma(n, -_LN2[1], lanes.fma(n, -_LN2[0], x))
    return lanes.fma(lanes.polynomial(r, _EXP), r * r, r), exponent


# (e^r - 1 - r) / r^2 on |r| <= ln2 / 2, relative error 2^-25.6
_EXP = (
    *(0.0013806687202304602, 0.008358609862625599, 0.04166778549551964),
    *(0.16666604578495026, 0.4999999701976776),
)


def _exp(x: Vector) -> Vector:
    minus_one, exponent = _split_exponential(_clamp(x, -104.0, 89.0))
    return _scale(minus_one + 1.0, exponent)


# (2^r - 1) / r on |r| <= 1/2, relative error 2^-25.8
_EXP2 = (
    *(0.0001554494519950822, 0.0013381186872720718, 0.009617784060537815),
    *(0.05550377070903778, 0.24022652208805084, 0.6931471824645996),
)


def _exp2(x: Vector) -> Vector:
    lanes = x.lanes
    bounded = _clamp(x, -151.0, 129.0)
    n, exponent = _nearest_integer(bounded)
    r = bounded - n
    return _scale(lanes.fma(lanes.polynomial(r, _EXP2), r, 1.0), exponent)


def _expm1(x: Vector) -> Vector:
    p, exponent = _split_exponential(_clamp(x, -20.0, 89.0))
    # The scale is half of the power, because the full power may overflow where the result does not.
    half = _power_of_two(exponent - 1)
    value = x.lanes.fma(half, p, half - 0.5) * 2.0
    return x.abs().compare("olt", 2.0**-25).choose(x, value)


# ---- logarithms
_SQRT_HALF_BITS = 0x3F3504F3


def _split_logarithm(x: Vector) -> tuple[Vector, Vector]:
    """Return `(e, f)` with `x = 2^e * (1 + f)` and 1 + f in [sqrt(1/2), sqrt(2)).

    Args:
        x: Finite positive numbers, including denormals.
    """
    tiny = x.compare("olt", 2.0**-126)
    bits = tiny.choose(x * 2.0**23, x).as_int()
    exponent = (bits - _SQRT_HALF_BITS).arithmetic_shift(23)
    mantissa = (bits - (exponent << 23)).as_float()
    return exponent - tiny.choose(exponent.coerce(23), 0), mantissa - 1.0


def _log_specials(x: Vector, value: Vector) -> Vector:
    """Return `value`, except for 0 (-inf), negative numbers (NaN), +inf and NaN (unchanged)."""
    ordinary = x.compare("ogt", 0.0) & x.compare("olt", _INFINITY)
    special = x.compare("olt", 0.0).choose(x.coerce(_NAN), x)
    special = x.compare("oeq", 0.0).choose(x.coerce(-_INFINITY), special)
    return ordinary.choose(value, special)


# (log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], relative error 2^-27.3
_LOG = (
    *(-0.07622313499450684, 0.12766529619693756, -0.1316680610179901, 0.14201539754867554),
    *(-0.1662270426750183, 0.20001214742660522, -0.25000837445259094, 0.3333333134651184),
    -0.5,
)


def _log_series(exponent: Vector, f: Vector) -> Vector:
    lanes = f.lanes
    e = exponent.cast("sitofp", "float")
    value = lanes.fma(lanes.polynomial(f, _LOG), f * f, f)
    return lanes.fma(e, _LN2[0], lanes.fma(e, _LN2[1], value))


def _log(x: Vector) -> Vector:
    return _log_specials(x, _log_series(*_split_logarithm(x)))


def _log1p(x: Vector) -> Vector:
    u = x + 1.0
    lost = x.compare("olt", 1.0).choose(x - (u - 1.0), 1.0 - (u - x))
    exponent, f = _split_logarithm(u)
    # The rounding error of the sum x + 1 matters only for small u.
    scaled = lost * _power_of_two(-exponent.minimum(60).maximum(-60))
    value = _log_specials(u, _log_series(exponent, f + scaled))
    return x.abs().compare("olt", 2.0**-25).choose(x, value)


# (log_b(1 + f) - f * log_b(e)) / f^2 on the same interval as `_LOG`, relative error 2^-27.8,
# followed by log_b(e) as the sum of two floats
_LOG2 = (
    *(-0.10979223996400833, 0.18625302612781525, -0.19115927815437317, 0.20459520816802979),
    *(-0.23960642516613007, 0.28856736421585083, -0.36069703102111816, 0.4808982312679291),
    -0.7213473320007324,
)
_LOG2_FACTOR = (1.4426950216293335, 1.925963033500011e-08)
_LOG10 = (
    *(-0.03305075690150261, 0.05606774613261223, -0.05754467844963074, 0.06158929318189621),
    *(-0.07212872058153152, 0.08686743676662445, -0.10858062654733658, 0.14476479589939117),
    -0.21714718639850616,
)
_LOG10_FACTOR = (0.4342944920063019, -1.0103049952192578e-08)


def _other_base(f: Vector, series: Sequence[float], factor: tuple[float, float]) -> Vector:
    lanes = f.lanes
    rest = lanes.fma(lanes.polynomial(f, series), f * f, f * factor[1])
    return lanes.fma(f, factor[0], rest)


def _log2(x: Vector) -> Vector:
    exponent, f = _split_logarithm(x)
    value = exponent.cast("sitofp", "float") + _other_base(f, _LOG2, _LOG2_FACTOR)
    return _log_specials(x, value)


def _log10(x: Vector) -> Vector:
    exponent, f = _split_logarithm(x)
    e = exponent.cast("sitofp", "float")
    value = x.lanes.fma(e, _LOG10_2[1], _other_base(f, _LOG10, _LOG10_FACTOR))
    return _log_specials(x, x.lanes.fma(e, _LOG10_2[0], value))


# ---- sigmoids
# (tanh x - x) / x^3 in x^2 on |x| <= 0.625, 2^-27.8
_TANH = (
    *(-0.005704961717128754, 0.02063906379044056, -0.05373970791697502),
    *(0.13331441581249237, -0.3333328068256378),
)


def _with_sign_of(magnitude: Vector, x: Vector) -> Vector:
    return magnitude.lanes.intrinsic("copysign", magnitude, x)


def _tanh(x: Vector) -> Vector:
    lanes = x.lanes
    magnitude = x.abs()
    square = x * x
    near = lanes.fma(lanes.polynomial(square, _TANH), square * magnitude, magnitude)
    # The argument of the exponential is clamped to [0, 20], so that it is neither denormal nor
    # infinite; for |x| > 10, tanh is 1 in f32.
    p, exponent = _split_exponential(_clamp(magnitude + magnitude, 0.0, 20.0))
    power = _power_of_two(exponent)
    total = lanes.fma(power, p, power) + 1.0
    far = 1.0 - total.coerce(2.0) / total
    return _with_sign_of(magnitude.compare("olt", 0.625).choose(near, far), x)


# erf(x) / x - 1 as a polynomial in x^2 on |x| <= 0.93, relative error 2^-25.8
_ERF = (
    *(-0.000595373974647373, 0.0049859401769936085, -0.026761719956994057),
    *(0.11281682550907135, -0.3761247992515564, 0.12837915122509003),
)
# log(erfc(t)) + t on [0.92, 4], with an error of erf of 2^-34.3
_ERFC = (
    *(-2.1094951080158353e-05, 0.0004344614571891725, -0.004171057604253292),
    *(0.025119412690401077, -0.10828007012605667, -0.6333469152450562),
    *(-0.1295149177312851, 0.00017468251462560147),
)


def _erf(x: Vector) -> Vector:
    lanes = x.lanes
    magnitude = x.abs()
    near = lanes.fma(lanes.polynomial(x * x, _ERF), magnitude, magnitude)
    t = _clamp(magnitude, 0.0, 4.0)
    p, exponent = _split_exponential(lanes.polynomial(t, _ERFC) - t)
    power = _power_of_two(exponent)
    far = 1.0 - lanes.fma(power, p, power)
    return _with_sign_of(magnitude.compare("olt", 0.925).choose(near, far), x)


# ---- functions of f64
_LN2_F64 = (0.6931471803691238, 1.9082149292705877e-10)
_ROUND_F64 = 1.5 * 2**52
# 1 / n! for n from 13 to 2: for |r| <= ln2 / 2, the rest of the series is below 2^-57.
_EXP_F64 = tuple(1 / math.factorial(n) for n in range(13, 1, -1))


def _power_of_two_f64(exponent: Vector) -> Vector:
    return ((exponent + 1023) << 52).as_float("double")


def _nearest_integer_f64(value: Vector) -> tuple[Vector, Vector]:
    """Return the nearest integer as a double and as an i64, for |value| < 2^51."""
    shifted = value + _ROUND_F64
    return shifted - _ROUND_F64, shifted.as_int() - shifted.coerce(_ROUND_F64).as_int()


def _exponential_f64(r: Vector, exponent: Vector) -> Vector:
    """Return `e^r * 2^exponent`, for |r| <= ln2 / 2 and |exponent| <= 2044."""
    value = r.lanes.fma(r.lanes.polynomial(r, _EXP_F64), r * r, r) + 1.0
    half = exponent.arithmetic_shift(1)
    return value * _power_of_two_f64(half) * _power_of_two_f64(exponent - half)


def _exp_f64(x: Vector) -> Vector:
    bounded, lanes = _clamp(x, -746.0, 710.0), x.lanes
    n, exponent = _nearest_integer_f64(bounded * _LOG2_E)
    r = lanes.fma(n, -_LN2_F64[1], lanes.fma(n, -_LN2_F64[0], bounded))
    return _exponential_f64(r, exponent)


def _exp2_f64(x: Vector) -> Vector:
    bounded = _clamp(x, -1076.0, 1025.0)
    n, exponent = _nearest_integer_f64(bounded)
    rest = bounded - n
    r = x.lanes.fma(rest, _LN2_F64[0], rest * _LN2_F64[1])
    return _exponential_f64(r, exponent)


#: Functions of one f64 that have a polynomial.
POLYNOMIALS_F64: dict[str, Callable[[Vector], Vector]] = {"exp": _exp_f64, "exp2": _exp2_f64}
#: Functions of one f32 that have a polynomial.
POLYNOMIALS: dict[str, Callable[[Vector], Vector]] = {
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log2": _log2,
    "log10": _log10,
    "log1p": _log1p,
    "sin": SIN,
    "cos": COS,
    "tan": TAN,
    "tanh": _tanh,
    "erf": _erf,
}
