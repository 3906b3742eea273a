"""How a GPU's tensor cores take f32 operands: as tf32, or as sums of tf32 or bf16 parts.

Tensor cores read the upper 19 bits of an f32, which cuts it off toward zero; where Triton takes
an operand apart, it rounds tf32 with `cvt.rna.tf32.f32` and bf16 to nearest even.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.elementwise.formats import round_any_bf16
from ttools.interpreter.elementwise.vector import Vector, vector_of
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue

#: The bits of an f32 that tf32 lacks.
_LOST = 0x1FFF


def cut_to_tf32(value: Vector) -> Vector:
    """What a tensor core reads of an f32."""
    return (value.as_int() & ~_LOST).as_float()


def round_to_tf32(value: Vector) -> Vector:
    """The nearest tf32, of two the one away from zero; infinities and NaN stay as they are.

    What a tensor core then cuts off may be all that made a NaN one: to it that is an infinity.
    """
    bits = value.as_int()
    rounded = (bits + ((_LOST + 1) >> 1)) & ~_LOST
    # The carry could make a NaN's bits those of an infinity or a zero.
    finite = value.abs().compare("olt", float("inf"))
    return finite.choose(rounded, bits).as_float()


def _tf32_rest(value: Vector) -> Vector:
    return cut_to_tf32(value - round_to_tf32(value))


def _bf16_rest(value: Vector) -> Vector:
    return value - round_any_bf16(value)


#: Parts by name: `cut`, what a tensor core makes of an f32 by itself; `tf32.N` and `bf16.N`, the
#: N-th part of a sum, the largest first.
PARTS: dict[str, Callable[[Vector], Vector]] = {
    "cut": cut_to_tf32,
    "tf32.0": lambda value: cut_to_tf32(round_to_tf32(value)),
    "tf32.1": _tf32_rest,
    "bf16.0": round_any_bf16,
    "bf16.1": lambda value: round_any_bf16(_bf16_rest(value)),
    "bf16.2": lambda value: round_any_bf16(_bf16_rest(_bf16_rest(value))),
}


def part_of_f32(builder: Builder, value: SSAValue, part: str) -> SSAValue:
    """One of `PARTS` of an f32 in registers."""
    return PARTS[part](vector_of(builder, value)).text


def zero_for_nan(builder: Builder, value: SSAValue) -> SSAValue:
    """An f32 in registers, with 0 in place of NaN."""
    vector = vector_of(builder, value)
    return vector.is_nan().choose(vector.coerce(0.0), vector).text
