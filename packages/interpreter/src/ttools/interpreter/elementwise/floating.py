"""Float arithmetic: IEEE operations, minimum and maximum, rounding to integers, square roots.

The result of every operation on f16 and bf16 is rounded. LLVM must not fuse operations: if a launch
allows fused multiply-adds, `analysis/contraction.py` has already created them.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.elementwise.denormals import flushed, flushing_operands
from ttools.interpreter.elementwise.formats import FP8, convert, round_bf16
from ttools.interpreter.elementwise.vector import Call, Lowering, Vector
from ttools.ir import FloatType

_BF16 = FloatType("bf16")
_F64 = FloatType("f64")


def rounded(call: Call, value: Vector) -> Vector:
    """Round the result of arithmetic if its type is bf16."""
    return round_bf16(value) if call.target == _BF16 else value


def _arithmetic(opcode: str) -> Lowering:
    def lower(call: Call) -> Vector:
        a, b = call.operands
        return rounded(call, a.binary(opcode, b))

    return lower


def _unrounded(function: Callable[..., Vector]) -> Callable[[Call], Vector]:
    """Return a lowering of a function whose result needs no rounding.

    f16 is computed in f32, because LLVM would scalarise it.
    """

    def lower(call: Call) -> Vector:
        if call.operands[0].scalar != "half":
            return function(*call.operands)
        wide = (v.cast("fpext", "float") for v in call.operands)
        return function(*wide).cast("fptrunc", "half")

    return lower


def _intrinsic(name: str) -> Callable[..., Vector]:
    return lambda *arguments: arguments[0].lanes.intrinsic(name, *arguments)


def _to_integral(name: str) -> Callable[[Call], Vector]:
    """Return a lowering that rounds to an integral value.

    An f16 is computed in f32. Numbers of 2^11 or more are integral, and are selected unchanged.
    Without this select, LLVM would recognise an operation on `half` and compute it lane by lane.
    """

    def function(x: Vector) -> Vector:
        return x.abs().compare("olt", 2.0**11).choose(x.lanes.intrinsic(name, x), x)

    def lower(call: Call) -> Vector:
        if call.operands[0].scalar == "half":
            return _unrounded(function)(call)
        return call.lanes.intrinsic(name, *map(flush, call.operands))

    flush = flushed if name in _LIBDEVICE_ROUNDING else _identity
    return lower


#: Functions that `tl` takes from libdevice.
_LIBDEVICE_ROUNDING = ("floor", "ceil")


def _identity(value: Vector) -> Vector:
    return value


# ---- minimum and maximum
def _extremum(a: Vector, b: Vector, predicate: str, zeros: str) -> Vector:
    """Return a minimum or maximum in which -0 is less than +0; `b` if either operand is NaN.

    Args:
        predicate: The comparison that selects `a`.
        zeros: The operation, `and` or `or`, that combines the signs of two zeros. It is applied to
            the bits of all equal operands, which are the same unless the operands are zeros.
    """
    value = a.compare(predicate, b).choose(a, b)
    same = a.as_int().binary(zeros, b.as_int()).as_float(a.scalar)
    return a.compare("oeq", b).choose(same, value)


def maximum_number(a: Vector, b: Vector) -> Vector:
    """Return the IEEE 754-2019 `maximumNumber`, which is NaN only if both operands are."""
    return b.is_nan().choose(a, _extremum(a, b, "ogt", "and"))


def minimum_number(a: Vector, b: Vector) -> Vector:
    """Return the IEEE 754-2019 `minimumNumber`, which is NaN only if both operands are."""
    return b.is_nan().choose(a, _extremum(a, b, "olt", "or"))


def maximum(a: Vector, b: Vector) -> Vector:
    """Return the IEEE 754-2019 `maximum`, which is NaN if either operand is."""
    return a.is_nan().choose(a, _extremum(a, b, "ogt", "and"))


def minimum(a: Vector, b: Vector) -> Vector:
    """Return the IEEE 754-2019 `minimum`, which is NaN if either operand is."""
    return a.is_nan().choose(a, _extremum(a, b, "olt", "or"))


def _clamp(call: Call) -> Vector:
    if call.op.attributes.get("propagateNan") in ("all", 0xFFFF):
        return _unrounded(lambda x, low, high: minimum(maximum(x, low), high))(call)
    return _unrounded(lambda x, low, high: minimum_number(maximum_number(x, low), high))(call)


# ---- roots and others
def _lower_negf(call: Call) -> Vector:
    (value,) = call.operands
    return value ^ _fp8_sign(value, call) if str(call.source) in FP8 else -value


def _lower_absf(call: Call) -> Vector:
    (value,) = call.operands
    if str(call.source) in FP8:
        return value ^ (value & _fp8_sign(value, call))
    return value.abs()


def _fp8_sign(value: Vector, call: Call) -> Vector:
    """Return the bits to flip for negating an fp8 number.

    This is the sign bit, but 0 for a zero in the FNUZ formats, in which 0x80 is NaN.
    """
    sign = value.coerce(-128)
    if not FP8[str(call.source)].unsigned_zero:
        return sign
    return (value & 0x7F).compare("eq", 0).choose(value.coerce(0), sign)


def _lower_sqrt(call: Call) -> Vector:
    # For 16-bit types, the root is computed in f32 and rounded again. For square roots, rounding
    # twice gives the correctly rounded result.
    return rounded(call, _unrounded(flushing_operands(_intrinsic("sqrt")))(call))


def _lower_precise_sqrt(call: Call) -> Vector:
    return rounded(call, _unrounded(_intrinsic("sqrt"))(call))


def _lower_rsqrt(call: Call) -> Vector:
    (value,) = call.operands
    if call.result == "half":
        wide = value.cast("fpext", "float")
        return (1.0 / call.lanes.intrinsic("sqrt", wide)).cast("fptrunc", "half")
    return rounded(call, 1.0 / call.lanes.intrinsic("sqrt", flushed(value)))


def _lower_fma(call: Call) -> Vector:
    a, b, c = call.operands
    negated = call.op.attributes.get("negated")
    if negated in ("product", "both"):
        a = -a
    if negated in ("addend", "both"):
        c = -c
    if call.source in (_BF16, FloatType("f16")):
        return fused_16_bits(a, b, c, bf16=call.source == _BF16)
    return call.lanes.fma(a, b, c)


def fused_16_bits(a: Vector, b: Vector, c: Vector, *, bf16: bool) -> Vector:
    """Return `a * b + c` of f16 or bf16, rounded once."""
    if bf16:  # a product of two bf16 may exceed the exponent range of f32
        exact = _fma_to_odd(*(v.cast("fpext", "double") for v in (a, b, c)))
        return convert(exact, _F64, _BF16)
    return _fma_to_odd(*(v.cast("fpext", "float") for v in (a, b, c))).cast("fptrunc", "half")


def _fma_to_odd(a: Vector, b: Vector, c: Vector) -> Vector:
    """Return `a * b + c` rounded to odd, for f16 converted to f32 or bf16 converted to f64.

    The product is exact. Knuth's two-sum computes the rounding error of the sum. If the error is
    not 0, the last bit of the result is set, so that rounding to 16 bits afterwards gives the same
    number as rounding the exact sum once.
    """
    product = a * b
    total = product + c
    other = total - product
    error = (product - (total - other)) + (c - other)
    bits = total.as_int()
    inexact = error.compare("one", 0.0) & (bits & 1).compare("eq", 0)
    # Step toward the exact sum: to a larger magnitude if error and sum have the same sign.
    outward = (error.as_int() ^ bits).compare("sge", 0)
    return inexact.choose(outward.choose(bits + 1, bits - 1), bits).as_float(a.scalar)


FLOATING: dict[str, Lowering] = {
    "arith.addf": _arithmetic("fadd"),
    "arith.subf": _arithmetic("fsub"),
    "arith.mulf": _arithmetic("fmul"),
    "arith.divf": _arithmetic("fdiv"),
    "tt.precise_divf": _arithmetic("fdiv"),
    "tt.approx_divf": _arithmetic("fdiv"),  # a GPU's result is within 2 ulp
    "arith.negf": _lower_negf,
    "arith.maxnumf": _unrounded(maximum_number),
    "arith.minnumf": _unrounded(minimum_number),
    "arith.maximumf": _unrounded(maximum),
    "arith.minimumf": _unrounded(minimum),
    "tt.clampf": _clamp,
    "math.clampf": _unrounded(lambda x, low, high: minimum(maximum(x, low), high)),
    "math.absf": _lower_absf,
    **{
        f"math.{name}": _to_integral(name)
        for name in ("floor", "ceil", "trunc", "round", "roundeven")
    },
    "math.copysign": _unrounded(_intrinsic("copysign")),
    "math.fma": _lower_fma,
    "math.sqrt": _lower_sqrt,
    "tt.precise_sqrt": _lower_precise_sqrt,
    "math.rsqrt": _lower_rsqrt,
}
