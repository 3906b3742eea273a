"""Conversions between an element's register, memory and widened representations.

See `llvm.register_type` and `llvm.memory_type`; the widened representation is what products of
matrices are computed from.
"""

from __future__ import annotations

from ttools.interpreter import elementwise
from ttools.interpreter.ir import FloatType, IntegerType, Type
from ttools.interpreter.llvm.builder import Builder, register_type
from ttools.interpreter.llvm.value import SSAValue, integer, vector_type


def widened_type(element: Type) -> str:
    """The type a dot takes: f32 for narrow floats, i16 for i8, i32 for other narrow integers."""
    if isinstance(element, FloatType):
        return "double" if element.name == "f64" else "float"
    assert isinstance(element, IntegerType)
    return {8: "i16", 64: "i64"}.get(element.width, "i32")


def from_memory(b: Builder, raw: SSAValue, element: Type, width: int) -> SSAValue:
    """Turns what was loaded into the register representation."""
    vec = vector_type
    if element == IntegerType(1):
        return b.cast("trunc", raw, vec("i1", width))
    if element == FloatType("f16"):
        return b.bitcast(raw, vec("i16", width), vec("half", width))
    if element == FloatType("bf16"):
        wide = b.cast("zext", raw, vec("i32", width))
        high = b.binary("shl", wide, b.splat(integer(16, "i32"), width))
        return b.bitcast(high, vec("i32", width), vec("float", width))
    return raw


def to_memory(b: Builder, value: SSAValue, element: Type, width: int) -> SSAValue:
    """Turns a register value into what is stored."""
    vec = vector_type
    if element == IntegerType(1):
        return b.cast("zext", value, vec("i8", width))
    if element == FloatType("f16"):
        return b.cast("bitcast", value, vec("i16", width))
    if element == FloatType("bf16"):
        bits = b.cast("bitcast", value, vec("i32", width))
        high = b.binary("lshr", bits, b.splat(integer(16, "i32"), width))
        return b.cast("trunc", high, vec("i16", width))
    return value


def widen(b: Builder, value: SSAValue, element: Type, width: int) -> SSAValue:
    """Converts a register value to the type a dot takes, exactly."""
    if isinstance(element, FloatType):
        if element.name == "f64":
            return value
        return elementwise.widen_to_f32(b, value, element, width)
    source, target = register_type(element), widened_type(element)
    if source == target:
        return value
    op = "zext" if source == "i1" else "sext"
    return b.cast(op, value, vector_type(target, width))


def narrow(b: Builder, value: SSAValue, element: Type, width: int) -> SSAValue:
    """Undoes `widen`, exactly for values that came from `element`."""
    if isinstance(element, FloatType):
        if element.name == "f64":
            return value
        return elementwise.narrow_from_f32(b, value, element, width)
    source, target = widened_type(element), register_type(element)
    if source == target:
        return value
    return b.cast("trunc", value, vector_type(target, width))
