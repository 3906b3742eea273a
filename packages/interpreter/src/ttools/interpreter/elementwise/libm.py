"""Calls of the C library's functions of doubles, one lane at a time.

For each C function, a function with a loop over the lanes is generated, so that a call needs only a
few instructions in the code of the kernel. Floats are converted to double before the call, and the
result is rounded to float, so that the results of f32 functions are almost correctly rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ttools.interpreter.elementwise.vector import Vector

#: Functions of doubles that every supported C library has.
FUNCTIONS = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    *("cbrt", "erf", "erfc", "tgamma", "lgamma", "j0", "j1", "y0", "y1"),
    *("pow", "atan2", "hypot", "fmod", "remainder"),
)


def _declaration(arguments: tuple[Vector, ...]) -> str:
    kinds = ", ".join(a.scalar for a in arguments)
    # The functions are declared as pure, although they set errno, because nothing reads errno.
    return f"double ({kinds}) nounwind willreturn memory(none)"


def _define_loop(name: str, symbol: str, arguments: tuple[Vector, ...]) -> str:
    """Define a function on vectors that calls `symbol` for each lane."""
    lanes = arguments[0].lanes
    result = lanes.type("double")
    parameters = ", ".join(f"{a.type} %a{i}" for i, a in enumerate(arguments))
    spills, loads = [], []
    for i, a in enumerate(arguments):
        spills += [f"  %p{i} = alloca {a.type}", f"  store {a.type} %a{i}, ptr %p{i}"]
        loads += [
            f"  %q{i} = getelementptr {a.scalar}, ptr %p{i}, i64 %i",
            f"  %v{i} = load {a.scalar}, ptr %q{i}",
        ]
    passed = ", ".join(f"{a.scalar} %v{i}" for i, a in enumerate(arguments))
    return "\n".join(
        [
            f"define internal {result} @{name}({parameters}) noinline minsize nounwind {{",
            "entry:",
            *spills,
            f"  %out = alloca {result}",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %entry], [%next, %loop]",
            *loads,
            f"  %r = call double @{symbol}({passed})",
            "  %o = getelementptr double, ptr %out, i64 %i",
            "  store double %r, ptr %o",
            "  %next = add i64 %i, 1",
            f"  %more = icmp ult i64 %next, {lanes.width}",
            "  br i1 %more, label %loop, label %exit",
            "exit:",
            f"  %result = load {result}, ptr %out",
            f"  ret {result} %result",
            "}",
        ]
    )


def call_doubles(symbol: str, *arguments: Vector) -> Vector:
    """Call `symbol` in every lane; arguments are doubles or i32s, and the result is a double."""
    lanes = arguments[0].lanes
    lanes.builder.declare(symbol, _declaration(arguments))
    name = symbol
    if lanes.width > 1:
        name = f"ttools.libm.{symbol}.{lanes.suffix('double')}"
        if name not in lanes.builder.definitions:
            lanes.builder.define(name, _define_loop(name, symbol, arguments))
    return lanes.call("double", f"@{name}", *arguments)


def in_double(function: Callable[..., Vector], *arguments: Vector) -> Vector:
    """Call a function of doubles on floats; the result has the type of the first float."""
    scalar = next(a.scalar for a in arguments if a.is_float)
    wide = [a.cast("fpext", "double") if a.is_float else a for a in arguments]
    return function(*wide).cast("fptrunc", scalar)


def call_libm(symbol: str, *arguments: Vector) -> Vector:
    """Call `symbol` on floats or doubles; the result has the type of the first float."""
    return in_double(partial(call_doubles, symbol), *arguments)
