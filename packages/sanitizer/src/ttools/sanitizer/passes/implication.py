"""What can be seen of masks without running anything: whether one lane mask implies another.

A mask is compared with one that shape operations have moved: `mask` of a row as it would look
after `mask[:, None]` and a broadcast. A proof that is not found costs a test at run time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttools.interpreter import elementwise
from ttools.interpreter.ir import Constant, Operation, Value, shape_of
from ttools.sanitizer.passes.lanes import MOVES

_DEEPEST = 12


@dataclass(frozen=True)
class MovedMask:
    """A mask and the operations that moved its lanes since, first to last."""

    mask: Value
    moves: tuple[Operation, ...] = ()

    def through(self, op: Operation) -> MovedMask:
        """The mask after one more operation of `lanes.MOVES` with a single operand."""
        return MovedMask(self.mask, (*self.moves, op))


def implies(condition: Value | None, wanted: MovedMask, depth: int = 0) -> bool:
    """Whether every lane in which `condition` holds has `wanted`; None holds everywhere."""
    if condition is None or depth > _DEEPEST:
        return False
    if _same(condition, wanted.mask, wanted.moves, depth):
        return True
    op = condition.defining_op
    conjuncts = op.operands if op is not None and op.name == "arith.andi" else []
    if any(implies(part, wanted, depth + 1) for part in conjuncts):
        return True
    inner = wanted.mask.defining_op
    if inner is not None and inner.name == "arith.andi":
        parts = [MovedMask(part, wanted.moves) for part in inner.operands]
        if all(implies(condition, part, depth + 1) for part in parts):
            return True
    if op is not None and wanted.moves and _same_move(op, wanted.moves[-1]):
        return implies(op.operands[0], MovedMask(wanted.mask, wanted.moves[:-1]), depth + 1)
    return False


def _same(value: Value, other: Value, moves: tuple[Operation, ...], depth: int) -> bool:
    """Whether `value` is what `moves` make of `other`."""
    if not moves and value is other:
        return True
    op, source = value.defining_op, other.defining_op
    if op is None or depth > _DEEPEST:
        return False
    if moves and _same_move(op, moves[-1]) and _same(op.operands[0], other, moves[:-1], depth + 1):
        return True
    if source is None or op.name != source.name:
        return False
    if op.name == "arith.constant":
        return _same_splat(op, source) and (bool(moves) or value.type == other.type)
    if op.name == "tt.splat":
        return op.operands[0] is source.operands[0] and (bool(moves) or value.type == other.type)
    return (
        elementwise.is_elementwise(op.name)
        and not elementwise.has_effects(op)
        and op.attributes == source.attributes
        and len(op.operands) == len(source.operands)
        and value.index == other.index
        and all(
            _same(a, b, moves, depth + 1) for a, b in zip(op.operands, source.operands, strict=True)
        )
    )


def _same_splat(a: Operation, b: Operation) -> bool:
    first, second = a.attributes["value"], b.attributes["value"]
    assert isinstance(first, Constant)
    assert isinstance(second, Constant)
    return first.is_splat and second.is_splat and first.bits == second.bits


def _same_move(a: Operation, b: Operation) -> bool:
    return (
        a.name == b.name
        and a.name in MOVES
        and len(a.operands) == 1
        and len(a.results) == 1
        and a.attributes == b.attributes
        and shape_of(a.results[0].type) == shape_of(b.results[0].type)
        and a.operands[0].is_tensor
    )
