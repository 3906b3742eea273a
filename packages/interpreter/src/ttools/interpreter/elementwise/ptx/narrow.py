"""Conversions to and from floats of 8 and 4 bits, of scales, and to tf32.

Of pairs the first source is the upper one.  Conversions to `e4m3`, `e5m2` and `e2m1` round to
nearest and saturate; a NaN is the positive NaN, of `e2m1` the largest value ("cvt", PTX ISA).
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.elementwise.formats import narrow, widen
from ttools.interpreter.elementwise.ptx.floating import rectify
from ttools.interpreter.elementwise.ptx.forms import Modifiers, count
from ttools.interpreter.elementwise.ptx.machine import Machine, RefusedPtxError
from ttools.interpreter.elementwise.ptx.syntax import Instruction
from ttools.interpreter.elementwise.ptx.types import TYPES, PtxType, reshape
from ttools.interpreter.elementwise.vector import Vector
from ttools.interpreter.ir import FloatType

_F16 = FloatType("f16")
_KINDS = {"e4m3x2": FloatType("f8E4M3FN"), "e5m2x2": FloatType("f8E5M2")}


def _sources(machine: Machine, instruction: Instruction, source: str) -> list[Vector]:
    """The f32 sources of a pair, the lower one first."""
    if source == "f32":
        _, upper, lower = count(instruction, 3)
        return [machine.read(operand, TYPES["f32"]) for operand in (lower, upper)]
    if source not in ("f16x2", "bf16x2"):
        raise RefusedPtxError("")
    kind = TYPES[source.removesuffix("x2")]
    _, operand = count(instruction, 2)
    both = machine.read(operand, TYPES["b32"])
    parts = both.cast("trunc", "i16"), (both >> 16).cast("trunc", "i16")
    return [_widened(part, kind) for part in parts]


def _widened(bits: Vector, kind: PtxType) -> Vector:
    if kind.is_bf16:
        return (bits.cast("zext", "i32") << 16).as_float()
    return bits.as_float("half").cast("fpext", "float")


def _joined(parts: list[Vector], bits: int, scalar: str) -> Vector:
    """The lower part, and the upper one `bits` above it."""
    low, high = (part.cast("zext", scalar) for part in parts)
    return low | (high << bits)


# ---- 8-bit floats
def _fp8(machine: Machine, modifiers: Modifiers, instruction: Instruction) -> None:
    target, source = instruction.modifiers[-2:]
    if target not in _KINDS:
        _from_fp8(machine, modifiers, instruction)
        return
    if not (modifiers.flag("rn") and modifiers.flag("satfinite")):
        raise RefusedPtxError("only with .rn.satfinite")
    rectifies = modifiers.flag("relu")
    modifiers.end()
    values = _sources(machine, instruction, source)
    codes = [narrow(rectify(v) if rectifies else v, _KINDS[target]) for v in values]
    machine.write_bits(instruction.operands[0], _joined(codes, 8, "i16"), TYPES["b16"])


def _from_fp8(machine: Machine, modifiers: Modifiers, instruction: Instruction) -> None:
    target, source = instruction.modifiers[-2:]
    if target != "f16x2" or not modifiers.flag("rn"):
        raise RefusedPtxError("")
    rectifies = modifiers.flag("relu")
    modifiers.end()
    destination, operand = count(instruction, 2)
    codes = reshape(machine.read(operand, TYPES["b16"]), "i8")
    value = narrow(widen(codes, _KINDS[source]), _F16)
    machine.write(destination, TYPES["f16x2"], rectify(value) if rectifies else value)


# ---- 4-bit floats
#: Between each two magnitudes of e2m1 the middle, and whether it rounds up: to the even one.
_MIDDLES = (
    *((0.25, "ogt"), (0.75, "oge"), (1.25, "ogt"), (1.75, "oge")),
    *((2.5, "ogt"), (3.5, "oge"), (5.0, "ogt")),
)


def _encode_e2m1(value: Vector) -> Vector:
    magnitude = value.abs()
    code = value.lanes.constant(0, "i8")
    for middle, predicate in _MIDDLES:
        code = code + magnitude.compare(predicate, middle).cast("zext", "i8")
    sign = ((value.as_int() >> 28) & 8).cast("trunc", "i8")
    return value.is_nan().choose(code.coerce(7), code | sign)


def _decode_e2m1(code: Vector) -> Vector:
    """As f16: exponent and mantissa are f16's upper ones, but for the bias."""
    wide = code.cast("zext", "i16")
    magnitude = ((wide & 7) << 9).as_float("half").cast("fpext", "float") * 2.0**14
    signed = magnitude.as_int() | ((wide & 8).cast("zext", "i32") << 28)
    return signed.as_float().cast("fptrunc", "half").as_int()


