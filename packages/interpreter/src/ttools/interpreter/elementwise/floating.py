"""Float arithmetic: IEEE operations, minimum and maximum, rounding to integers, square roots.

Every operation on f16 and bf16 rounds.  Only fmul, fadd and fsub take the builder's fp flags, so
that a fused multiply-add appears where the launch allows it and nowhere else.
"""

from __future__ import annotations

from ttools.interpreter.elementwise.formats import convert, round_bf16, widen
from ttools.interpreter.elementwise.vector import Call, Lowering, Vector
from ttools.interpreter.ir import FloatType

_BF16 = FloatType("bf16")
_F64 = FloatType("f64")


def rounded(call: Call, value: Vector) -> Vector:
    """The float result of arithmetic on operands of the same type, rounded if it is bf16."""
    return round_bf16(value) if call.target == _BF16 else value


def _arithmetic(opcode: str, *, contractible: bool) -> Lowering:
    def lower(call: Call) -> Vector:
        a, b = call.operands
        flags = call.lanes.builder.fp_flags if contractible else ""
        return rounded(call, a.binary(f"{opcode} {flags}".strip(), b))

    return lower


def _exact(name: str) -> Lowering:
    """An intrinsic whose result needs no rounding, even in bf16."""
    return lambda call: call.lanes.intrinsic(name, *call.operands)


def _lower_negf(call: Call) -> Vector:
    return -call.operands[0]


def _lower_remf(call: Call) -> Vector:
    """Fmod is exact, so computing it in f32 rounds nothing away."""
    a, b = (widen(v, call.source) if v.scalar == "half" else v for v in call.operands)
    value = a.binary("frem", b)
    return value.cast("fptrunc", call.result) if call.result == "half" else value


def _lower_sqrt(call: Call) -> Vector:
    return rounded(call, call.lanes.intrinsic("sqrt", *call.operands))


def _lower_rsqrt(call: Call) -> Vector:
    (value,) = call.operands
    if call.result == "half":
        wide = value.cast("fpext", "float")
        return (1.0 / call.lanes.intrinsic("sqrt", wide)).cast("fptrunc", "half")
    return rounded(call, 1.0 / call.lanes.intrinsic("sqrt", value))


def _lower_fma(call: Call) -> Vector:
    a, b, c = call.operands
    if call.source in (_BF16, FloatType("f16")):
        return convert(
            _fma_to_odd(*(v.cast("fpext", "double") for v in (a, b, c))), _F64, call.target
        )
    return call.lanes.fma(a, b, c)


def _fma_to_odd(a: Vector, b: Vector, c: Vector) -> Vector:
    """`a * b + c` of 16-bit floats held as doubles, rounded to odd.

    The product is exact; the sum's rounding error is found by Knuth's two-sum and turned into a
    sticky last bit, so that rounding to 16 bits afterwards is as if done once.
    """
    product = a * b
    total = product + c
    other = total - product
    error = (product - (total - other)) + (c - other)
    bits = total.as_int()
    inexact = error.compare("one", 0.0) & (bits & 1).compare("eq", 0)
    # Toward the error: up in magnitude where both have the same sign.
    outward = (error.as_int() ^ bits).compare("sge", 0)
    return inexact.choose(outward.choose(bits + 1, bits - 1), bits).as_float("double")


def _lower_clampf(call: Call) -> Vector:
    value, low, high = call.operands
    propagate = call.op.attributes.get("propagateNan") in ("all", 0xFFFF)
    if propagate:
        return call.lanes.intrinsic("minimum", call.lanes.intrinsic("maximum", value, low), high)
    return call.lanes.intrinsic("minimumnum", call.lanes.intrinsic("maximumnum", value, low), high)


FLOATING: dict[str, Lowering] = {
    "arith.addf": _arithmetic("fadd", contractible=True),
    "arith.subf": _arithmetic("fsub", contractible=True),
    "arith.mulf": _arithmetic("fmul", contractible=True),
    "arith.divf": _arithmetic("fdiv", contractible=False),
    "tt.precise_divf": _arithmetic("fdiv", contractible=False),
    "arith.remf": _lower_remf,
    "arith.negf": _lower_negf,
    # "num" drops a NaN operand, the others propagate it; -0 is below +0 in both.
    "arith.maxnumf": _exact("maximumnum"),
    "arith.minnumf": _exact("minimumnum"),
    "arith.maximumf": _exact("maximum"),
    "arith.minimumf": _exact("minimum"),
    "tt.clampf": _lower_clampf,
    "math.absf": _exact("fabs"),
    "math.floor": _exact("floor"),
    "math.ceil": _exact("ceil"),
    "math.trunc": _exact("trunc"),
    "math.roundeven": _exact("roundeven"),
    "math.round": _exact("round"),
    "math.copysign": _exact("copysign"),
    "math.fma": _lower_fma,
    "math.sqrt": _lower_sqrt,
    "tt.precise_sqrt": _lower_sqrt,
    "math.rsqrt": _lower_rsqrt,
}
