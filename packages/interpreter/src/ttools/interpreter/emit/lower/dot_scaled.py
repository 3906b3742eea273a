"""Products of block-scaled operands (the OCP microscaling formats mxfp4, mxfp6, mxfp8, and nvfp4).

Each element is decoded to f32 and multiplied by the scale of its block, which is exact. An ordinary
f32 product follows. The formats are defined in sections 5.3 and 5.4 of the OCP Microscaling Formats
(MX) Specification 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass

import ttools.interpreter.elementwise as elementwise
from ttools.core.errors import UnsupportedError
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.lower.dot import accumulate
from ttools.interpreter.llvm.value import SSAValue, integer, lanes_of
from ttools.interpreter.tiles.chunk import ANY_DIVISOR, Axis, Chunk, Coords, Vector
from ttools.interpreter.tiles.slot import Slot
from ttools.ir import FloatType, IntegerType, Operation, Type, Value, shape_of

_F32 = FloatType("f32")
#: Element formats by Triton's names. The format e2m1, which packs two elements into one byte, is
#: decoded by `_nibble`.
_FORMATS = {
    "e4m3": FloatType("f8E4M3FN"),
    "e5m2": FloatType("f8E5M2"),
    "bf16": FloatType("bf16"),
    "fp16": FloatType("f16"),
}


@dataclass(frozen=True)
class _Side:
    """One operand.

    Attributes:
        values: The tile of elements.
        scales: The scales of blocks along K; None if there are none.
        format: Triton's name of the element format.
        packed_axis: The axis along which a byte contains two e2m1 elements; None for other formats.
        k_axis: The axis that the product sums over.
    """

    values: Value
    scales: Value | None
    format: str
    packed_axis: int | None
    k_axis: int


@root("tt.dot_scaled")
def dot_scaled(e: Emitter, op: Operation) -> None:
    """Compute `c + (a * scales) @ (b * scales)`."""
    a, b, c, a_scale, b_scale = _operands(op)
    assert a is not None
    assert b is not None
    assert c is not None
    rank = len(shape_of(a.type))
    left_format, right_format = str(op.attributes["a_elem_type"]), str(op.attributes["b_elem_type"])
    left = _Side(
        a,
        a_scale,
        left_format,
        _packed(op, "lhs_k_pack", left_format, rank - 1, rank - 2),
        rank - 1,
    )
    right = _Side(
        b,
        b_scale,
        right_format,
        _packed(op, "rhs_k_pack", right_format, rank - 2, rank - 1),
        rank - 2,
    )
    accumulate(e, op, _decoded(e, op, left), _decoded(e, op, right), c)


def _operands(op: Operation) -> list[Value | None]:
    sizes = op.attributes["operandSegmentSizes"]
    assert isinstance(sizes, tuple)
    operands = iter(op.operands)
    return [next(operands) if size else None for size in sizes]


def _packed(op: Operation, name: str, format: str, k_axis: int, other: int) -> int | None:
    """Return the axis along which two e2m1 values share a byte; None for other formats."""
    if format != "e2m1":
        return None
    return k_axis if op.attributes.get(name, True) else other


def _decoded(e: Emitter, op: Operation, side: _Side) -> Slot:
    """Return a slot with the scaled elements of an operand, as f32."""
    shape = list(shape_of(side.values.type))
    if side.packed_axis is not None:
        shape[side.packed_axis] *= 2
    elif side.format not in _FORMATS:
        raise UnsupportedError(f"tl.dot_scaled of format {side.format}", op.location)
    slot = e.new_slot(tuple(shape), _F32)

    def chunk(at: Coords) -> Chunk:
        value = _element(e, side, at)
        scale = _scale(e, side, at, shape[side.k_axis])
        if scale is not None:
            value = e.b.binary("fmul", value, scale)
        return Vector(_F32, value)

    e.fill(slot, chunk)
    return slot


def _shifted(e: Emitter, axis: Axis, bits: int) -> Axis:
    """Return a coordinate divided by `2^bits`.

    The base and the lane offsets of a coordinate have no bits in common, so they can be shifted
    separately.
    """
    if not bits:
        return axis
    lanes = tuple(lane >> bits for lane in axis.lanes)
    if axis.base == "0" or not axis.base.startswith("%"):
        return Axis(integer(int(axis.base) >> bits, "i32"), lanes, ANY_DIVISOR)
    base = e.b.binary("lshr", axis.base, bits)
    return Axis(base, lanes, max(1, axis.divisor >> bits))


def _element(e: Emitter, side: _Side, at: Coords) -> SSAValue:
    if side.packed_axis is None:
        chunk = e.read_slot(e.slot(side.values), at)
        element: Type = chunk.element
        if isinstance(element, IntegerType):  # bytes that hold an fp8 format
            element = _FORMATS[side.format]
        return elementwise.widen_to_f32(e.b, e.vector(chunk), element)
    axis = at[side.packed_axis]
    where = tuple(_shifted(e, a, 1) if k == side.packed_axis else a for k, a in enumerate(at))
    return _nibble(e, e.vector(e.read_slot(e.slot(side.values), where)), axis)


def _nibble(e: Emitter, bytes_: SSAValue, axis: Axis) -> SSAValue:
    """Decode e2m1, which has a sign, two exponent bits with bias 1, and one mantissa bit.

    The element with the even coordinate is in the low nibble of a byte.
    """
    b = e.b
    wide = b.cast("zext", bytes_, "i32")
    low_bits = b.constant_vector([integer((lane & 1) * 4, "i32") for lane in axis.lanes])
    shift = low_bits
    if axis.divisor < 2:  # the base may be odd, which selects the other nibble
        odd = b.binary("and", axis.base, 1)
        moved = b.binary("shl", odd, 2)
        shift = b.binary("add", b.splat(moved, axis.width), low_bits)
    code = b.binary("lshr", wide, shift)
    sign = b.binary("shl", b.binary("and", code, 8), 28)
    mantissa = b.binary("and", code, 1)
    exponent = b.binary("and", b.binary("lshr", code, 1), 3)
    high = b.binary("shl", b.binary("add", exponent, 126), 23)
    normal = b.binary("or", high, b.binary("shl", mantissa, 22))
    half = b.binary("mul", mantissa, 1056964608)  # 0 or the bits of 0.5
    bits = b.select(b.compare("icmp eq", exponent, 0), half, normal)
    return b.cast("bitcast", b.binary("or", bits, sign), "float")


def _scale(e: Emitter, side: _Side, at: Coords, k: int) -> SSAValue | None:
    """Return the scale of each lane's block; None without scales.

    The shape of the scales is (rows or columns of the result, blocks along K).
    """
    if side.scales is None:
        return None
    slot = e.slot(side.scales)
    block = k // slot.shape[-1]
    other = at[-2] if side.k_axis == len(at) - 1 else at[-1]
    where = (*at[:-2], other, _shifted(e, at[side.k_axis], block.bit_length() - 1))
    chunk = e.read_slot(slot, where)
    if isinstance(chunk.element, FloatType):  # nvfp4 scales are e4m3
        return elementwise.widen_to_f32(e.b, e.vector(chunk), chunk.element)
    return _power_of_two(e, e.vector(chunk))


def _power_of_two(e: Emitter, bytes_: SSAValue) -> SSAValue:
    """Decode e8m0: the byte x is `2**(x - 127)`, a denormal f32 for 0, or NaN for 255."""
    b = e.b
    wide = b.cast("zext", bytes_, "i32")
    bits = b.binary("shl", wide, 23)
    for code, decoded in ((0, 4194304), (255, 2143289344)):
        is_code = b.compare("icmp eq", wide, code)
        bits = b.select(is_code, b.splat(integer(decoded, "i32"), lanes_of(wide.type)), bits)
    return b.cast("bitcast", bits, "float")
