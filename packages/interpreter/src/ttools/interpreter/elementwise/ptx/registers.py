"""The registers of inline assembly: constraints, and how elements of tensors fill registers.

Each instance of the assembly computes `pack` elements. Elements shorter than 32 bits share
registers of 32 bits, the first element in the lowest bits. For example, with `pack=4`, an operand
occupies one register if its elements have 8 bits, two for 16 bits, and four for 32 bits.
Results are packed in the same way (Triton's `ElementwiseInlineAsmOpConversion`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ttools.interpreter.elementwise.casts import bitcast
from ttools.interpreter.elementwise.ptx.types import reshape
from ttools.interpreter.elementwise.vector import BITS, Lanes, Vector, vector_of
from ttools.interpreter.llvm.value import poison, vector_type
from ttools.ir import FloatType, IntegerType, PointerType, Type

_SIZES = {"b": 1, "c": 8, "h": 16, "r": 32, "f": 32, "l": 64, "d": 64}
_BF16 = FloatType("bf16")


class ConstraintError(Exception):
    """The constraints do not match the operands, or are of an unsupported kind."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """A constraint string.

    Attributes:
        outputs: Size of each output register in bits.
        inputs: Size of each input register in bits.
        tied: Maps the index of each input that shares a register with an output to the index of
            that output.
    """

    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    tied: dict[int, int]


def parse_constraints(text: str) -> Constraints:
    """Parse a string such as `=r,=r,r,0,~{memory}`.

    Raises:
        ConstraintError: The string has a constraint that PTX registers do not have.
    """
    outputs: list[int] = []
    inputs: list[int] = []
    tied: dict[int, int] = {}
    for item in (part.strip() for part in text.split(",")):
        if not item or item.startswith("~"):
            continue
        if item.startswith("="):
            outputs.append(_size(item[1:].lstrip("&"), text))
        elif item.isdigit() and int(item) < len(outputs):
            tied[len(inputs)] = int(item)
            inputs.append(outputs[int(item)])
        else:
            inputs.append(_size(item, text))
    return Constraints(tuple(outputs), tuple(inputs), tied)


def _size(letter: str, text: str) -> int:
    if letter not in _SIZES:
        raise ConstraintError(f'constraint "{letter}" in "{text}"')
    return _SIZES[letter]


def element_bits(type: Type) -> int:
    """Return the number of bits of an element in inline assembly; pointers have 64."""
    if isinstance(type, PointerType):
        return 64
    assert isinstance(type, IntegerType | FloatType)
    return type.width


def per_register(type: Type, pack: int) -> int:
    """Return the number of elements that share a register."""
    return min(max(32 // element_bits(type), 1), pack)


def fill(value: Vector, type: Type, pack: int) -> list[Vector]:
    """Return the registers that contain an operand, with one lane per instance.

    Args:
        value: The elements; their number is a multiple of `pack`.
        type: The type of an element.
        pack: The number of elements that an instance computes.
    """
    share = per_register(type, pack)
    bits = bitcast(value, type, IntegerType(16)) if type == _BF16 else value.as_int()
    width = value.lanes.width
    registers = []
    for start in range(0, pack, share):
        chosen = [lane for lane in range(width) if start <= lane % pack < start + share]
        builder = value.lanes.builder
        part = vector_of(builder, builder.shuffle(bits.text, chosen))
        registers.append(reshape(part, f"i{share * element_bits(type)}"))
    return registers


def empty(registers: list[Vector], type: Type, pack: int, lanes: Lanes) -> Vector:
    """Unpack the elements of a result from the registers that contain them.

    Args:
        registers: The registers, with one lane per instance.
        type: The type of an element.
        pack: The number of elements that an instance computes.
        lanes: The lanes of the result.
    """
    share = per_register(type, pack)
    scalar = f"i{element_bits(type)}"
    parts = [reshape(_resized(r, share * element_bits(type)), scalar) for r in registers]
    order = [
        (lane % pack // share) * parts[0].lanes.width + lane // pack * share + lane % share
        for lane in range(lanes.width)
    ]
    value = lanes.value(lanes.builder.shuffle(_concatenated(parts).text, order))
    if type == _BF16:
        return bitcast(value, IntegerType(16), _BF16)
    return value


def _resized(register: Vector, bits: int) -> Vector:
    return register.cast("trunc" if bits < BITS[register.scalar] else "zext", f"i{bits}")


def _concatenated(parts: list[Vector]) -> Vector:
    """Concatenate vectors of the same width, whose number is a power of two."""
    while len(parts) > 1:
        parts = [_pair(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _pair(a: Vector, b: Vector) -> Vector:
    builder, width = a.lanes.builder, a.lanes.width
    if width == 1:
        half = builder.insert(poison(vector_type(a.scalar, 2)), a.text, 0)
        return vector_of(builder, builder.insert(half, b.text, 1))
    return vector_of(builder, builder.shuffled(a.text, b.text, range(2 * width), 2 * width))
