"""Gathers from a tile at positions known at run time, concatenation of tiles, and histograms."""

from __future__ import annotations

from ttools.interpreter.emit.function import Emitter, fused, root
from ttools.interpreter.llvm.builder import register_type
from ttools.interpreter.llvm.value import ARENA, SSAValue, integer
from ttools.interpreter.tiles.chunk import (
    ANY_DIVISOR,
    ZERO,
    Affine,
    Axis,
    Chunk,
    Coords,
    Vector,
    uniform,
)
from ttools.interpreter.tiles.loops import for_each_chunk, traversal
from ttools.interpreter.tiles.slot import Slot
from ttools.ir import IntegerType, Operation, shape_of


@fused("tt.gather")
def gather(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    """Read elements of a stored tile at positions along one axis that are known at run time."""
    source, indices = op.operands
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    slot, width = e.slot(source), at[0].width
    positions = e.evaluate(indices, at)
    itype = register_type(positions.element)
    extent = slot.shape[axis]
    # An index out of range is undefined behaviour; wrapping it keeps the read inside the tile.
    safe = e.b.binary("and", e.vector(positions), extent - 1)
    if itype != "i32":
        safe = e.b.cast("trunc" if int(itype[1:]) > 32 else "zext", safe, "i32")
    where = tuple(
        Axis(ZERO, (0,) * width, ANY_DIVISOR) if k == axis else a for k, a in enumerate(at)
    )
    linear: Chunk = uniform(IntegerType(32), ZERO, width)
    for a, stride in zip(where, slot.strides, strict=True):
        base = e.integers.multiply(a.base, stride)
        lanes = tuple(n * stride for n in a.lanes)
        assert isinstance(linear, Affine)
        linear = Affine(
            IntegerType(32),
            e.integers.add(linear.base, base),
            tuple(x + y for x, y in zip(linear.lanes, lanes, strict=True)),
        )
    scaled = e.b.binary("mul", safe, slot.strides[axis])
    return gather_from_slot(e, slot, e.b.binary("add", scaled, e.vector(linear)))


def gather_from_slot(e: Emitter, slot: Slot, offsets: SSAValue) -> Vector:
    """Read a slot at a vector of i32 element offsets, which must be in range."""
    b, stored = e.b, slot.stored_type
    base = slot.base
    if slot.offset:
        base = b.offset(base, slot.offset)
    pointers = b.element(stored, base, b.cast("zext", offsets, "i64"), inbounds=False)
    if pointers.type == "ptr":
        raw = b.load(stored, pointers, slot.stored_bytes)
    else:
        raw = b.gather(pointers, stored)
    return Vector(slot.element, slot.from_stored(b, raw))


@root("tt.cat")
def cat(e: Emitter, op: Operation) -> None:
    """Concatenate tiles along axis 0 by filling a part of the slot from each operand."""
    slot = e.slot(op.result)
    offset = slot.offset
    for operand in op.operands:
        part = Slot(slot.base, offset, shape_of(operand.type), slot.element, slot.widened)
        e.fill(part, lambda at, v=operand: e.evaluate(v, at))  # type: ignore[misc]
        offset += part.nbytes


@root("tt.histogram")
def histogram(e: Emitter, op: Operation) -> None:
    """Count the values in each bin; values outside the bins are not counted."""
    source, mask = op.operands[0], op.mask
    slot = e.slot(op.result)
    bins = slot.shape[0]
    zero = integer(0, register_type(slot.element))
    e.fill(slot, lambda at: uniform(slot.element, zero, at[0].width))

    def count(at: Coords) -> None:
        b = e.b
        with e.fresh_memo():
            value = e.vector(e.operand(source, at))
            inside = b.compare("icmp ult", value, bins)
            if mask is not None:
                inside = b.binary("and", inside, e.vector(e.operand(mask, at)))
        with b.only_if(inside, "count", "counted"):
            wide = e.integers.convert(value, "i64", signed=False)
            base = b.offset(ARENA, slot.offset)
            p = b.element(slot.stored_type, base, wide)
            old = b.load(slot.stored_type, p)
            b.store(b.binary("add", old, 1), p)

    for_each_chunk(e.b, traversal(shape_of(source.type), 1), count)