def _fp4(machine: Machine, modifiers: Modifiers, instruction: Instruction) -> None:
    target, source = instruction.modifiers[-2:]
    if target == "e2m1x2":
        if not (modifiers.flag("rn") and modifiers.flag("satfinite")):
            raise RefusedPtxError("only with .rn.satfinite")
        rectifies = modifiers.flag("relu")
        modifiers.end()
        values = _sources(machine, instruction, source)
        codes = [_encode_e2m1(rectify(v) if rectifies else v) for v in values]
        machine.write_bits(instruction.operands[0], _joined(codes, 4, "i8"), TYPES["b8"])
        return
    if target != "f16x2" or not modifiers.flag("rn"):
        raise RefusedPtxError("")
    rectifies = modifiers.flag("relu")
    modifiers.end()
    destination, operand = count(instruction, 2)
    byte = machine.read(operand, TYPES["b8"])
    halves = [_decode_e2m1(byte & 15), _decode_e2m1(byte >> 4)]
    if rectifies:
        halves = [rectify(half.as_float("half")).as_int() for half in halves]
    machine.write_bits(destination, _joined(halves, 16, "i32"), TYPES["b32"])


# ---- scales
def _encode_scale(value: Vector, *, up: bool) -> Vector:
    """The exponent of a magnitude, 2^-127 to 2^127; 0xFF for NaN."""
    bits = value.as_int() & 0x7FFFFFFF
    code = bits >> 23
    if up:
        # A denormal above 2^-127 has code 1; whatever is not above it has code 0.
        rest = bits & 0x7FFFFF
        tiny = code.compare("eq", 0)
        more = tiny.choose(rest.compare("ugt", 0x400000), rest.compare("ne", 0))
        code = code + more.cast("zext", "i32")
    code = code.minimum(0xFE, signed=False)
    return value.is_nan().choose(code.coerce(0xFF), code).cast("trunc", "i8")


def _scale(machine: Machine, modifiers: Modifiers, instruction: Instruction) -> None:
    target, source = instruction.modifiers[-2:]
    if target == "ue8m0x2":
        mode = modifiers.choice("rz", "rp")
        if mode is None or not modifiers.flag("satfinite"):
            raise RefusedPtxError("only with .rz.satfinite or .rp.satfinite")
        modifiers.end()
        values = _sources(machine, instruction, source)
        codes = [_encode_scale(value, up=mode == "rp") for value in values]
        machine.write_bits(instruction.operands[0], _joined(codes, 8, "i16"), TYPES["b16"])
        return
    if target != "bf16x2" or not modifiers.flag("rn"):
        raise RefusedPtxError("")
    modifiers.end()
    destination, operand = count(instruction, 2)
    exponent = reshape(machine.read(operand, TYPES["b16"]), "i8").cast("zext", "i32")
    bits = exponent.compare("eq", 0).choose(exponent.coerce(0x400000), exponent << 23)
    bits = exponent.compare("eq", 0xFF).choose(exponent.coerce(0x7FFF0000), bits)
    machine.write(destination, TYPES["bf16x2"], bits.as_float())


# ---- tf32
def _tf32(machine: Machine, modifiers: Modifiers, instruction: Instruction) -> None:
    """A float whose lower 13 bits are 0: to nearest even, to nearest away from 0, or toward 0."""
    if instruction.modifiers[-2:] != ("tf32", "f32"):
        raise RefusedPtxError("")
    mode = modifiers.choice("rn", "rna", "rz")
    finite = modifiers.flag("satfinite")
    if mode is None or finite:
        raise RefusedPtxError("modifier .satfinite" if finite else "without a rounding mode")
    rectifies = modifiers.flag("relu")
    modifiers.end()
    destination, operand = count(instruction, 2)
    value = machine.read(operand, TYPES["f32"])
    bits = value.as_int()
    half = {"rn": ((bits >> 13) & 1) + 0xFFF, "rna": bits.coerce(0x1000), "rz": bits.coerce(0)}
    finite_bits = (bits + half[mode]) & ~0x1FFF
    # A NaN keeps its bits, or the carry could make it an infinity's or a zero's.
    special = value.abs().compare("olt", float("inf"))
    result = special.choose(finite_bits, bits).as_float()
    machine.write(destination, TYPES["f32"], rectify(result) if rectifies else result)


#: Conversions by the narrow type among the two.
NARROW: dict[str, Callable[[Machine, Modifiers, Instruction], None]] = {
    "e4m3x2": _fp8,
    "e5m2x2": _fp8,
    "e2m1x2": _fp4,
    "ue8m0x2": _scale,
    "tf32": _tf32,
}
