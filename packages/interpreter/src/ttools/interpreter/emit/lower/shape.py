"""Constants, ranges, and views such as reshape and join.

A view moves no data: to compute a chunk of the result, its rule evaluates a chunk of the operand at
other coordinates. Views that move whole axes, such as transpositions, have no rule here, because
`Emitter.view` handles all of them by their coordinate maps.
"""

from __future__ import annotations

import struct
from math import prod

from ttools.interpreter.emit.function import Emitter, fused
from ttools.interpreter.llvm.builder import float_literal, memory_type, register_type
from ttools.interpreter.llvm.value import FALSE, TRUE, SSAValue
from ttools.interpreter.tiles.chunk import (
    ANY_DIVISOR,
    ZERO,
    Affine,
    Axis,
    Chunk,
    Coords,
    Vector,
    origin,
    uniform,
)
from ttools.interpreter.tiles.integers import divisor_of_literal
from ttools.interpreter.tiles.slot import Slot
from ttools.ir import (
    Constant,
    FloatType,
    IntegerType,
    Operation,
    TensorType,
    Type,
    as_signed,
    element_type,
    shape_of,
)


def literal(type: Type, bits: int) -> str:
    """Return the LLVM literal of a register value with a bit pattern."""
    if isinstance(type, IntegerType):
        return str(as_signed(bits, type.width)) if type.width > 1 else ("true", "false")[bits == 0]
    if isinstance(type, FloatType):
        match type.name:
            case "f16":
                return f"0xH{bits:04X}"
            case "bf16":
                return _float_bits(bits << 16)
            case "f32":
                return _float_bits(bits)
            case "f64":
                return f"0x{bits:016X}"
    return str(as_signed(bits, 64) if bits >> 63 else bits)


