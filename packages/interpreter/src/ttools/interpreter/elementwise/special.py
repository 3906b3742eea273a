"""Functions of libdevice that the C library does not have, computed in double.

Inverses of erf by Halley's method from Winitzki's approximation; modified Bessel functions by
their power series and, beyond it, their asymptotic one (DLMF 10.25.2, 10.40.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ttools.interpreter.elementwise.libm import call_doubles
from ttools.interpreter.elementwise.vector import Vector

_INFINITY = float("inf")
_NAN = float("nan")


def _sqrt(value: Vector) -> Vector:
    return value.lanes.intrinsic("sqrt", value)


# ---- inverses of the error function
_WINITZKI = 0.147


def _inverse_erf(a: Vector, q: Vector, log_product: Vector) -> Vector:
    """The y >= 0 with erf(y) = a = 1 - q, given log(1 - a^2); both a and q are exact."""
    t = log_product * 0.5 + 2 / (math.pi * _WINITZKI)
    scaled = log_product * (-1 / _WINITZKI)
    y = _sqrt(scaled / (_sqrt(t * t + scaled) + t))
    small = a.compare("olt", 0.5)
    for _ in range(3):
        error = small.choose(call_doubles("erf", y) - a, q - call_doubles("erfc", y))
        u = error * (math.sqrt(math.pi) / 2) * call_doubles("exp", y * y)
        y = y - u / (y * u + 1.0)
    y = a.compare("oeq", 0.0).choose(a, y)
    return q.compare("oeq", 0.0).choose(y.coerce(_INFINITY), y)


def erfinv(x: Vector) -> Vector:
    """The y with erf(y) = x."""
    a = x.abs()
    y = _inverse_erf(a, 1.0 - a, call_doubles("log1p", -(x * x)))
    return x.lanes.intrinsic("copysign", y, x)


def erfcinv(x: Vector) -> Vector:
    """The y with erfc(y) = x."""
    above = x.compare("ogt", 1.0)
    q = above.choose(2.0 - x, x)
    y = _inverse_erf(1.0 - q, q, call_doubles("log", q * (2.0 - q)))
    return above.choose(-y, y)


def normcdf(x: Vector) -> Vector:
    """The standard normal distribution's cumulative function."""
    return call_doubles("erfc", x * -math.sqrt(0.5)) * 0.5


def normcdfinv(x: Vector) -> Vector:
    """The inverse of `normcdf`."""
    return erfcinv(x * 2.0) * -math.sqrt(2.0)


def erfcx(x: Vector) -> Vector:
    """`exp(x^2) * erfc(x)`."""
    lanes = x.lanes
    # Beyond 26 erfc nears the smallest double and the asymptotic series is exact to the last bit.
    bounded = x.compare("ogt", 26.0).choose(x.coerce(26.0), x)
    square = bounded * bounded
    lost = lanes.fma(bounded, bounded, -square)
    power = call_doubles("exp", square)
    near = lanes.fma(power, lost, power) * call_doubles("erfc", bounded)
    near = power.compare("oeq", _INFINITY).choose(power, near)
    r = 1.0 / x
    series = lanes.polynomial(r * r, (162.421875, -29.53125, 6.5625, -1.875, 0.75, -0.5, 1.0))
    far = r * (1 / math.sqrt(math.pi)) * series
    return x.compare("ogt", 26.0).choose(far, near)


# ---- modified Bessel functions
_SERIES_TERMS = 70
_ASYMPTOTIC_TERMS = 24
_SERIES_END = 30.0


def _modified_bessel(order: int) -> Callable[[Vector], Vector]:
    """I_0 or I_1."""

    def evaluate(x: Vector) -> Vector:
        lanes = x.lanes
        magnitude = x.abs()
        inside = magnitude.compare("olt", _SERIES_END)
        near = inside.choose(magnitude, 1.0)
        z = near * near * 0.25
        series = x.coerce(1.0)
        for k in range(_SERIES_TERMS, 0, -1):
            series = lanes.fma(series * z, 1 / (k * (k + order)), 1.0)
        if order:
            series = series * near * 0.5

        far = inside.choose(magnitude.coerce(_SERIES_END), magnitude)
        r = 1.0 / far
        tail = x.coerce(1.0)
        for k in range(_ASYMPTOTIC_TERMS, 0, -1):
            tail = lanes.fma(tail * r, ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k), 1.0)
        # The square root of the power, lest it overflow before the result does.
        half = call_doubles("exp", far * 0.5)
        tail = half * tail / _sqrt(far * (2 * math.pi)) * half
        tail = half.compare("oeq", _INFINITY).choose(half, tail)

        value = inside.choose(series, tail)
        return lanes.intrinsic("copysign", value, x) if order else value

    return evaluate


# ---- roots and norms
def _reciprocal(function: Callable[..., Vector]) -> Callable[..., Vector]:
    return lambda *arguments: 1.0 / function(*arguments)


def _reciprocal_norm(*components: Vector) -> Vector:
    """The inverse of `norm`, which may have overflowed."""
    largest = components[0].abs()
    for component in components[1:]:
        largest = largest.lanes.intrinsic("maxnum", largest, component.abs())
    scale = largest.compare("ogt", 2.0**1000).choose(largest.coerce(0.25), 1.0)
    return scale / norm(*(component * scale for component in components))


def cbrt(x: Vector) -> Vector:
    """The cube root."""
    return call_doubles("cbrt", x)


def norm(*components: Vector) -> Vector:
    """The length of a vector of two to four components, without overflow on the way."""
    length = components[0]
    for component in components[1:]:
        length = call_doubles("hypot", length, component)
    return length


#: Functions of doubles.
SPECIAL: dict[str, Callable[..., Vector]] = {
    "erfinv": erfinv,
    "erfcinv": erfcinv,
    "erfcx": erfcx,
    "normcdf": normcdf,
    "normcdfinv": normcdfinv,
    "cyl_bessel_i0": _modified_bessel(0),
    "cyl_bessel_i1": _modified_bessel(1),
    "i0": _modified_bessel(0),
    "i1": _modified_bessel(1),
    "rcbrt": _reciprocal(cbrt),
    "rhypot": _reciprocal_norm,
    "norm3d": norm,
    "norm4d": norm,
    "rnorm3d": _reciprocal_norm,
    "rnorm4d": _reciprocal_norm,
    "jn": lambda n, x: call_doubles("jn", n, x),
    "yn": lambda n, x: call_doubles("yn", n, x),
    "powi": lambda x, n: call_doubles("pow", x, n.cast("sitofp", "double")),
    "pown": lambda x, n: call_doubles("pow", x, n.cast("sitofp", "double")),
}
