"""Sine, cosine and tangent of f32, computed in double, with an error of at most 0.51 ulp.

In double, the range reduction is simple: with pi as the sum of two doubles, `x - n * pi` is exact
enough for arguments of up to 2^36, which is far more than kernels usually pass. If a lane of a
vector is larger, a branch is taken that reduces the vector with a table of `2^e / pi` modulo 2
(Payne and Hanek's method).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

from ttools.interpreter.elementwise.libm import call_doubles
from ttools.interpreter.elementwise.vector import Lanes, Vector
from ttools.interpreter.llvm.builder import float_literal
from ttools.interpreter.llvm.value import TRUE, Label, SSAValue, zeros

_PI = (3.141592653589793, 1.2246467991473532e-16)
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_ROUND = 1.5 * 2**52
_REDUCIBLE = 2.0**36

# (sin r - r) / r^3 as a polynomial in r^2 on |r| <= pi/2, error 2^-35.3
_SIN = (
    *(-2.3888661564797825e-08, 2.752537066524501e-06, -0.00019840867948618316),
    *(0.008333331106672677, -0.16666666626106577),
)
# (tan r - r) / r^3 as a polynomial in r^2 on |r| <= pi/4, error 2^-37.2
_TAN = (
    *(0.0009508813351474537, -0.0005723171361304857, 0.0023898062473774106),
    *(0.0031598483864837086, 0.008983696779803794, 0.021849488972727215),
    *(0.05397011547067662, 0.13333324893831877, 0.3333333346441755),
)


def _odd_series(r: Vector, coefficients: Sequence[float]) -> Vector:
    """Return `r + r^3 * series(r^2)`, computed as a product with r, so that -0 stays -0."""
    square = r * r
    return r * r.lanes.fma(r.lanes.polynomial(square, coefficients), square, 1.0)


# ---- range reduction
# floor(2^320 / pi), which has enough bits for the largest f32 and a result of two doubles
_INVERSE_PI = int(
    "517cc1b727220a94fe13abe8fa9a6ee06db14acc9e21c820ff28b1d5ef5de2b0db92371d2126e970",
    16,
)
# The first entry is for f32s with this exponent field, whose last bit has the value 2^(163 - 150).
_FIRST_EXPONENT = 163
_ENTRIES = 94


@cache
def _inverse_pi_table() -> tuple[str, str]:
    """Return two LLVM arrays of `2^e / pi` modulo 2 in [-1, 1), as upper and lower doubles."""
    highs, lows = [], []
    for entry in range(_ENTRIES):
        exponent = _FIRST_EXPONENT - 150 + entry
        value = Fraction((_INVERSE_PI << exponent) % (1 << 321), 1 << 320)
        value -= 2 if value >= 1 else 0
        high = float(value)
        highs.append(f"double {float_literal(high, 'double')}")
        lows.append(f"double {float_literal(float(value - Fraction(high)), 'double')}")
    return ", ".join(highs), ", ".join(lows)


def _look_up(name: str, body: str, index: Vector) -> Vector:
    """Return `table[index]` in every lane."""
    lanes: Lanes = index.lanes
    builder = lanes.builder
    array = f"[{_ENTRIES} x double]"
    builder.define(name, f"@{name} = internal unnamed_addr constant {array} [{body}]")
    kind = lanes.type("ptr")
    address = builder.element("double", SSAValue(f"@{name}", "ptr"), index.text, inbounds=False)
    if lanes.width == 1:
        return lanes.value(builder.load("double", address))
    every = builder.splat(TRUE, lanes.width)
    full = f"llvm.masked.gather.{lanes.suffix('double')}.v{lanes.width}p0"
    out = lanes.type("double")
    builder.declare(full, f"{out} ({kind}, {lanes.type('i1')}, {out})")
    pointers = (f"{kind} align 8", address)
    return lanes.value(builder.call(out, f"@{full}", pointers, every, zeros(out)))


def _multiple_of_pi(x: Vector, entry: int) -> tuple[Vector, Vector]:
    """Return `x * 2^entry / pi` modulo 2 for large f32s, as the sum of two doubles."""
    lanes = x.lanes
    bits = x.as_int()
    index = ((bits >> 23) & 0xFF) - (_FIRST_EXPONENT - entry)
    index = index.maximum(0).minimum(_ENTRIES - 1).cast("zext", "i64")
    mantissa = ((bits & 0x7FFFFF) | 0x800000).cast("sitofp", "double")
    mantissa = x.compare("olt", 0.0).choose(-mantissa, mantissa)
    highs, lows = _inverse_pi_table()
    high = _look_up("ttools.inverse_pi.high", highs, index)
    low = _look_up("ttools.inverse_pi.low", lows, index)
    product = mantissa * high
    return product, lanes.fma(mantissa, low, lanes.fma(mantissa, high, -product))


def _merge(block: Label, other: Label, a: Vector, b: Vector) -> Vector:
    return a.lanes.value(a.lanes.builder.phi((a.text, block), (b.text, other)))


def _reduce(x: Vector, *, halves: int, offset: float) -> tuple[Vector, Vector]:
    """Return `(r, k)` with `x = (k + offset) * period + r` and r within half a period of 0.

    Args:
        x: The arguments, as f32.
        halves: 0 for a period of pi, 1 for pi / 2.
        offset: 0, or 0.5 for the cosine, whose zeros are halfway between multiples of pi.

    Returns:
        r as a double, and an i64 with the same lowest bit as k. For infinities and NaN, r is NaN
        and k is arbitrary.
    """
    lanes: Lanes = x.lanes
    builder = lanes.builder
    upper, lower = (_PI, _HALF_PI)[halves]
    wide = x.cast("fpext", "double")

    def nearest(cycles: Vector) -> tuple[Vector, Vector]:
        shifted = (cycles - offset if offset else cycles) + _ROUND
        n = shifted - _ROUND
        return n + offset if offset else n, shifted.as_int()

    n, k = nearest(wide * (1 / upper))
    r = lanes.fma(n, -lower, lanes.fma(n, -upper, wide))
    large = x.abs().compare("ogt", _REDUCIBLE) & x.abs().compare("olt", float("inf"))

    # This code is in the block `start`, which `_of_float` began.
    slow, join = Label("reduce.large"), Label("reduced")
    builder.cond_branch(large.any_lane(), slow, join)
    builder.start(slow)
    cycles, rest = _multiple_of_pi(x, halves)
    large_n, large_k = nearest(cycles)
    large_r = ((cycles - large_n) + rest) * upper
    slow_r, slow_k = large.choose(large_r, r), large.choose(large_k, k)
    builder.branch(join)
    builder.start(join)
    before = Label("start")
    return _merge(slow, before, slow_r, r), _merge(slow, before, slow_k, k)


# ---- functions
def _flip(value: Vector, odd: Vector) -> Vector:
    """Negate `value` if the lowest bit of the i64 `odd` is set."""
    return (value.as_int() ^ (odd << 63)).as_float("double")


def _sin(x: Vector) -> Vector:
    r, k = _reduce(x, halves=0, offset=0.0)
    return _flip(_odd_series(r, _SIN), k)


def _cos(x: Vector) -> Vector:
    # cos((k + 1/2) * pi + r) = -sin(r) * (-1)^k
    r, k = _reduce(x, halves=0, offset=0.5)
    return _flip(_odd_series(r, _SIN), ~k)


def _tan(x: Vector) -> Vector:
    r, k = _reduce(x, halves=1, offset=0.0)
    value = _odd_series(r, _TAN)
    return (k & 1).compare("ne", 0).choose(-1.0 / value, value)


def _of_float(function: Callable[[Vector], Vector]) -> Callable[[Vector], Vector]:
    """Return the body of a function of f32 that computes in double and rounds."""

    def body(x: Vector) -> Vector:
        x.lanes.builder.start(Label("start"))
        return function(x).cast("fptrunc", "float")

    return body


def _of_half_turns(offset: float) -> Callable[[Vector], Vector]:
    """Return the function `sin(pi * x)`, or `cos(pi * x)` for an offset of 1/2."""

    def evaluate(x: Vector) -> Vector:
        lanes = x.lanes
        # Reduce modulo 2, which is exact, and then find the nearest k + offset.
        cycles = x - lanes.intrinsic("roundeven", x * 0.5) * 2.0
        k = lanes.intrinsic("roundeven", cycles - offset)
        # Near the zeros of the function, this difference is exact, because k + offset is subtracted
        # in one step. Subtracting the offset first could round.
        r = (cycles - (k + offset)).cast("fpext", "double") * _PI[0]
        if x.scalar == "double":
            value = call_doubles("sin", r)
        else:
            value = _odd_series(r, _SIN).cast("fptrunc", "float")
        odd = k.abs().compare("oeq", 1.0)
        value = (odd if offset == 0 else ~odd).choose(-value, value)
        zero = value.coerce(0.0)
        signed_zero = zero if offset else lanes.intrinsic("copysign", zero, x)
        return value.compare("oeq", 0.0).choose(signed_zero, value)

    return evaluate


SINPI = _of_half_turns(0.0)
COSPI = _of_half_turns(0.5)
SIN = _of_float(_sin)
COS = _of_float(_cos)
TAN = _of_float(_tan)
