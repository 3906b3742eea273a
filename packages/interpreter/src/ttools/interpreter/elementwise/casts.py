"""Casts: integers to floats and back, between floats, and reinterpretation of bits.

Float to integer saturates as PTX's `cvt` does.  NaN becomes 0, but the lowest integer where
either side has 64 bits (PTX ISA, "cvt": NaN input).  8- and 16-bit integers take the low bits of
a saturated 32-bit one.
"""

from __future__ import annotations

from ttools.interpreter.elementwise.formats import Rounding, convert, round_bf16, widen
from ttools.interpreter.elementwise.vector import BITS, Call, Lowering, Vector
from ttools.interpreter.ir import FloatType, Type

_BF16 = FloatType("bf16")


def _is_bf16(type: Type) -> bool:
    return type == _BF16


def _opcode(name: str) -> Lowering:
    return lambda call: call.operands[0].cast(name, call.result)


# ---- integers and floats
def _integer_to_float(opcode: str) -> Lowering:
    def lower(call: Call) -> Vector:
        (value,) = call.operands
        if _is_bf16(call.target):
            return round_bf16(value.cast(opcode, "float"))
        if call.result == "half":
            return value.cast(opcode, "float").cast("fptrunc", "half")
        return value.cast(opcode, call.result)

    return lower


def float_to_integer(value: Vector, scalar: str, *, signed: bool) -> Vector:
    """A float (or double) truncated to an integer, saturating; see the module's docstring."""
    wide = scalar if BITS[scalar] >= 32 else "i32"
    name = "fptosi.sat" if signed else "fptoui.sat"
    result = value.lanes.intrinsic(name, value, result=wide)
    if wide == "i64" or value.scalar == "double":
        lowest = -(1 << (BITS[wide] - 1))
        result = value.is_nan().choose(result.coerce(lowest), result)
    return result.cast("trunc", scalar)


def _float_to_integer(signed: bool) -> Lowering:
    def lower(call: Call) -> Vector:
        (value,) = call.operands
        if value.scalar != "double":
            value = widen(value, call.source)
        return float_to_integer(value, call.result, signed=signed)

    return lower


# ---- between floats
def _rounding(call: Call) -> Rounding:
    mode = call.op.attributes.get("rounding", call.op.attributes.get("roundingmode"))
    return "rtz" if mode in ("rtz", "toward_zero", 0) and mode is not False else "rtne"


def _lower_float_cast(call: Call) -> Vector:
    return convert(call.operands[0], call.source, call.target, _rounding(call))


# ---- bits
def bitcast(value: Vector, source: Type, target: Type) -> Vector:
    """The same bits as another type of the same size."""
    if _is_bf16(source) and not _is_bf16(target):
        value = (value.as_int() >> 16).cast("trunc", "i16")
    if _is_bf16(target) and not _is_bf16(source):
        return (value.as_int().cast("zext", "i32") << 16).as_float()
    return value


def _lower_bitcast(call: Call) -> Vector:
    value = bitcast(call.operands[0], call.source, call.target)
    return value.cast("bitcast", call.result)


def _lower_index_cast(call: Call) -> Vector:
    (value,) = call.operands
    bits, target = BITS[value.scalar], BITS[call.result]
    widening = "zext" if call.op.name.endswith("ui") else "sext"
    return value.cast(widening if target > bits else "trunc", call.result)


def _same(call: Call) -> Vector:
    return call.operands[0]


CASTS: dict[str, Lowering] = {
    "arith.extsi": _opcode("sext"),
    "arith.extui": _opcode("zext"),
    "arith.trunci": _opcode("trunc"),
    "arith.sitofp": _integer_to_float("sitofp"),
    "arith.uitofp": _integer_to_float("uitofp"),
    "arith.fptosi": _float_to_integer(signed=True),
    "arith.fptoui": _float_to_integer(signed=False),
    "arith.extf": _lower_float_cast,
    "arith.truncf": _lower_float_cast,
    "tt.fp_to_fp": _lower_float_cast,
    "arith.bitcast": _lower_bitcast,
    "tt.bitcast": _lower_bitcast,
    "arith.index_cast": _lower_index_cast,
    "arith.index_castui": _lower_index_cast,
    "tt.int_to_ptr": _same,
    "tt.ptr_to_int": _same,
}
