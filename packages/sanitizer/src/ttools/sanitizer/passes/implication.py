"""Static implication of masks: whether all lanes of one mask are known to be set in another.

Masks are compared across operations that change the shape. In

    keep = rows < m
    x = tl.load(p + rows, mask=keep)
    tl.store(q, x[:, None] + y, mask=keep[:, None] & (columns < n)[None, :])

undefined lanes of `x` are those outside `keep`. After `[:, None]` and a broadcast they are the
lanes outside `MovedMask(keep, moves)`; the mask of the store implies that one, so no undefined lane
is stored. An implication that is not found costs a test at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import ttools.interpreter.elementwise as elementwise
from ttools.ir import Value, shape_of
from ttools.ir.dialects.coordinates import Lanes
from ttools.ir.dialects.traits import ELEMENTWISE
from ttools.ir.semantics import conjunction, is_view, lanes_of

_DEEPEST = 12


class Move(NamedTuple):
    """A view's movement of lanes: the map of coordinates and the shape of the result."""

    lanes: Lanes
    shape: tuple[int, ...]


@dataclass(frozen=True)
class MovedMask:
    """A mask, and the views that have moved its lanes since, in order."""

    mask: Value
    moves: tuple[Move, ...] = ()

    def through(self, view: Value) -> MovedMask:
        """Return the mask after one more view; the view has a single operand."""
        (lanes,) = lanes_of(view)
        return MovedMask(self.mask, (*self.moves, Move(lanes, shape_of(view.type))))


def implies(condition: Value | None, wanted: MovedMask, depth: int = 0) -> bool:
    """Return whether every lane set in `condition` is known to be set in `wanted`.

    If `condition` is None, all of its lanes are set.
    """
    if condition is None or depth > _DEEPEST:
        return False
    if _same(condition, wanted.mask, wanted.moves, depth):
        return True
    op = condition.defining_op
    conjuncts = conjunction(op) if op is not None else ()
    if any(implies(part, wanted, depth + 1) for part in conjuncts):
        return True
    inner = wanted.mask.defining_op
    if inner is not None and (required := conjunction(inner)):
        parts = [MovedMask(part, wanted.moves) for part in required]
        if all(implies(condition, part, depth + 1) for part in parts):
            return True
    if op is not None and wanted.moves and _move(condition) == wanted.moves[-1]:
        return implies(op.operands[0], MovedMask(wanted.mask, wanted.moves[:-1]), depth + 1)
    return False


def _same(value: Value, other: Value, moves: tuple[Move, ...], depth: int) -> bool:
    """Return whether `value` equals `other` after `moves`."""
    if not moves and value is other:
        return True
    op, source = value.defining_op, other.defining_op
    if op is None or depth > _DEEPEST:
        return False
    if moves and _move(value) == moves[-1] and _same(op.operands[0], other, moves[:-1], depth + 1):
        return True
    if source is None or op.name != source.name:
        return False
    if (data := op.constant) is not None:
        alike = data.is_splat and source.constant is not None and source.constant.bits == data.bits
        return alike and (bool(moves) or value.type == other.type)
    if is_view(op) and not op.operands[0].is_tensor:
        return op.operands[0] is source.operands[0] and (bool(moves) or value.type == other.type)
    return (
        op.has(ELEMENTWISE)
        and not elementwise.has_effects(op)
        and op.attributes == source.attributes
        and len(op.operands) == len(source.operands)
        and value.index == other.index
        and all(
            _same(a, b, moves, depth + 1) for a, b in zip(op.operands, source.operands, strict=True)
        )
    )


def _move(value: Value) -> Move | None:
    """Return how a view moves the lanes of its operand; None if the value is not such a view."""
    op, lanes = value.defining_op, lanes_of(value)
    if op is None or len(lanes) != 1 or len(op.results) != 1 or not op.operands[0].is_tensor:
        return None
    return Move(lanes[0], shape_of(value.type))
