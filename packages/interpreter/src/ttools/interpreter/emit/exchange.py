"""Recognises how Triton's standard library swaps neighbours along an axis of extent 2.

`tl.sort`, `tl.topk` and `tl.flip` compute `x ^ broadcast(xor_sum(x, axis))`, which for two
elements is the other one. Seen for what it is, it needs no reduction: the element is read at the
opposite coordinate.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ttools.interpreter.emit.chunk import Axis, Chunk, Coords, Vector
from ttools.interpreter.emit.llvm import register_type
from ttools.interpreter.ir import Operation, Value, shape_of

if TYPE_CHECKING:
    from ttools.interpreter.emit.function import Emitter


def exchanged(op: Operation) -> tuple[Value, int] | None:
    """The tile and axis whose neighbours `op` swaps, or None if it does something else."""
    if op.name != "arith.xori" or not op.results[0].is_tensor:
        return None
    for own, other in (op.operands, op.operands[::-1]):
        reduction = _broadcast_reduction(other)
        if reduction is not None and reduction.operands[0] is own:
            axis = reduction.attributes["axis"]
            assert isinstance(axis, int)
            return own, axis
    return None


def exchanged_as_bits(op: Operation) -> tuple[Value, int] | None:
    """The same for floats, which are swapped as integers: `op` makes them floats again."""
    if op.name != "tt.bitcast" or op.operands[0].defining_op is None:
        return None
    found = exchanged(op.operands[0].defining_op)
    if found is None:
        return None
    bits, axis = found
    before = bits.defining_op
    if before is None or before.name != "tt.bitcast" or before.operands[0].type != op.result.type:
        return None
    return before.operands[0], axis


def is_only_exchanged(reduction: Operation) -> bool:
    """Whether a reduction's result serves nothing but swaps."""
    expansions = _users(reduction)
    broadcasts = [user for expand in expansions for user in _users(expand)]
    return (
        bool(broadcasts)
        and _is_xor_of_pairs(reduction)
        and all(op.name == "tt.expand_dims" for op in expansions)
        and all(op.name == "tt.broadcast" for op in broadcasts)
        and all(exchanged(last) is not None for op in broadcasts for last in _users(op))
    )


def _users(op: Operation) -> list[Operation]:
    return [user for result in op.results for user, _ in result.uses]


def _broadcast_reduction(value: Value) -> Operation | None:
    """The xor reduction of pairs behind `broadcast(expand_dims(reduce(x)))` on its own axis."""
    broadcast = value.defining_op
    if broadcast is None or broadcast.name != "tt.broadcast":
        return None
    expand = broadcast.operands[0].defining_op
    if expand is None or expand.name != "tt.expand_dims":
        return None
    reduction = expand.operands[0].defining_op
    if reduction is None or reduction.name != "tt.reduce" or not _is_xor_of_pairs(reduction):
        return None
    same_axis = reduction.attributes["axis"] == expand.attributes["axis"]
    return reduction if same_axis else None


def _is_xor_of_pairs(reduction: Operation) -> bool:
    axis = reduction.attributes["axis"]
    assert isinstance(axis, int)
    body = reduction.regions[0].entry
    return (
        len(reduction.operands) == 1
        and shape_of(reduction.operands[0].type)[axis] == 2
        and len(body.operations) == 2
        and body.operations[0].name == "arith.xori"
        and {id(v) for v in body.operations[0].operands} == {id(v) for v in body.arguments}
    )


def exchange(e: Emitter, op: Operation, at: Coords) -> Chunk:
    """The neighbours of a chunk along an axis of extent 2.

    Neighbours in the same chunk are a shuffle of it, which mostly is at hand: what swaps elements
    compares them, too.
    """
    source, axis = e.plan.exchanges[op]
    moving = at[axis].base.startswith("%")
    if not moving:
        partners = _partners(tuple(a.lanes for a in at), axis)
        own = e.evaluate(source, at) if partners is not None else None
        if isinstance(own, Vector) and partners is not None:
            type = register_type(own.element)
            return Vector(own.element, own.width, e.b.shuffle(own.ssa, type, own.width, partners))
    flip = e.b.emit(f"xor i32 {at[axis].base}, 1") if moving else at[axis].base
    return e.evaluate(source, (*at[:axis], opposite(at[axis], flip), *at[axis + 1 :]))


@lru_cache(maxsize=256)
def _partners(lanes: tuple[tuple[int, ...], ...], axis: int) -> tuple[int, ...] | None:
    """The lane of each lane's neighbour along `axis`; None if some are in another chunk.

    Args:
        lanes: of each axis of a chunk, its lanes' offsets.
        axis: of extent 2, and not moved by a loop.
    """
    elements = list(zip(*lanes, strict=True))
    where = {element: lane for lane, element in enumerate(elements)}
    found = [where.get((*x[:axis], 1 - x[axis], *x[axis + 1 :])) for x in elements]
    inside = tuple(lane for lane in found if lane is not None)
    return inside if len(inside) == len(found) else None


def opposite(axis: Axis, flip: str) -> Axis:
    """The other coordinate along an axis of extent 2; `flip` is the flipped base if it moves."""
    if axis.base.startswith("%"):
        return Axis(flip, axis.lanes, 1)
    return Axis("0", tuple(1 - int(axis.base) - lane for lane in axis.lanes), axis.divisor)
