"""Denormals of f32 where a GPU takes them for zeros: Triton lets libdevice flush them.

`tl`'s functions that are instructions with `.ftz`, or come from libdevice, flush too; plain
arithmetic, casts and loads do not. Other formats keep theirs everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.elementwise.vector import Vector

_SMALLEST_NORMAL = 2.0**-126
_SIGN = -(1 << 31)

#: Functions of f32 that take denormals as they are, by their names without prefix and suffix.
_KEEPING = frozenset(
    (
        *("trunc", "rint", "nearbyint", "copysign", "fdim", "log", "log2", "log10"),
        *("float_as_int", "float_as_uint", "int_as_float", "uint_as_float", "signbit"),
    )
)


def flushed(value: Vector) -> Vector:
    """Zeros of the same sign in place of an f32's denormals."""
    if value.scalar != "float":
        return value
    tiny = value.abs().compare("olt", _SMALLEST_NORMAL)
    return tiny.choose((value.as_int() & _SIGN).as_float(), value)


def flushing(function: Callable[..., Vector]) -> Callable[..., Vector]:
    """A function that flushes its operands and its result."""
    return lambda *arguments: flushed(function(*map(flushed, arguments)))


def flushing_operands(function: Callable[..., Vector]) -> Callable[..., Vector]:
    """A function that flushes its operands, and never has a denormal result."""
    return lambda *arguments: function(*map(flushed, arguments))


def flushes(name: str, *, fast: bool) -> bool:
    """Whether libdevice's function of this name flushes denormals of f32.

    Args:
        name: as in `libdevice`'s table.
        fast: the function is one of the fast ones, which are instructions.
    """
    return fast or name not in _KEEPING
