"""PTX's types, and conversions between the bits of registers and vectors of these types.

A register is a vector of integers with one lane per instance of the assembly. A value of a packed
type such as `f16x2` is a vector with one lane per part, which is twice as many lanes. Therefore one
LLVM instruction computes all parts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ttools.interpreter.elementwise.casts import bitcast
from ttools.interpreter.elementwise.formats import round_any_bf16
from ttools.interpreter.elementwise.vector import BITS, Lanes, Vector, vector_of
from ttools.interpreter.llvm.value import vector_type
from ttools.ir import FloatType, IntegerType

_BF16, _I16 = FloatType("bf16"), IntegerType(16)


@dataclass(frozen=True, slots=True)
class PtxType:
    """A type by its name in an instruction.

    Attributes:
        name: The name without the dot.
        scalar: The LLVM type in which one part is computed; `float` for bf16.
        bits: The size of one part in bits.
        parts: The number of parts; 2 for packed types.
        signed: True for signed integers; untyped bits are unsigned.
    """

    name: str
    scalar: str
    bits: int
    parts: int = 1
    signed: bool = False

    @property
    def total(self) -> int:
        """Return the number of bits of all parts, which is the size of the register."""
        return self.bits * self.parts

    @property
    def is_float(self) -> bool:
        return self.scalar in ("half", "float", "double")

    @property
    def is_bf16(self) -> bool:
        return self.name.startswith("bf16")


def _integers() -> list[PtxType]:
    types = [
        PtxType(f"{kind}{bits}", f"i{bits}", bits, signed=kind == "s")
        for kind in "bus"
        for bits in (8, 16, 32, 64)
    ]
    packed = [PtxType(f"{kind}16x2", "i16", 16, 2, kind == "s") for kind in "us"]
    return [PtxType("pred", "i1", 1), *types, *packed]


def _floats() -> list[PtxType]:
    return [
        *(PtxType(f"f{b}", s, b) for b, s in ((16, "half"), (32, "float"), (64, "double"))),
        PtxType("bf16", "float", 16),
        PtxType("f16x2", "half", 16, 2),
        PtxType("bf16x2", "float", 16, 2),
        PtxType("f32x2", "float", 32, 2),
    ]


#: Types by name. `conversion.py` has further types, which only conversions use.
TYPES: dict[str, PtxType] = {type.name: type for type in (*_integers(), *_floats())}


def reshape(value: Vector, scalar: str) -> Vector:
    """Reinterpret the bits of every lane as elements of another size.

    Args:
        scalar: The LLVM type of the new elements; if they are smaller, there are more lanes.
    """
    width = value.lanes.width * BITS[value.scalar] // BITS[scalar]
    builder = value.lanes.builder
    return vector_of(builder, builder.bitcast(value.text, vector_type(scalar, width)))


def from_bits(bits: Vector, type: PtxType) -> Vector:
    """Return a register's bits as a value of `type`."""
    if type.parts > 1:
        bits = reshape(bits, f"i{type.bits}")
    if type.is_bf16:
        return bitcast(bits, _I16, _BF16)
    return bits.as_float(type.scalar) if type.is_float else bits


def to_bits(value: Vector, type: PtxType, lanes: Lanes) -> Vector:
    """Return a value of `type` as a register's bits; bf16 is rounded."""
    bits = bitcast(round_any_bf16(value), _BF16, _I16) if type.is_bf16 else value.as_int()
    if type.parts == 1:
        return bits
    return lanes.value(lanes.builder.bitcast(bits.text, lanes.type(f"i{type.total}")))


def literal_bits(text: str, type: PtxType) -> int | None:
    """Return the bits of a literal used as a value of `type`; None where PTX does not define it.

    "Constants" in the PTX ISA defines these bits: `0f` and `0d` are followed by the bits of a float
    or double; other floats are doubles that are rounded to the type; an integer is not a valid
    float.
    """
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text)
    prefix = body[:2].lower()
    if prefix in ("0f", "0d"):
        size = 32 if prefix == "0f" else 64
        bits = int(body[2:], 16) ^ (1 << (size - 1) if sign < 0 else 0)
        if type.is_bf16 or type.parts > 1 or type.scalar == "half":
            return None
        if type.bits == size:
            return bits
        if prefix == "0f" and type.scalar == "double":
            return int(*struct.unpack("<Q", struct.pack("<d", _float_of(bits))))
        return None
    if "." in body or ("e" in body.lower() and prefix != "0x"):
        if type.scalar == "float" and type.parts == 1 and not type.is_bf16:
            return int(*struct.unpack("<I", struct.pack("<f", sign * float(body))))
        if type.scalar == "double":
            return int(*struct.unpack("<Q", struct.pack("<d", sign * float(body))))
        return None
    if type.is_float:
        return None
    return (sign * _integer(body.rstrip("U"))) & ((1 << type.total) - 1)


def _float_of(bits: int) -> float:
    return float(*struct.unpack("<f", struct.pack("<I", bits)))


def _integer(text: str) -> int:
    if text[:2].lower() in ("0x", "0b"):
        return int(text, 0)
    return int(text, 8 if len(text) > 1 and text.startswith("0") else 10)
