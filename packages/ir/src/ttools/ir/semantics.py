"""Properties of operations that follow from their declarations.

These are the integer result in any domain, the coordinate map of a view, and the structure of
conditions and comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from ttools.ir.core import IntegerType, Operation, Value, element_type, shape_of
from ttools.ir.dialects.coordinates import Lanes, ViewShapes
from ttools.ir.dialects.integers import Integers, UnknownError

T = TypeVar("T")


def width_of(value: Value) -> int:
    """Return the width in bits of a value's elements, or 0 if they are not integers."""
    element = element_type(value.type)
    return element.width if isinstance(element, IntegerType) else 0


def meaning(domain: Integers[T], op: Operation, operands: Sequence[T]) -> T | None:
    """Return the abstract value that a domain derives for an operation's exact result.

    Returns:
        None if the domain derives nothing, or if the operation declares no integer semantics.
    """
    meant = op.declaration.integer
    if meant is None:
        return None
    try:
        result: T = meant(domain, operands, op)
    except UnknownError:
        return None
    return result


def is_known(domain: Integers[T], op: Operation, operands: Sequence[T]) -> bool:
    """Return whether a domain can derive a value for an operation's result, see `meaning`."""
    meant = op.declaration.integer
    if meant is None:
        return False
    try:
        meant(domain, operands, op)
    except UnknownError:
        return False
    return True


def is_view(op: Operation) -> bool:
    """Return whether the lanes of an operation's results are lanes of its operands."""
    return op.declaration.lanes is not None


def lanes_of(value: Value) -> tuple[Lanes, ...]:
    """Return the coordinate map of a view's result, or `()` if no view computes the value."""
    op = value.defining_op
    lanes = op.declaration.lanes if op is not None else None
    if op is None or lanes is None:
        return ()
    shapes = [shape_of(operand.type) for operand in op.operands]
    return lanes(ViewShapes(op.attributes, shapes, shape_of(value.type), value.index))


def moved_lanes(value: Value) -> Lanes | None:
    """Return the coordinate map of a view that has one operand and keeps axes.

    Returns:
        None if the value is not such a view.
    """
    lanes = lanes_of(value)
    return lanes[0] if len(lanes) == 1 and lanes[0].axes is not None else None


def axes_through(value: Value) -> tuple[int | None, ...] | None:
    """Return, for each axis of a view's operand, the axis of the result that it becomes.

    The entry of an axis of extent 1 may be None: the result has no such axis, or repeats it.

    Returns:
        None if `moved_lanes` is None, or if the view leaves out lanes of its operand.
    """
    lanes, op = moved_lanes(value), value.defining_op
    if lanes is None or lanes.axes is None or op is None:
        return None
    extents = zip(lanes.axes, shape_of(op.operands[lanes.operand].type), strict=True)
    return lanes.axes if all(axis is not None or n == 1 for axis, n in extents) else None


def number_of(value: Value) -> int | None:
    """Return the constant that is the value of every lane, or None if there is none.

    The constant may have passed through views, such as a splat.
    """
    while (op := value.defining_op) is not None and len(lanes_of(value)) == 1:
        value = op.operands[0]
    numbers = op.constant_integers if op is not None else None
    return numbers[0] if numbers and len(set(numbers)) == 1 else None


class Logic(NamedTuple):
    """A condition that is composed of other conditions."""

    kind: Literal["and", "or", "not"]
    operands: tuple[Value, ...]


class _Logic(Integers[Any]):
    def bits_and(self, a: Value, b: Value) -> Logic:
        return Logic("and", (a, b))

    def bits_or(self, a: Value, b: Value) -> Logic:
        return Logic("or", (a, b))

    def bits_xor(self, a: Value, b: Value) -> Logic:
        for value, other in ((a, b), (b, a)):
            if number_of(other) == 1:
                return Logic("not", (value,))
        raise UnknownError


def logic(op: Operation) -> Logic | None:
    """Return how a condition is composed of other conditions; None for other operations."""
    condition_parts = meaning(_Logic(), op, op.operands) if op.operand_bits == 1 else None
    return condition_parts if isinstance(condition_parts, Logic) else None


def conjunction(op: Operation) -> tuple[Value, ...]:
    """Return the operands of a conjunction of conditions; `()` for other operations."""
    decomposed = logic(op)
    return decomposed.operands if decomposed is not None and decomposed.kind == "and" else ()


class Comparison(NamedTuple):
    """A comparison of integers: `slt`, `uge`, `eq`, … of two values."""

    predicate: str
    left: Value
    right: Value


class _Comparisons(Integers[Any]):
    def compare(self, predicate: str, a: Value, b: Value) -> Comparison:
        return Comparison(predicate, a, b)


def comparison(op: Operation) -> Comparison | None:
    """Return the comparison that an operation performs; None for other operations."""
    comparison = meaning(_Comparisons(), op, op.operands)
    return comparison if isinstance(comparison, Comparison) else None
