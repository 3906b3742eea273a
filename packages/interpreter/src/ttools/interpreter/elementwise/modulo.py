"""`fmod` of f32 in vectors, exactly: long division in double, 28 bits of the quotient a step.

A step subtracts `trunc(r / d) * d` with `d = |y| * 2^k`.  The quotient has at most 30 bits and d
24, so the fused product cancels exactly; a quotient that rounding made one too large is mended.
"""

from __future__ import annotations

from ttools.interpreter.elementwise.vector import Vector
from ttools.interpreter.llvm.value import Label

_STEP = 28
_INFINITY = float("inf")


def _subtract_multiple(r: Vector, d: Vector) -> Vector:
    """`r mod d` of non-negative doubles whose quotient has at most 30 bits."""
    lanes = r.lanes
    quotient = lanes.intrinsic("trunc", r / d)
    rest = lanes.fma(-quotient, d, r)
    return rest.compare("olt", 0.0).choose(rest + d, rest)


def _exponent(x: Vector) -> Vector:
    return (x.as_int() >> 52) & 0x7FF


def _long_division(r: Vector, d: Vector) -> Vector:
    """`r mod d` of any non-negative finite doubles that were f32, d not 0."""
    builder = r.lanes.builder
    head, body, done = Label("divide.head"), Label("divide.body"), Label("divided")
    builder.branch(head)
    builder.start(head)
    left = builder.open_phi("left", r.text, Label("start"))
    current = r.lanes.value(left.value)
    excess = _exponent(current) - _exponent(d)
    long = excess.compare("sgt", _STEP)
    builder.cond_branch(long.any_lane(), body, done)
    builder.start(body)
    shift = long.choose(excess - _STEP, 0)
    scaled = (d.as_int() + (shift << 52)).as_float("double")
    shorter = long.choose(_subtract_multiple(current, scaled), current)
    builder.branch(head)
    left.add(shorter.text, body)
    builder.start(done)
    return _subtract_multiple(current, d)


def fmod(x: Vector, y: Vector) -> Vector:
    """C's `fmod` of two f32 vectors, as the body of a function of its own."""
    lanes = x.lanes
    lanes.builder.start(Label("start"))
    defined = x.abs().compare("olt", _INFINITY) & y.compare("one", 0.0)
    # Where the result is not a remainder, divide something harmless.
    dividend = (defined & y.abs().compare("olt", _INFINITY)).choose(x.abs(), 0.0)
    divisor = dividend.compare("ogt", 0.0).choose(y.abs(), 1.0)
    value = _long_division(dividend.cast("fpext", "double"), divisor.cast("fpext", "double"))
    rest = lanes.intrinsic("copysign", value.cast("fptrunc", "float"), x)
    rest = y.abs().compare("oeq", _INFINITY).choose(x, rest)
    return defined.choose(rest, rest.coerce(float("nan")))
