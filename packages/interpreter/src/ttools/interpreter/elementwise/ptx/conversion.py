"""`cvt`: conversions between all types of numbers, and pairs of floats packed into a register.

The last two modifiers of a conversion name its types. They include narrow float types, of which a
register contains a pair (`e4m3x2`: two bytes). If a conversion has two sources, the first becomes
the upper part ("cvt" in the PTX ISA). Conversions to `e4m3`, `e5m2` and `e2m1` round to nearest and
saturate; a NaN becomes the positive NaN, or in `e2m1` the largest value.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.elementwise.casts import float_to_integer
from ttools.interpreter.elementwise.directed import directed
from ttools.interpreter.elementwise.floating import maximum_number, minimum_number
from ttools.interpreter.elementwise.formats import Rounding, convert, narrow, widen
from ttools.interpreter.elementwise.ptx.floating import ROUNDINGS, flush, rectify, saturate
from ttools.interpreter.elementwise.ptx.forms import Modifiers, count
from ttools.interpreter.elementwise.ptx.machine import Machine, RefusedPtxError
from ttools.interpreter.elementwise.ptx.syntax import Instruction
from ttools.interpreter.elementwise.ptx.types import TYPES, PtxType, reshape
from ttools.interpreter.elementwise.vector import Vector
from ttools.ir import FloatType

_F16 = FloatType("f16")
_KINDS = {"e4m3x2": FloatType("f8E4M3FN"), "e5m2x2": FloatType("f8E5M2")}


def _sources(machine: Machine, instruction: Instruction, source: str) -> list[Vector]:
    """Return the f32 sources of a pair, the lower one first."""
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
    """Join two parts, the lower one first; the upper one is shifted by `bits`."""
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
#: The midpoints between neighbouring magnitudes of e2m1. The predicate is `oge` if the midpoint
#: itself is rounded up, because the larger magnitude has an even code.
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
    """Convert to f16, whose exponent and mantissa bits are the same except for the bias."""
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
    """Return the exponent of a magnitude, clamped to 2^-127 to 2^127, as a byte; 0xFF for NaN.

    Args:
        value: The numbers; their sign is ignored.
        up: If True, round up to the next power of two, else down.
    """
    bits = value.as_int() & 0x7FFFFFFF
    code = bits >> 23
    if up:
        # A denormal above 2^-127 has code 1; others have code 0.
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
    """Round to tf32, a float whose lower 13 bits are 0.

    The mode `rn` rounds to nearest with ties to even, `rna` to nearest with ties away from 0, and
    `rz` toward 0.
    """
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
    # A NaN keeps its bits, because a carry could turn it into an infinity or a zero.
    special = value.abs().compare("olt", float("inf"))
    result = special.choose(finite_bits, bits).as_float()
    machine.write(destination, TYPES["f32"], rectify(result) if rectifies else result)


#: Conversions from and to narrow types, by the narrow type.
NARROW: dict[str, Callable[[Machine, Modifiers, Instruction], None]] = {
    "e4m3x2": _fp8,
    "e5m2x2": _fp8,
    "e2m1x2": _fp4,
    "ue8m0x2": _scale,
    "tf32": _tf32,
}


_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_UNTYPED = ("pred", "b8", "b16", "b32", "b64")
_PAIR_OF = {"f16x2": "f16", "bf16x2": "bf16"}


def _convert(machine: Machine, instruction: Instruction) -> None:
    """Translate `cvt` according to its last two type names."""
    words = instruction.modifiers
    if len(words) >= 2:
        target, source = words[-2:]
        modifiers = Modifiers(
            Instruction("cvt", words[:-2], instruction.operands, None, instruction.text)
        )
        if target in NARROW or source in NARROW:
            NARROW[target if target in NARROW else source](machine, modifiers, instruction)
            return
        if target in _PAIR_OF and source == "f32":
            _pair(machine, modifiers, instruction, target)
            return
        if target in TYPES and source in TYPES:
            _scalar(machine, modifiers, instruction, TYPES[target], TYPES[source])
            return
    raise RefusedPtxError("")


def _scalar(
    machine: Machine,
    modifiers: Modifiers,
    instruction: Instruction,
    target: PtxType,
    source: PtxType,
) -> None:
    if any(type.parts > 1 or type.name in _UNTYPED for type in (target, source)):
        raise RefusedPtxError("")
    destination, operand = count(instruction, 2)
    value = machine.read(operand, source, low=True)
    rule = _RULES[source.is_float, target.is_float]
    result = rule(modifiers, value, source, target)
    modifiers.end()
    machine.write(destination, target, result, extend=True)


# ---- integers
def _integers(modifiers: Modifiers, value: Vector, source: PtxType, target: PtxType) -> Vector:
    if modifiers.flag("sat"):
        return _clamp_integer(value, source, target)
    if target.bits < source.bits:
        return value.cast("trunc", target.scalar)
    return value.cast("sext" if source.signed else "zext", target.scalar)


def _clamp_integer(value: Vector, source: PtxType, target: PtxType) -> Vector:
    """Clamp an integer to the range of the target type, and convert it to this type."""
    if max(source.bits, target.bits) == 64 and source.signed != target.signed:
        raise RefusedPtxError("modifier .sat between 64-bit types")
    wide = value.cast("sext" if source.signed else "zext", "i64")
    low = -(1 << (target.bits - 1)) if target.signed else 0
    high = (1 << (target.bits - target.signed)) - 1
    if target.bits < 64 or source.bits < 64:
        signed = source.signed or source.bits < 64
        if signed:
            wide = wide.maximum(low)
        if target.bits < 64:
            wide = wide.minimum(high, signed=signed)
    return wide.cast("trunc", target.scalar)


def _to_float(modifiers: Modifiers, value: Vector, source: PtxType, target: PtxType) -> Vector:
    mode = ROUNDINGS[modifiers.choice(*ROUNDINGS) or "rn"]
    opcode = "sitofp" if source.signed else "uitofp"
    if target.bits == 16:
        if mode != "rn" or target.is_bf16 or source.bits > 32:
            raise RefusedPtxError("")
        # Rounding twice is harmless: integers that f32 cannot represent exactly are larger than
        # the largest f16, so they become infinite.
        result = value.cast(opcode, "float").cast("fptrunc", "half")
    elif mode == "rn":
        result = value.cast(opcode, target.scalar)
    else:
        result = directed(opcode, mode, value, result=target.scalar)
    return saturate(result) if modifiers.flag("sat") else result


# ---- floats
def _to_integral(modifiers: Modifiers, value: Vector) -> Vector | None:
    mode = modifiers.choice(*_TO_INTEGRAL)
    if mode is None:
        return None
    return value.lanes.intrinsic(_TO_INTEGRAL[mode], value)


def _to_integer(modifiers: Modifiers, value: Vector, source: PtxType, target: PtxType) -> Vector:
    if source.scalar == "half":
        value = value.cast("fpext", "float")
    if source.scalar == "float" and modifiers.flag("ftz"):
        value = flush(value)
    integral = _to_integral(modifiers, value)
    if integral is None:
        raise RefusedPtxError("without a rounding mode")
    modifiers.flag("sat")  # conversions to integers always saturate
    if target.bits > 8:
        return float_to_integer(integral, target.scalar, signed=target.signed)
    wide = float_to_integer(integral, "i32", signed=target.signed)
    low, high = (-128, 127) if target.signed else (0, 255)
    if target.signed:
        wide = wide.maximum(low)
    return wide.minimum(high, signed=target.signed).cast("trunc", "i8")


def _mlir(type: PtxType) -> FloatType:
    return FloatType(type.name)


def _floats(modifiers: Modifiers, value: Vector, source: PtxType, target: PtxType) -> Vector:
    if source.scalar == "float" and not source.is_bf16 and modifiers.flag("ftz"):
        value = flush(value)
    if source == target:
        if value.scalar == "half":
            wide = value.cast("fpext", "float")
            result = (_to_integral(modifiers, wide) or wide).cast("fptrunc", "half")
        else:
            result = _to_integral(modifiers, value) or value
    else:
        result = _rounded(modifiers, value, source, target)
    if target.bits == 16 and modifiers.flag("relu"):
        result = rectify(result)
    return saturate(result) if modifiers.flag("sat") else result


def _rounded(modifiers: Modifiers, value: Vector, source: PtxType, target: PtxType) -> Vector:
    mode = modifiers.choice("rn", "rz", "rm", "rp")
    if target.bits > source.bits or mode in (None, "rn"):
        return convert(value, _mlir(source), _mlir(target))
    if mode == "rz":
        return convert(value, _mlir(source), _mlir(target), "rtz")
    if target.scalar == "float" and not target.is_bf16:
        return directed("fptrunc", ROUNDINGS[mode], value, result="float")
    raise RefusedPtxError(f"modifier .{mode}")


_RULES: dict[tuple[bool, bool], Callable[[Modifiers, Vector, PtxType, PtxType], Vector]] = {
    (False, False): _integers,
    (False, True): _to_float,
    (True, False): _to_integer,
    (True, True): _floats,
}


# ---- pairs
def _pair(machine: Machine, modifiers: Modifiers, instruction: Instruction, name: str) -> None:
    """Translate `cvt.rn.bf16x2.f32 d, a, b`; a becomes the upper half of d, b the lower."""
    mode: Rounding = "rtz" if modifiers.flag("rz") else "rtne"
    modifiers.flag("rn")
    rectifies, finite = modifiers.flag("relu"), modifiers.flag("satfinite")
    modifiers.end()
    destination, *operands = count(instruction, 3)
    half, f32 = TYPES[_PAIR_OF[name]], TYPES["f32"]
    result = None
    for shift, operand in ((16, operands[0]), (0, operands[1])):
        value = machine.read(operand, f32)
        if finite:
            largest = 65504.0 if name == "f16x2" else float.fromhex("0x1.fep127")
            bounded = minimum_number(
                maximum_number(value, value.coerce(-largest)), value.coerce(largest)
            )
            value = value.is_nan().choose(value, bounded)
        value = narrow(rectify(value) if rectifies else value, _mlir(half), mode)
        part = _bits(value, half).cast("zext", "i32")
        part = part << shift if shift else part
        result = part if result is None else result | part
    assert result is not None
    machine.write_bits(destination, result, TYPES["b32"])


def _bits(value: Vector, type: PtxType) -> Vector:
    if type.is_bf16:
        return (value.as_int() >> 16).cast("trunc", "i16")
    return value.as_int()


def _pack(machine: Machine, instruction: Instruction) -> None:
    """Translate `cvt.pack.sat.dtype.s32{.b32} d, a, b{, c}`.

    The result consists, from the lowest bits, of b, of a, and of the low part of c.
    """
    words = instruction.modifiers[1:]
    if len(words) < 3 or words[0] != "sat" or words[2] != "s32" or words[3:] not in ((), ("b32",)):
        raise RefusedPtxError("")
    target = TYPES.get(words[1])
    if target is None or target.is_float or target.parts > 1 or target.bits not in (8, 16):
        raise RefusedPtxError("")
    s32 = TYPES["s32"]
    destination, *operands = count(instruction, 3 if len(words) == 3 else 4)
    parts = [
        _clamp_integer(machine.read(o, s32), s32, target).cast("zext", "i32") for o in operands[:2]
    ]
    result = parts[1] | (parts[0] << target.bits)
    if len(operands) == 3 and target.bits == 8:
        result = result | (machine.read(operands[2], TYPES["b32"]) << 16)
    machine.write_bits(destination, result, TYPES["b32"])


def lower_cvt(machine: Machine, instruction: Instruction) -> None:
    """Translate `cvt` and `cvt.pack`."""
    if instruction.modifiers[:1] == ("pack",):
        _pack(machine, instruction)
    else:
        _convert(machine, instruction)
