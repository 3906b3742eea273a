"""Recognises the operations by which Triton's library swaps neighbours along an axis of extent 2.

`tl.sort`, `tl.topk` and `tl.flip` compute `x ^ broadcast(xor_sum(x, axis))`. For two elements `a`
and `b`, the sum is `a ^ b`, so the result is `b` in the lane of `a`, and `a` in the lane of `b`. A
recognised swap is compiled without the reduction: each lane reads the element at the other
coordinate.
"""

from __future__ import annotations

from ttools.ir import Operation, Value, shape_of


def swapped_lanes(op: Operation) -> tuple[Value, int] | None:
    """Return the tile and the axis whose neighbours `op` swaps; None if it is not a swap."""
    if op.name != "arith.xori" or not op.results[0].is_tensor:
        return None
    for own, other in (op.operands, op.operands[::-1]):
        reduction = _broadcast_reduction(other)
        if reduction is not None and reduction.operands[0] is own:
            return own, reduction.axis
    return None


def swapped_as_bits(op: Operation) -> tuple[Value, int] | None:
    """Return the tile and the axis whose neighbours `op` swaps, for tiles of floats.

    Triton casts floats to integers, swaps these, and casts the result back; `op` is the last cast.
    """
    if op.name != "tt.bitcast" or op.operands[0].defining_op is None:
        return None
    swap = swapped_lanes(op.operands[0].defining_op)
    if swap is None:
        return None
    bits, axis = swap
    before = bits.defining_op
    if before is None or before.name != "tt.bitcast" or before.operands[0].type != op.result.type:
        return None
    return before.operands[0], axis


def is_only_swapped(reduction: Operation) -> bool:
    """Return whether a reduction's result is used by swaps only."""
    expansions = _users(reduction)
    broadcasts = [user for expand in expansions for user in _users(expand)]
    return (
        bool(broadcasts)
        and _is_xor_of_pairs(reduction)
        and all(op.name == "tt.expand_dims" for op in expansions)
        and all(op.name == "tt.broadcast" for op in broadcasts)
        and all(swapped_lanes(last) is not None for op in broadcasts for last in _users(op))
    )


def is_part_of_swap(value: Value) -> bool:
    """Return whether a value may be an intermediate result of a swap."""
    op = value.defining_op
    match op.name if op is not None else None:
        case "tt.reduce" | "tt.expand_dims" | "tt.broadcast":
            return True
    return False


def _users(op: Operation) -> list[Operation]:
    return [user for result in op.results for user, _ in result.uses]


def _broadcast_reduction(value: Value) -> Operation | None:
    """Return the xor reduction in `broadcast(expand_dims(reduce(x)))` on one axis of extent 2."""
    broadcast = value.defining_op
    if broadcast is None or broadcast.name != "tt.broadcast":
        return None
    expand = broadcast.operands[0].defining_op
    if expand is None or expand.name != "tt.expand_dims":
        return None
    reduction = expand.operands[0].defining_op
    if reduction is None or reduction.name != "tt.reduce" or not _is_xor_of_pairs(reduction):
        return None
    return reduction if reduction.axis == expand.axis else None


def _is_xor_of_pairs(reduction: Operation) -> bool:
    body = reduction.regions[0].entry
    return (
        len(reduction.operands) == 1
        and shape_of(reduction.operands[0].type)[reduction.axis] == 2
        and len(body.operations) == 2
        and body.operations[0].name == "arith.xori"
        and {id(v) for v in body.operations[0].operands} == {id(v) for v in body.arguments}
    )
