"""Denormals of f32 in libdevice's functions, which Triton compiles to flush them to zero.

Functions of `tl` flush denormals of f32 if they are compiled to instructions with `.ftz` or call
libdevice. Arithmetic, casts and loads do not, and denormals of other formats are never flushed. The
exceptions in the tables were measured on an H200 (Triton 3.6.0). They exist because some functions
treat an operand as a denormal in one step and as zero in the next.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.elementwise.vector import Vector

Function = Callable[..., Vector]

_SMALLEST_NORMAL = 2.0**-126
_SIGN = -(1 << 31)

#: Functions of libdevice that keep denormals, by their names in `libdevice`'s table.
_KEEPING = frozenset(
    (
        *("trunc", "rint", "nearbyint", "copysign", "fdim", "log", "log2", "log10", "exp", "exp10"),
        *("erfinv", "normcdf", "pow"),
        *("float_as_int", "float_as_uint", "int_as_float", "uint_as_float", "signbit"),
    )
)
#: Functions that flush their operands, but not their results.
_FLUSHING_OPERANDS = frozenset(
    (
        *("fmod", "remainder", "nextafter", "ldexp", "scalbn", "j1"),
        *("rhypot", "rnorm3d", "rnorm4d"),
    )
)


def _nothing(x: Vector) -> Vector:
    return x.coerce(float("nan"))


def _logarithmic(x: Vector) -> Vector:
    return x.compare("olt", 0.0).choose(x.coerce(float("nan")), -float("inf"))


#: Results of some functions for denormal operands that are neither kept nor treated as zeros.
_SPECIAL: dict[str, Callable[[Vector], Vector]] = {
    **dict.fromkeys(("sinpi", "log1p", "expm1"), lambda x: x.coerce(0.0)),
    **dict.fromkeys(("cbrt", "rcbrt"), _nothing),
    **dict.fromkeys(("y0", "y1"), _logarithmic),
    **dict.fromkeys(("ldexp", "scalbn"), lambda x: x + x),
    "tgamma": lambda x: x.compare("ogt", 0.0).choose(x.coerce(float("inf")), 1.0 / x),
    "logb": lambda x: x.coerce(-150.0),
}


def _is_denormal(value: Vector) -> Vector:
    return value.abs().compare("olt", _SMALLEST_NORMAL) & value.compare("une", 0.0)


def flushed(value: Vector) -> Vector:
    """Replace the denormals of an f32 by zeros of the same sign."""
    if value.scalar != "float":
        return value
    tiny = value.abs().compare("olt", _SMALLEST_NORMAL)
    return tiny.choose((value.as_int() & _SIGN).as_float(), value)


def flushing(function: Function) -> Function:
    """Return a function that flushes its operands and its result."""
    return lambda *arguments: flushed(function(*map(flushed, arguments)))


def flushing_operands(function: Function) -> Function:
    """Return a function that flushes its operands."""
    return lambda *arguments: function(*map(flushed, arguments))


def as_in_libdevice(name: str, function: Function, *, fast: bool) -> Function:
    """Return a function that treats denormals as libdevice does.

    Args:
        name: The name in `libdevice`'s table.
        function: Computes the function with denormals as in IEEE 754.
        fast: True for fast functions, which are single instructions.
    """
    if name in _KEEPING and not fast:
        return function
    if name == "normcdfinv":  # doubles its operand first
        return lambda x: function(flushed(x + x) * 0.5)
    if name == "pow":  # multiplies by the exponent without flushing it
        return lambda x, y: flushed(function(flushed(x), y))
    usual = flushing_operands(function) if name in _FLUSHING_OPERANDS else flushing(function)
    special = _SPECIAL.get(name)
    if special is None:
        return usual

    def with_special(x: Vector, *others: Vector) -> Vector:
        value = usual(x, *others)
        return _is_denormal(x).choose(special(x), value) if x.scalar == "float" else value

    return with_special
