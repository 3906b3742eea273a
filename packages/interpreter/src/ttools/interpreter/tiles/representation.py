"""Conversions between three representations of an element: in registers, in memory, and widened.

The first two are defined by `register_type` and `memory_type` in `llvm/builder.py`. The widened
representation is used for the operands of matrix products.
"""

from __future__ import annotations

import ttools.interpreter.elementwise as elementwise
from ttools.interpreter.llvm.builder import Builder, register_type
from ttools.interpreter.llvm.value import SSAValue
from ttools.ir import FloatType, IntegerType, Type


def widened_type(element: Type) -> str:
    """Return the LLVM type of operands of a matrix product.

    This is f32 for floats of up to 32 bits, i16 for i8, and i32 for other narrow integers.
    """
    if isinstance(element, FloatType):
        return "double" if element.name == "f64" else "float"
    assert isinstance(element, IntegerType)
    return {8: "i16", 64: "i64"}.get(element.width, "i32")


def from_memory(b: Builder, raw: SSAValue, element: Type) -> SSAValue:
    """Convert a loaded value to the register representation."""
    if element == IntegerType(1):
        return b.cast("trunc", raw, "i1")
    if element == FloatType("f16"):
        return b.cast("bitcast", raw, "half")
    if element == FloatType("bf16"):
        return b.cast("bitcast", b.binary("shl", b.cast("zext", raw, "i32"), 16), "float")
    return raw


def to_memory(b: Builder, value: SSAValue, element: Type) -> SSAValue:
    """Convert a register value to the representation in memory."""
    if element == IntegerType(1):
        return b.cast("zext", value, "i8")
    if element == FloatType("f16"):
        return b.cast("bitcast", value, "i16")
    if element == FloatType("bf16"):
        return b.cast("trunc", b.binary("lshr", b.cast("bitcast", value, "i32"), 16), "i16")
    return value


def widen(b: Builder, value: SSAValue, element: Type) -> SSAValue:
    """Convert a register value to the widened representation, exactly."""
    if isinstance(element, FloatType):
        return value if element.name == "f64" else elementwise.widen_to_f32(b, value, element)
    source, target = register_type(element), widened_type(element)
    if source == target:
        return value
    return b.cast("zext" if source == "i1" else "sext", value, target)


def narrow(b: Builder, value: SSAValue, element: Type) -> SSAValue:
    """Convert a widened value to the register representation; this exactly reverses `widen`."""
    if isinstance(element, FloatType):
        return value if element.name == "f64" else elementwise.narrow_from_f32(b, value, element)
    source, target = widened_type(element), register_type(element)
    return value if source == target else b.cast("trunc", value, target)