def _float_bits(bits: int) -> str:
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    if value != value:  # keep the NaN's payload; LLVM writes float literals as doubles
        wide = (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
        return f"0x{wide:016X}"
    return float_literal(value, "float")


@fused("arith.constant")
def constant(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    data = op.attributes["value"]
    assert isinstance(data, Constant)
    element = element_type(op.result.type)
    if data.is_splat:
        text = literal(element, data.bits[0])
        divisor = divisor_of_literal(int(text)) if text.lstrip("-").isdigit() else 1
        ssa = SSAValue(text, register_type(element))
        return uniform(element, ssa, at[0].width if at else 1, divisor)
    return e.read_slot(_constant_slot(e, op, data), at)


def _constant_slot(e: Emitter, op: Operation, data: Constant) -> Slot:
    """Return a slot whose memory is a global constant with the elements of a tile."""
    assert isinstance(op.result.type, TensorType)
    shape, element = op.result.type.shape, op.result.type.element
    stored = memory_type(element)
    if stored in ("float", "double"):
        items = [f"{stored} {literal(element, bits)}" for bits in data.bits]
    else:
        items = [f"{stored} {bits}" for bits in data.bits]
    name = f"ttools.constant.{len(e.b.definitions)}"
    text = f"@{name} = internal constant [{len(items)} x {stored}] [{', '.join(items)}], align 64"
    existing = next((k for k, v in e.b.definitions.items() if v.endswith(text.split("=")[1])), None)
    base = f"@{existing}" if existing else e.b.define(name, text)
    return Slot(SSAValue(base, "ptr"), 0, shape, element)


@fused("ub.poison")
def poison(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    # Any value is allowed. Zero makes runs deterministic.
    element = element_type(op.result.type)
    type = register_type(element)
    zero = {"half": "0.0", "float": "0.0", "double": "0.0", "i1": "false"}.get(type, "0")
    return uniform(element, SSAValue(zero, type), at[0].width if at else 1)


@fused("tt.make_range")
def make_range(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    (axis,) = at
    start = op.attributes["start"]
    assert isinstance(start, int)
    base = e.integers.add(axis.base, start)
    divisor = min(axis.divisor, divisor_of_literal(start))
    return Affine(IntegerType(32), base, axis.lanes, divisor)


@fused("tt.splat")
def splat(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    return e.operand(op.operands[0], at)


@fused("tt.reshape", "ttg.convert_layout")
def reshape(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    source = op.operands[0]
    where = reshape_coords(e, at, shape_of(op.result.type), shape_of(source.type))
    return e.evaluate(source, where)


def reshape_coords(
    e: Emitter, at: Coords, shape: tuple[int, ...], source: tuple[int, ...]
) -> Coords:
    """Return the coordinates of elements in the operand of a reshape.

    Args:
        at: The coordinates of the elements in the result.
        shape: The shape of the result.
        source: The shape of the operand; both tiles are row-major.
    """
    width = at[0].width if at else 1
    (still,) = origin(1, width)
    long = [a for a, extent in zip(at, shape, strict=True) if extent > 1]
    if [n for n in shape if n > 1] == [n for n in source if n > 1]:
        remaining = iter(long)
        return tuple(next(remaining) if extent > 1 else still for extent in source)
    base, lanes, bits = ZERO, [0] * width, 0
    for k, (axis, extent) in enumerate(zip(at, shape, strict=True)):
        stride = prod(shape[k + 1 :])
        base = e.integers.add(base, e.integers.multiply(axis.base, stride))
        lanes = [n + lane * stride for n, lane in zip(lanes, axis.lanes, strict=True)]
        bits |= _bits_of_base(axis, extent) * stride
    where = []
    for k, extent in enumerate(source):
        stride = prod(source[k + 1 :])
        where.append(_digit(e, base, tuple(lanes), bits, stride, extent))
    return tuple(where)


def _bits_of_base(axis: Axis, extent: int) -> int:
    """Return a mask of the bits that may be set in the base of a coordinate.

    The base and the lane offsets have no bits in common, so their sum is their bitwise or.
    """
    if axis.base.isdigit():
        return int(axis.base)
    lane_bits = 0
    for lane in axis.lanes:
        lane_bits |= lane
    return (extent - 1) & ~lane_bits & -min(axis.divisor, extent)


def _digit(
    e: Emitter, base: SSAValue, lanes: tuple[int, ...], bits: int, stride: int, extent: int
) -> Axis:
    """Return the coordinate `linear // stride % extent`, where linear is `base + lanes`.

    Args:
        base: The base of the linear index.
        lanes: The lane offsets of the linear index, which have no bits in common with the base.
        bits: The bits that may be set in the base.
        stride: The stride of the axis, a power of two.
        extent: The extent of the axis, a power of two.
    """
    ours = tuple(n // stride % extent for n in lanes)
    own = bits // stride & (extent - 1)
    if not own:
        return Axis(ZERO, ours, ANY_DIVISOR)
    shifted = base if stride == 1 else e.b.binary("lshr", base, stride.bit_length() - 1)
    masked = e.b.binary("and", shifted, extent - 1)
    return Axis(masked, ours, own & -own)


@fused("tt.join")
def join(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    *front, last = at
    where = tuple(front)
    if last.base == "0" and len(set(last.lanes)) == 1:
        return e.operand(op.operands[last.lanes[0]], where)
    chosen = last_axis_mask(e, last)
    left, right = (e.operand(v, where) for v in op.operands)
    return select(e, chosen, right, left)


def last_axis_mask(e: Emitter, axis: Axis) -> SSAValue:
    """Return an i1 vector that is set in lanes with coordinate 1 along an axis of extent 2."""
    if axis.base == "0":
        return e.b.constant_vector([TRUE if n else FALSE for n in axis.lanes])
    chunk = Affine(IntegerType(32), axis.base, axis.lanes, axis.divisor)
    return e.b.compare("icmp ne", e.vector(chunk), 0)


def select(e: Emitter, mask: SSAValue, when: Chunk, otherwise: Chunk) -> Vector:
    """Return a lane-wise choice between two chunks of the same type."""
    return Vector(when.element, e.b.select(mask, e.vector(when), e.vector(otherwise)))


@fused("tt.unsplat")
def unsplat(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    source = op.operands[0]
    with e.fresh_memo():
        chunk = e.evaluate(source, origin(len(shape_of(source.type))))
    return uniform(chunk.element, e.vector(chunk), 1)
