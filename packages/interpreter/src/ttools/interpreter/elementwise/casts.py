"""Casts: integers to floats and back, between floats, and reinterpretation of bits.

Conversions from float to integer saturate as PTX's `cvt` does; an 8-bit result is the low half of
the 16-bit result. NaN becomes 0, or the lowest integer if the source or the target has 64 bits (PTX
ISA, "cvt": NaN input). These results were compared with those of an H200.
"""

from __future__ import annotations

from ttools.interpreter.elementwise.formats import (
    Rounding,
    convert,
    round_bf16,
    round_f64_to_odd,
    widen,
)
from ttools.interpreter.elementwise.vector import BITS, Call, Lowering, Vector
from ttools.ir import FloatType, Type

_BF16 = FloatType("bf16")


def _opcode(name: str) -> Lowering:
    return lambda call: call.operands[0].cast(name, call.result)


# ---- integers and floats
def _to_double_odd(value: Vector, opcode: str) -> Vector:
    """Convert a 32- or 64-bit integer to a double; its last bit is set if the double is inexact."""
    if value.scalar == "i64":
        # If the integer has more than 53 bits, its lower 11 bits are replaced by a single bit that
        # is set if any of them was. This works for negative numbers, too.
        sticky = (value & 0x7FF).compare("ne", 0).cast("zext", "i64") << 11
        rounded = (value & ~0x7FF) | sticky
        if opcode == "sitofp":
            large = (value + (1 << 53)).compare("ugt", 1 << 54)
        else:
            large = value.compare("ugt", 1 << 53)
        value = large.choose(rounded, value)
    return value.cast(opcode, "double")


def _integer_to_float(opcode: str) -> Lowering:
    def lower(call: Call) -> Vector:
        (value,) = call.operands
        if call.target == _BF16:
            if BITS[value.scalar] <= 16:
                return round_bf16(value.cast(opcode, "float"))
            return round_bf16(round_f64_to_odd(_to_double_odd(value, opcode)))
        if call.result == "half":
            # Rounding twice is harmless: integers that f32 cannot represent exactly are larger than
            # the largest f16, so they become infinite.
            return value.cast(opcode, "float").cast("fptrunc", "half")
        return value.cast(opcode, call.result)

    return lower


def float_to_integer(value: Vector, scalar: str, *, signed: bool) -> Vector:
    """Truncate a float or double to an integer; the module's docstring describes saturation.

    LLVM's own saturating conversions are not used, because LLVM computes them lane by lane.
    """
    bits = max(16, BITS[scalar])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    opcode, wide = "fptosi" if signed else "fptoui", f"i{max(32, bits)}"
    nan = value.is_nan()
    if float(high) == high and bits <= {"float": 24, "double": 53}[value.scalar]:
        # The smallest and the largest integer are exact floats, so the value can be clamped to
        # them.
        inside = value.compare("ogt", low).choose(value, low)
        inside = inside.compare("olt", high).choose(inside, high)
        result = nan.choose(inside.coerce(0.0), inside).cast(opcode, wide)
    else:
        fits = value.compare("olt", high + 1) & value.compare("ogt", low if signed else -1)
        result = fits.choose(value, 0.0).cast(opcode, wide)
        result = value.compare("oge", high + 1).choose(result.coerce(high), result)
        if signed:
            result = value.compare("ole", low).choose(result.coerce(low), result)
    if scalar == "i64" or value.scalar == "double":
        result = nan.choose(result.coerce(-(1 << (bits - 1))), result)
    return result.cast("trunc", scalar)


def _float_to_integer(signed: bool) -> Lowering:
    def lower(call: Call) -> Vector:
        (value,) = call.operands
        if value.scalar != "double":
            value = widen(value, call.source)
        return float_to_integer(value, call.result, signed=signed)

    return lower


# ---- between floats
_ROUNDINGS: dict[object, Rounding] = {
    "rtne": "rtne",
    "to_nearest_even": "rtne",
    "rtz": "rtz",
    "toward_zero": "rtz",
}


def _rounding(call: Call) -> Rounding:
    attributes = call.op.attributes
    mode = attributes.get("rounding", attributes.get("roundingmode"))
    if mode is None:
        return "rtne"
    if mode not in _ROUNDINGS:
        raise call.unsupported(f"rounding mode {mode} of {call.op.name}")
    return _ROUNDINGS[mode]


def _lower_float_cast(call: Call) -> Vector:
    return convert(call.operands[0], call.source, call.target, _rounding(call))


# ---- bits
def bitcast(value: Vector, source: Type, target: Type) -> Vector:
    """Reinterpret the bits as another type of the same size."""
    if source == _BF16 != target:
        value = (value.as_int() >> 16).cast("trunc", "i16")
    if target == _BF16 != source:
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
