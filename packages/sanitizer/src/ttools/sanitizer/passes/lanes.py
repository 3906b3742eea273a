"""Rules by which marks, one boolean per lane, propagate through operations.

A lane of a result is marked if a lane from which it is computed is marked. Elementwise operations
keep lanes separate; views move them; reductions, scans and products combine them. There is one
function for each family of operations. Passes override the rules for which they have more exact
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ttools.interpreter.elementwise as elementwise
from ttools.ir import Constant, Operation, TensorType, Type, Value, shape_of
from ttools.ir.dialects.traits import DISPLACES, SELECTS
from ttools.ir.rewriting import BOOLEAN, Builder, with_element
from ttools.ir.semantics import is_view

#: The marks of an operation's operands; None for each operand that is never marked.
Parts = Sequence["Value | None"]
LaneBuilder = Callable[[Builder, Operation, int, Parts], Value]


def lane_type(value: Value) -> Type:
    """Return the type of one boolean per lane of `value`."""
    return with_element(value.type, BOOLEAN)


def unmarked(b: Builder, value: Value) -> Value:
    """Return marks for `value` in which no lane is set."""
    return b.constant(lane_type(value), 0)


def lane_builder(op: Operation) -> LaneBuilder | None:
    """Return the function that combines the marks of operands; None for unsupported operations."""
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
    """Return whether each lane of the results depends only on the same lane of the operands."""
    if not op.results or not (op.has(DISPLACES) or elementwise.is_elementwise(op.name)):
        return False
    shape = shape_of(op.results[0].type)
    return all(shape_of(v.type) == shape for v in op.operands) or op.has(SELECTS)


def within(b: Builder, condition: Value, mask: Value | None) -> Value:
    """Restrict a condition to the lanes that a mask sets; a mask of None sets all lanes."""
    return condition if mask is None else b.binary("andi", condition, mask)


def outside(b: Builder, condition: Value, mask: Value | None) -> Value:
    """Restrict a condition to the lanes that a mask clears; a mask of None leaves it unchanged."""
    return condition if mask is None else b.binary("andi", condition, b.negate(mask))


def any_lane(b: Builder, condition: Value) -> Value:
    """Return a scalar that is true if any lane is marked."""
    if not isinstance(condition.type, TensorType):
        return condition
    if len(condition.type.shape) > 1:
        flat = TensorType((condition.type.numel,), BOOLEAN)
        condition = b.value("tt.reshape", [condition], flat)
    return b.combine("tt.reduce", condition, 0, "ori")


def compare_floats(b: Builder, predicate: str, first: Value, second: Value) -> Value:
    """Compare two floats of one type."""
    type = with_element(first.type, BOOLEAN)
    return b.value("arith.cmpf", [first, second], type, {"predicate": predicate})


def float_constant(b: Builder, type: Type, bits: int) -> Value:
    """Return a float with the given bits, or a tensor of such floats."""
    return b.value("arith.constant", [], type, {"value": Constant(type, (bits,))})


def swapped(b: Builder, condition: Value | None, axis: int) -> Value:
    """Return marks with the two neighbours along an axis of extent 2 exchanged."""
    assert condition is not None
    both = b.expand(b.combine("tt.reduce", condition, axis, "xori"), axis)
    return b.binary("xori", condition, b.broadcast(both, shape_of(condition.type)))


def _present(parts: Parts) -> list[Value]:
    return [part for part in parts if part is not None]


def _lanewise(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    like = op.results[index].type
    return b.any_of([b.spread(part, like) for part in _present(parts)])


def _selection(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    """Return the marks of the chosen value, combined with those of the condition."""
    condition = op.operands[0]
    chosen, first, second = parts
    marks = []
    if chosen is not None:
        marks.append(b.spread(chosen, op.result.type))
    if first is not None:
        marks.append(b.binary("andi", first, condition))
    if second is not None:
        marks.append(outside(b, second, condition))
    return b.any_of(marks)


def _same_shape_change(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    """Apply the operation itself to the marks, because it only moves lanes."""
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
    """Return the marks of a matrix product.

    An element of the product is marked if any element in its row of the first factor or in its
    column of the second factor is marked, or if its element of the accumulator is.
    """
    shape = shape_of(op.result.type)
    rank = len(shape)
    last, other = rank - 1, rank - 2
    first, second, accumulator, *scales = _by_name(op, parts)
    marks = [] if accumulator is None else [accumulator]
    rows, columns = (last, last), (other, other)
    axes = [(first, rows), (second, columns)]
    # In the scales of the second factor, the first axis corresponds to the factor's columns.
    axes += zip(scales, (rows, (last, other)), strict=False)
    for part, (reduced, expanded) in axes:
        if part is None:
            continue
        line = b.expand(b.combine("tt.reduce", part, reduced, "ori"), expanded)
        if all(n in (1, m) for n, m in zip(shape_of(line.type), shape, strict=True)):
            marks.append(b.broadcast(line, shape))
        else:  # factors packed along their outer axis
            marks.append(b.spread(any_lane(b, part), op.result.type))
    return b.any_of(marks)


def _by_name(op: Operation, parts: Parts) -> Parts:
    """Return one part for each declared operand of the operation; None for omitted operands."""
    sizes = op.attributes.get("operandSegmentSizes")
    if not isinstance(sizes, tuple):
        return parts
    present = iter(parts)
    return [next(present) if size else None for size in sizes]


def _gather(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    source, position = parts
    marks = [] if position is None else [position]
    if source is not None:
        moved = [source, op.operands[1]]
        marks.append(b.value("tt.gather", moved, lane_type(op.result), op.attributes))
    return b.any_of(marks)


def _histogram(b: Builder, op: Operation, index: int, parts: Parts) -> Value:
    source, *masks = parts
    marks = _present(masks)
    if source is not None:
        counted = b.binary("andi", source, op.operands[1]) if len(op.operands) > 1 else source
        marks.append(counted)
    return b.spread(any_lane(b, b.any_of(marks)), op.result.type)
