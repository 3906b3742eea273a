"""Conditions per lane (i1 shadows) and how each operation hands them on.

A lane of a result is marked if a lane that it is computed from is: elementwise operations keep
lanes apart, operations that change the shape move them, reductions, scans and products gather
them. One function per family; passes override what they know better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ttools.interpreter.elementwise as elementwise
from ttools.ir import Operation, TensorType, Type, Value, shape_of
from ttools.ir.dialects.traits import DISPLACES, SELECTS
from ttools.ir.rewriting import BOOLEAN, Builder, with_element
from ttools.ir.semantics import is_view

#: The shadows of an operation's operands; None for those that are never marked.
Parts = Sequence["Value | None"]
LaneBuilder = Callable[[Builder, Operation, int, Parts], Value]


def lane_type(value: Value) -> Type:
    """The type of a condition per lane of `value`."""
    return with_element(value.type, BOOLEAN)


def unmarked(b: Builder, value: Value) -> Value:
    """No lane of `value`."""
    return b.constant(lane_type(value), 0)


def lane_builder(op: Operation) -> LaneBuilder | None:
    """How to combine the marks of the operands of an operation; None if that is not known."""
    if is_view(op):
        return _same_shape_change
    match op.name:
        case "arith.select":
            return _selection
        case "tt.reduce":
            return _reduction
        case "tt.scan":
            return _scan
        case "tt.dot" | "tt.dot_scaled":
            return _product
        case "tt.gather":
            return _gather
        case "tt.histogram":
            return _histogram
    return _lanewise if op.name == "tt.map_elementwise" or is_lanewise(op) else None


def is_lanewise(op: Operation) -> bool:
    """Whether each lane of the results comes from the same lane of the operands alone."""
    if not op.results or not (op.has(DISPLACES) or elementwise.is_elementwise(op.name)):
        return False
    shape = shape_of(op.results[0].type)
    return all(shape_of(v.type) == shape for v in op.operands) or op.has(SELECTS)


def within(b: Builder, condition: Value, mask: Value | None) -> Value:
    """A condition in the lanes that a mask lets through; None lets all through."""
    return condition if mask is None else b.binary("andi", condition, mask)


def outside(b: Builder, condition: Value, mask: Value | None) -> Value:
    """A condition in the lanes that a mask leaves out, if there is one."""
    return condition if mask is None else b.binary("andi", condition, b.negate(mask))


def any_lane(b: Builder, condition: Value) -> Value:
    """Whether any lane is marked, as a scalar."""
    if not isinstance(condition.type, TensorType):
        return condition
    if len(condition.type.shape) > 1:
        flat = TensorType((condition.type.numel,), BOOLEAN)
        condition = b.value("tt.reshape", [condition], flat)
    return b.combine("tt.reduce", condition, 0, "ori")


def swapped(b: Builder, condition: Value | None, axis: int) -> Value:
    """The marks of neighbours along an axis of extent 2, each for the other."""
    assert condition is not None
    both = b.expand(b.combine("tt.reduce", condition, axis, "xori"), axis)
    return b.binary("xori", condition, b.broadcast(both, shape_of(condition.type)))


def _present(parts: Parts) -> list[Value]:
    return [part for part in parts if part is not None]


def _lanewise(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    like = op.results[index].type
    return b.any_of([b.spread(part, like) for part in _present(parts)])


def _selection(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    """The chosen arm, or the condition."""
    condition = op.operands[0]
    chosen, first, second = parts
    found = []
    if chosen is not None:
        found.append(b.spread(chosen, op.result.type))
    if first is not None:
        found.append(b.binary("andi", first, condition))
    if second is not None:
        found.append(outside(b, second, condition))
    return b.any_of(found)


def _same_shape_change(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    """Operations that only move lanes move marks alike."""
    moved = [
        unmarked(b, value) if part is None else part
        for value, part in zip(op.operands, parts, strict=True)
    ]
    types = [lane_type(result) for result in op.results]
    return b.operation(op.name, moved, types, op.attributes).results[index]


def _reduction(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    return b.combine("tt.reduce", b.any_of(_present(parts)), op.axis, "ori")


def _scan(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    reverse = bool(op.attributes.get("reverse"))
    return b.combine("tt.scan", b.any_of(_present(parts)), op.axis, "ori", reverse=reverse)


def _product(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    """Rows of the first factor, columns of the second, lanes of the accumulator."""
    shape = shape_of(op.result.type)
    rank = len(shape)
    last, other = rank - 1, rank - 2
    first, second, accumulator, *scales = _by_name(op, parts)
    found = [] if accumulator is None else [accumulator]
    rows, columns = (last, last), (other, other)
    axes = [(first, rows), (second, columns)]
    # The scales of the second factor lie with its columns first.
    axes += zip(scales, (rows, (last, other)), strict=False)
    for part, (reduced, expanded) in axes:
        if part is None:
            continue
        line = b.expand(b.combine("tt.reduce", part, reduced, "ori"), expanded)
        if all(n in (1, m) for n, m in zip(shape_of(line.type), shape, strict=True)):
            found.append(b.broadcast(line, shape))
        else:  # factors packed along their outer axis
            found.append(b.spread(any_lane(b, part), op.result.type))
    return b.any_of(found)


def _by_name(op: Operation, parts: Parts) -> Parts:
    """One part for each operand in the operation's definition, given or not."""
    sizes = op.attributes.get("operandSegmentSizes")
    if not isinstance(sizes, tuple):
        return parts
    given = iter(parts)
    return [next(given) if size else None for size in sizes]


def _gather(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    source, position = parts
    found = [] if position is None else [position]
    if source is not None:
        moved = [source, op.operands[1]]
        found.append(b.value("tt.gather", moved, lane_type(op.result), op.attributes))
    return b.any_of(found)


def _histogram(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    source, *masks = parts
    found = _present(masks)
    if source is not None:
        counted = b.binary("andi", source, op.operands[1]) if len(op.operands) > 1 else source
        found.append(counted)
    return b.spread(any_lane(b, b.any_of(found)), op.result.type)
