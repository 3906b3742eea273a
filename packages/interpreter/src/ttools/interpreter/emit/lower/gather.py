"""Elements at run-time positions of a tile, and tiles put behind each other."""

from __future__ import annotations

from ttools.interpreter.emit.function import Emitter, fused, root
from ttools.interpreter.ir import IntegerType, Operation, shape_of
from ttools.interpreter.llvm.builder import mangled, register_type
from ttools.interpreter.llvm.value import TRUE, SSAValue, integer, vector_type, zeros
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
from ttools.interpreter.tiles.slot import Slot


@fused("tt.gather")
def gather(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    """Elements of a stored tile, at run-time positions along one axis."""
    source, indices = op.operands
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    slot, width = e.slot(source), at[0].width
    positions = e.evaluate(indices, at)
    itype = register_type(positions.element)
    extent = slot.shape[axis]
    # An index out of range is undefined; wrapping it keeps the read inside the tile.
    safe = e.b.binary("and", e.vector(positions), e.b.splat(integer(extent - 1, itype), width))
    if itype != "i32":
        op_name = "trunc" if int(itype[1:]) > 32 else "zext"
        safe = e.b.cast(op_name, safe, vector_type("i32", width))
    where = tuple(
        Axis(ZERO, (0,) * width, ANY_DIVISOR) if k == axis else a for k, a in enumerate(at)
    )
    linear: Chunk = uniform(IntegerType(32), ZERO, width)
    for a, stride in zip(where, slot.strides, strict=True):
        base = e.imul("i32", a.base, stride)
        lanes = tuple(n * stride for n in a.lanes)
        assert isinstance(linear, Affine)
        linear = Affine(
            IntegerType(32),
            e.iadd("i32", linear.base, base),
            tuple(x + y for x, y in zip(linear.lanes, lanes, strict=True)),
        )
    step = e.b.splat(integer(slot.strides[axis], "i32"), width)
    scaled = e.b.binary("mul", safe, step)
    offsets = e.b.binary("add", scaled, e.vector(linear))
    return gather_from_slot(e, slot, offsets, width)


def gather_from_slot(e: Emitter, slot: Slot, offsets: SSAValue, width: int) -> Vector:
    """Reads a slot at a vector of i32 element offsets that are known to be inside it."""
    b, stored = e.b, slot.stored_type
    base = slot.base
    if slot.offset:
        base = b.offset(base, slot.offset)
    wide = b.cast("zext", offsets, vector_type("i64", width))
    if width == 1:
        p = b.element(stored, base, wide, inbounds=False)
        raw = b.load(stored, p, slot.stored_bytes)
    else:
        pointers = b.element(stored, base, wide, inbounds=False)
        vec = vector_type(stored, width)
        ones = b.splat(TRUE, width)
        raw = b.intrinsic(
            f"llvm.masked.gather.v{width}{mangled(stored)}.v{width}p0",
            vec,
            [
                (f"<{width} x ptr> align {slot.stored_bytes}", pointers),
                (f"<{width} x i1>", ones),
                (vec, zeros(vec)),
            ],
        )
    return Vector(slot.element, width, slot.from_stored(e.b, raw, width))


@root("tt.cat")
def cat(e: Emitter, op: Operation) -> None:
    """Concatenation along axis 0: each operand fills its part of the slot."""
    slot = e.slot(op.result)
    offset = slot.offset
    for operand in op.operands:
        part = Slot(slot.base, offset, shape_of(operand.type), slot.element, slot.widened)
        e.fill(part, lambda at, v=operand: e.evaluate(v, at))  # type: ignore[misc]
        offset += part.nbytes
