"""Whether a whole tile of addresses lies inside its memory, tested once before a loop over chunks.

If each address is a sum of the tile's coordinates with constant factors, the lowest and the highest
belong to corners of the tile, so the corners are evaluated as if they were the lanes of a chunk.
Where a narrow sum may wrap, that form carries a guard: it holds at the corners only if it holds
between them. Must not know what is accessed, nor what happens where the test fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttools.interpreter.emit.chunk import ANY_DIVISOR, Affine, Axis
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.llvm import byte_size
from ttools.interpreter.ir import (
    Constant,
    IntegerType,
    PointerType,
    Value,
    as_signed,
    element_type,
    shape_of,
)


@dataclass(frozen=True)
class Hull:
    """The addresses of a tile lie between `base + first` and `base + last`, both of them taken.

    Attributes:
        base: an i64.
        first: bytes from there to the lowest address.
        last: bytes from there to the highest address.
        guard: an i1 without which nothing is known; None where nothing can wrap.
    """

    base: str
    first: int
    last: int
    guard: str | None


def tile_hull(e: Emitter, pointer: Value) -> Hull | None:
    """Emits what tells the hull of a tile of pointers; None where the hull is not known.

    The builder stands where everything is defined that the tile is computed from.
    """
    if _largest_offset(e, pointer, 0) is None:
        return None
    shape = shape_of(pointer.type)
    corners = range(1 << len(shape))
    at = tuple(
        Axis("0", tuple((extent - 1) * (corner >> axis & 1) for corner in corners), ANY_DIVISOR)
        for axis, extent in enumerate(shape)
    )
    with e.fresh_memo():
        chunk = e.evaluate(pointer, at)
    if not isinstance(chunk, Affine):
        return None
    return Hull(chunk.base, min(chunk.lanes), max(chunk.lanes), chunk.guard)


_MOVES = frozenset({"tt.expand_dims", "tt.broadcast", "tt.trans", "arith.extsi", "arith.extui"})
_SUMS = frozenset({"arith.addi", "arith.subi", "tt.addptr"})
#: A chain of operations longer than this is not followed.
_DEPTH = 32


def _largest_offset(e: Emitter, value: Value, depth: int) -> int | None:
    """The most that an element may differ from what is the same in all of the tile.

    None if the elements are no sum of coordinates with constant factors, or such a sum may wrap by
    itself, whatever it is added to.
    """
    if value in e.deltas:
        return _largest_offset(e, e.deltas[value][0], depth + 1)
    op = value.defining_op
    if op is None or depth > _DEPTH or e.plan.is_stored(value) or op in e.plan.exchanges:
        return None
    offset: int | None = None
    if op.name == "tt.splat":
        offset = 0
    elif op.name == "arith.constant":
        data = op.attributes["value"]
        offset = 0 if isinstance(data, Constant) and data.is_splat else None
    elif op.name == "tt.make_range":
        offset = max(abs(int(op.attributes[name])) for name in ("start", "end"))  # type: ignore[arg-type]
    elif op.name in _MOVES:
        offset = _largest_offset(e, op.operands[0], depth + 1)
    elif op.name in _SUMS or op.name == "arith.muli":
        inner = [_largest_offset(e, operand, depth + 1) for operand in op.operands]
        if inner[0] is not None and inner[1] is not None:
            if op.name == "arith.muli":
                offset = _product(e, op.operands, (inner[0], inner[1]))
            else:
                offset = inner[0] + inner[1] * _unit(value)
    return offset if offset is not None and offset < _limit(value) else None


def _product(e: Emitter, factors: Sequence[Value], offsets: tuple[int, int]) -> int | None:
    if offsets == (0, 0):
        return 0
    for factor, offset, own in zip(factors, reversed(offsets), offsets, strict=True):
        number = _number(e, factor)
        if own == 0 and number is not None:
            return offset * abs(number)
    return None


def _number(e: Emitter, value: Value) -> int | None:
    """The constant in all elements of a tile."""
    op = value.defining_op
    if op is None:
        return None
    if op.name == "tt.splat":
        ssa = e.scalar(op.operands[0])
        return int(ssa) if ssa.lstrip("-").isdigit() else None
    data = op.attributes.get("value")
    if op.name == "arith.constant" and isinstance(data, Constant) and data.is_splat:
        type = element_type(value.type)
        return as_signed(data.bits[0], type.width) if isinstance(type, IntegerType) else None
    return None


def _unit(value: Value) -> int:
    """What an offset counts in a sum: elements of pointers are bytes apart."""
    element = element_type(value.type)
    return byte_size(element.pointee) if isinstance(element, PointerType) else 1


def _limit(value: Value) -> int:
    element = element_type(value.type)
    return 1 << (element.width - 1 if isinstance(element, IntegerType) else 62)
