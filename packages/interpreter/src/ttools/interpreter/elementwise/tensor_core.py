"""Operands of a GPU's tensor cores: f32 as tf32, or as sums of tf32 or bf16 parts.

Tensor cores read the upper 19 bits of an f32, which truncates it. Where Triton splits an operand,
it rounds tf32 with `cvt.rna.tf32.f32` and bf16 to nearest even.
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
    """Return the part of an f32 that a tensor core reads."""
    return (value.as_int() & ~_LOST).as_float()


def round_to_tf32(value: Vector) -> Vector:
    """Round to the nearest tf32, ties away from zero; infinities and NaN stay unchanged.

    A tensor core may cut off all bits that distinguish such a NaN from infinity.
    """
    bits = value.as_int()
    rounded = (bits + ((_LOST + 1) >> 1)) & ~_LOST
    # A carry could turn a NaN into an infinity or a zero.
    finite = value.abs().compare("olt", float("inf"))
    return finite.choose(rounded, bits).as_float()


def _tf32_rest(value: Vector) -> Vector:
    return cut_to_tf32(value - round_to_tf32(value))


def _bf16_rest(value: Vector) -> Vector:
    return value - round_any_bf16(value)


#: Parts by name: `cut` is an f32 as a tensor core reads it; `tf32.N` and `bf16.N` are the N-th part
#: of a sum, the largest first.
PARTS: dict[str, Callable[[Vector], Vector]] = {
    "cut": cut_to_tf32,
    "tf32.0": lambda value: cut_to_tf32(round_to_tf32(value)),
    "tf32.1": _tf32_rest,
    "bf16.0": round_any_bf16,
    "bf16.1": lambda value: round_any_bf16(_bf16_rest(value)),
    "bf16.2": lambda value: round_any_bf16(_bf16_rest(_bf16_rest(value))),
}


def part_of_f32(builder: Builder, value: SSAValue, part: str) -> SSAValue:
    """Return one of `PARTS` of an f32 in registers."""
    return PARTS[part](vector_of(builder, value)).text


def zero_for_nan(builder: Builder, value: SSAValue) -> SSAValue:
    """Replace NaN by 0 in an f32 in registers."""
    vector = vector_of(builder, value)
    return vector.is_nan().choose(vector.coerce(0.0), vector).text
