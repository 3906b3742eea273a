"""Functions of one to three numbers with their partial derivatives, in float64.

The functions, but not the derivatives, also compute in extended precision (`shadow.EXTENDED`).
Their results have this precision, because they use no constants and no libraries that are limited
to 53 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ttools.sanitizer.accuracy.shadow import EXTENDED

Function = Callable[..., Any]
#: A function, and a function that returns its partial derivatives.
Smooth = tuple[Function, Callable[..., Sequence[Any]]]

_SYMBOL = re.compile(r"__nv_(?:fast_)?(\w+?)(?:_r[nzud])?")
_PI = EXTENDED("3.14159265358979323846264338327950288419717")
_TWO_OVER_ROOT_PI = 2 / np.sqrt(np.pi)
_LN2, _LN10 = np.log(2.0), np.log(10.0)
#: Below this size, the series of the error function is used; above it, the continued fraction.
_SERIES_BELOW = 1.0
#: Numbers of terms with which the series and the continued fraction agree with the error function
#: to 66 bits.
_SERIES_TERMS, _FRACTION_TERMS = 40, 300


def _torch(name: str) -> Function:
    """Return a special function of torch as a function of arrays, in float64 only."""

    def compute(x: Any) -> Any:
        import torch

        array = np.array(x, np.float64)
        return getattr(torch.special, name)(torch.from_numpy(array)).numpy()

    return compute


def _pi(x: Any) -> Any:
    """Return the number pi in the precision of an array."""
    return np.asarray(x).dtype.type(_PI)


def _error_function(name: str) -> Function:
    """Return `erf` or `erfc` as a function of arrays; torch provides it only in float64."""
    in_float64 = _torch(name)

    def compute(x: Any) -> Any:
        array = np.asarray(x)
        if array.dtype != EXTENDED:
            return in_float64(array)
        erf, erfc = _extended_erf(np.atleast_1d(array))
        return (erf if name == "erf" else erfc).reshape(array.shape)

    return compute


def _extended_erf(x: Any) -> tuple[Any, Any]:
    """Return erf(x) and erfc(x) in extended precision, each with a small relative error."""
    size = np.abs(x)
    small, large = np.minimum(size, _SERIES_BELOW), np.maximum(size, _SERIES_BELOW)
    # erf(x) = 2 x exp(-x²) / √π · (1 + 2x²/3 + (2x²)²/(3·5) + …): all terms are positive.
    term = np.ones_like(x)
    total = np.ones_like(x)
    for n in range(1, _SERIES_TERMS):
        term = term * (2 * small * small) / (2 * n + 1)
        total += term
    root = np.sqrt(_pi(x))
    series = 2 * small * np.exp(-small * small) / root * total
    # erfc(x) = exp(-x²) / √π · 1/(x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …)))).
    tail = large
    for n in range(_FRACTION_TERMS, 0, -1):
        tail = large + n / (2 * tail)
    fraction = np.exp(-large * large) / root / tail
    is_small = size < _SERIES_BELOW
    erf = np.where(is_small, series, 1 - fraction)
    erfc = np.where(is_small, 1 - series, fraction)
    erf, erfc = np.where(x < 0, -erf, erf), np.where(x < 0, 1 + erf, erfc)
    return np.where(np.isnan(x), x, erf), np.where(np.isnan(x), x, erfc)


_erf, _erfc = _error_function("erf"), _error_function("erfc")
_lgamma, _digamma = _torch("gammaln"), _torch("digamma")


def _rsqrt(x: Any) -> Any:
    return 1.0 / np.sqrt(x)


#: Where a function is not differentiable, its derivative is a one-sided derivative.
UNARY: dict[str, tuple[Function, Function]] = {
    "exp": (np.exp, np.exp),
    "exp2": (np.exp2, lambda x: np.exp2(x) * _LN2),
    "log": (np.log, lambda x: 1 / x),
    "log2": (np.log2, lambda x: 1 / (x * _LN2)),
    "sin": (np.sin, np.cos),
    "cos": (np.cos, lambda x: -np.sin(x)),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "precise_sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "rsqrt": (_rsqrt, lambda x: -0.5 / (x * np.sqrt(x))),
    "erf": (_erf, lambda x: _TWO_OVER_ROOT_PI * np.exp(-x * x)),
    "fabs": (np.abs, np.sign),
    "fneg": (np.negative, lambda x: np.full_like(x, -1.0)),
}


def one_partial(derivative: Function) -> Callable[..., Sequence[Any]]:
    """Return a function that returns a derivative as the only partial derivative."""
    return lambda x: (derivative(x),)


def _hypot_partials(x: Any, y: Any) -> Sequence[Any]:
    length = np.hypot(x, y)
    return x / length, y / length


def _power_partials(x: Any, y: Any) -> Sequence[Any]:
    return y * np.power(x, y - 1), np.power(x, y) * np.log(x)


SEVERAL: dict[str, Smooth] = {
    "fadd": (np.add, lambda x, y: (1.0, 1.0)),
    "fsub": (np.subtract, lambda x, y: (1.0, -1.0)),
    "fmul": (np.multiply, lambda x, y: (y, x)),
    "fdiv": (np.divide, lambda x, y: (1 / y, -x / (y * y))),
    "fma": (lambda x, y, z: x * y + z, lambda x, y, z: (y, x, 1.0)),
}
SEVERAL["precise_divf"] = SEVERAL["approx_divf"] = SEVERAL["fdiv"]

#: Functions of libdevice that are not operations of Triton, by name without precision suffix.
_LIBRARY: dict[str, Smooth] = {
    "expm1": (np.expm1, lambda x: (np.exp(x),)),
    "exp10": (lambda x: np.power(10.0, x), lambda x: (np.power(10.0, x) * _LN10,)),
    "log1p": (np.log1p, lambda x: (1 / (1 + x),)),
    "log10": (np.log10, lambda x: (1 / (x * _LN10),)),
    "tan": (np.tan, lambda x: (1 + np.tan(x) ** 2,)),
    "sinh": (np.sinh, lambda x: (np.cosh(x),)),
    "cosh": (np.cosh, lambda x: (np.sinh(x),)),
    "tanh": (np.tanh, lambda x: (1 / np.cosh(x) ** 2,)),
    "asin": (np.arcsin, lambda x: (1 / np.sqrt(1 - x * x),)),
    "acos": (np.arccos, lambda x: (-1 / np.sqrt(1 - x * x),)),
    "atan": (np.arctan, lambda x: (1 / (1 + x * x),)),
    "asinh": (np.arcsinh, lambda x: (1 / np.sqrt(x * x + 1),)),
    "acosh": (np.arccosh, lambda x: (1 / np.sqrt(x * x - 1),)),
    "atanh": (np.arctanh, lambda x: (1 / (1 - x * x),)),
    "cbrt": (np.cbrt, lambda x: (np.cbrt(x) / (3 * x),)),
    "erfc": (_erfc, lambda x: (-_TWO_OVER_ROOT_PI * np.exp(-x * x),)),
    "lgamma": (_lgamma, lambda x: (_digamma(x),)),
    "sinpi": (lambda x: np.sin(_pi(x) * x), lambda x: (np.pi * np.cos(np.pi * x),)),
    "cospi": (lambda x: np.cos(_pi(x) * x), lambda x: (-np.pi * np.sin(np.pi * x),)),
    "atan2": (
        np.arctan2,
        lambda y, x: (x / (x * x + y * y), -y / (x * x + y * y)),
    ),
    "hypot": (np.hypot, _hypot_partials),
    "pow": (np.power, _power_partials),
    "fma": SEVERAL["fma"],
    **{name: SEVERAL[f"f{name}"] for name in ("add", "sub", "mul", "div")},
    **{name: (function, one_partial(derivative)) for name, (function, derivative) in UNARY.items()},
}

#: Functions that are not available in extended precision.
_ONLY_FLOAT64 = frozenset(("lgamma",))
#: Functions whose results are integers and therefore exact.
_ROUNDING = ("floor", "ceil", "trunc", "rint", "nearbyint", "round")


def library_name(symbol: str) -> str:
    """Return the name of a function of libdevice without its precision, such as `expm1`."""
    match = _SYMBOL.fullmatch(symbol)
    name = match[1] if match else symbol
    supported = (*_LIBRARY, *_ROUNDING)
    return name if name in supported or name.removesuffix("f") not in supported else name[:-1]


def library_function(name: str, *, extended: bool = False) -> Smooth | None:
    """Return a function of libdevice; None if it is not known.

    Args:
        name: Name without a suffix for the precision, such as `expm1`.
        extended: True if the function must compute in extended precision.
    """
    return None if extended and name in _ONLY_FLOAT64 else _LIBRARY.get(name)


def is_rounding(name: str) -> bool:
    """Return whether a function rounds to integers, so that its rounding is not an error."""
    return name in _ROUNDING
