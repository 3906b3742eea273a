"""The `math` dialect's functions: polynomials for f32 and shorter types, libm for most of f64.

f16 and bf16 are computed in f32, and the result is rounded. `fmod` of f32 is exact. It is computed
by long division in double, which determines 28 bits of the quotient per step: a step subtracts
`trunc(r / d) * d` from the remainder `r`, with `d = |y| * 2^k`. The truncated quotient has at most
30 bits and d has 24, so a fused multiply-add computes the difference exactly. If rounding made the
quotient too large by one, the difference is negative and d is added again.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.elementwise.denormals import flushed, flushing, flushing_operands
from ttools.interpreter.elementwise.formats import narrow, widen
from ttools.interpreter.elementwise.libm import FUNCTIONS, call_libm
from ttools.interpreter.elementwise.power import power
from ttools.interpreter.elementwise.transcendental import POLYNOMIALS, POLYNOMIALS_F64
from ttools.interpreter.elementwise.vector import BITS, Call, Lowering, Vector
from ttools.interpreter.llvm.value import Label

_STEP = 28
_INFINITY = float("inf")


def _subtract_multiple(r: Vector, d: Vector) -> Vector:
    """Return `r mod d` for non-negative doubles whose quotient has at most 30 bits."""
    lanes = r.lanes
    quotient = lanes.intrinsic("trunc", r / d)
    rest = lanes.fma(-quotient, d, r)
    return rest.compare("olt", 0.0).choose(rest + d, rest)


def _exponent(x: Vector) -> Vector:
    return (x.as_int() >> 52) & 0x7FF


def _long_division(r: Vector, d: Vector) -> Vector:
    """Return `r mod d` for non-negative finite doubles that were converted from f32; d is not 0."""
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
    """Return C's `fmod` of two f32 vectors. It must be the body of an LLVM function."""
    lanes = x.lanes
    lanes.builder.start(Label("start"))
    defined = x.abs().compare("olt", _INFINITY) & y.compare("one", 0.0)
    # In lanes whose result is not computed by division, 0 is divided by 1 instead.
    dividend = (defined & y.abs().compare("olt", _INFINITY)).choose(x.abs(), 0.0)
    divisor = dividend.compare("ogt", 0.0).choose(y.abs(), 1.0)
    value = _long_division(dividend.cast("fpext", "double"), divisor.cast("fpext", "double"))
    rest = lanes.intrinsic("copysign", value.cast("fptrunc", "float"), x)
    rest = y.abs().compare("oeq", _INFINITY).choose(x, rest)
    return defined.choose(rest, rest.coerce(float("nan")))


#: A function of floats or doubles.
Function = Callable[..., Vector]

_OF_TWO: dict[str, Function] = {"pow": power, "fmod": fmod}


def evaluate(name: str, *arguments: Vector) -> Vector:
    """Apply the function `name` of C's math.h to floats or doubles."""
    first = arguments[0]
    if first.scalar == "double" and name in POLYNOMIALS_F64:
        return first.lanes.function(name, "double", POLYNOMIALS_F64[name], first)
    if first.scalar == "float":
        if name in POLYNOMIALS:
            return first.lanes.function(name, "float", POLYNOMIALS[name], first)
        if name in _OF_TWO:
            return first.lanes.function(name, "float", _OF_TWO[name], *arguments)
    return call_libm(name, *arguments)


def in_f32(function: Function) -> Lowering:
    """Return a lowering that computes 16-bit floats in f32 and rounds the result."""

    def lower(call: Call) -> Vector:
        if call.operands[0].scalar == "double":
            return function(*call.operands)
        wide = [widen(value, call.source) for value in call.operands]
        return narrow(function(*wide), call.target)

    return lower


def _named(name: str) -> Lowering:
    return in_f32(lambda *arguments: evaluate(name, *arguments))


def _class_test(is_member: Callable[[Vector], Vector]) -> Lowering:
    return lambda call: is_member(call.operands[0])


def _fpowi(call: Call) -> Vector:
    base, exponent = call.operands
    wide = exponent.cast("sitofp", "double")
    if base.scalar == "double":
        return call_libm("pow", base, wide)
    value = call_libm("pow", widen(base, call.source).cast("fpext", "double"), wide)
    return narrow(value.cast("fptrunc", "float"), call.target)


def _ipowi(call: Call) -> Vector:
    """Compute powers by squaring; a negative power of 0 is all ones, as in MLIR's expansion."""
    base, exponent = call.operands
    bits = BITS[base.scalar]

    def evaluate(x: Vector, n: Vector) -> Vector:
        result = x.coerce(1)
        square, rest = x, n
        for _ in range(bits - 1):
            result = (rest & 1).compare("ne", 0).choose(result * square, result)
            square, rest = square * square, rest >> 1
        sign = (n & 1).compare("ne", 0).choose(x, 1)
        inverse = x.compare("eq", 1).choose(x.coerce(1), 0)
        inverse = x.compare("eq", -1).choose(sign, inverse)
        inverse = x.compare("eq", 0).choose(x.coerce(-1), inverse)
        return n.compare("slt", 0).choose(inverse, result)

    return base.lanes.function("ipowi", base.scalar, evaluate, base, exponent, inline=False)


def _remainder(x: Vector, y: Vector) -> Vector:
    """Return the result of LLVM's `frem` on a GPU, which computes `x - trunc(x / y) * y`.

    It equals C's `fmod` only if the truncated quotient is exact.
    """
    rest = x.lanes.fma(-x.lanes.intrinsic("trunc", x / y), y, x)
    return y.abs().compare("oeq", float("inf")).choose(x, rest)


def _sincos(call: Call) -> tuple[Vector, ...]:
    both = (_named("sin")(call), _named("cos")(call))
    return tuple(v for v in both if isinstance(v, Vector))


def _is_normal(x: Vector) -> Vector:
    smallest = {"half": 2.0**-14, "float": 2.0**-126, "double": 2.0**-1022}[x.scalar]
    magnitude = x.abs()
    return magnitude.compare("oge", smallest) & magnitude.compare("olt", float("inf"))


MATHEMATICS: dict[str, Lowering] = {
    # The dialect's names are those of C, except for `math.powf`.
    **{f"math.{name}": _named(name) for name in FUNCTIONS},
    "arith.remf": in_f32(_remainder),
    "math.powf": _named("pow"),
    "math.exp2": in_f32(lambda x: flushed(evaluate("exp2", x))),
    "math.erf": in_f32(flushing(lambda x: evaluate("erf", x))),
    "math.sin": in_f32(flushing_operands(lambda x: evaluate("sin", x))),
    "math.fpowi": _fpowi,
    "math.ipowi": _ipowi,
    "math.sincos": _sincos,
    "math.isnormal": _class_test(_is_normal),
    "math.isnan": _class_test(lambda x: x.is_nan()),
    "math.isinf": _class_test(lambda x: x.abs().compare("oeq", float("inf"))),
    "math.isfinite": _class_test(lambda x: x.abs().compare("olt", float("inf"))),
}
