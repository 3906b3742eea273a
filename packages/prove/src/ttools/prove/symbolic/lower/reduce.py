"""Rules for reductions and scans."""

from __future__ import annotations

from ttools.ir import IntegerType, Operation, Value, element_type, shape_of
from ttools.ir.combining import chooses, combined_by, combined_range
from ttools.ir.dialects import declared
from ttools.ir.dialects.traits import CHOOSES
from ttools.ir.expr import LANE, as_expr
from ttools.prove.attributes import width_of
from ttools.prove.rules import require_modelled
from ttools.prove.symbolic.operations import otherwise, rule, several
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import (
    AnyValue,
    Number,
    Renamer,
    lane,
    moved_copy,
)
from ttools.prove.symbolic.views import renamed


def _range_of(kernel: State, op: Operation) -> tuple[int, int] | None:
    """Return an interval that contains all elements that are combined; None if it is unknown."""
    return _ends_of(kernel, kernel.get(op.operands[0])) if len(op.operands) == 1 else None


def _ends_of(kernel: State, value: AnyValue) -> tuple[int, int] | None:
    """Return an interval that contains a number; None if it is unknown or there are obligations."""
    if not isinstance(value, Number) or any(c.needs for c in value.cases):
        return None
    ranges = [kernel.space.range(c.value) for c in value.cases]
    lows, highs = [r[0] for r in ranges], [r[1] for r in ranges]
    if None in lows or None in highs:
        return None
    return min(n for n in lows if n is not None), max(n for n in highs if n is not None)


def _chosen(kernel: State, op: Operation, operand: Value, result: Value) -> AnyValue:
    """Return the element at an unknown position along the axis of a reduction."""
    if not isinstance(kernel.get(operand), Number):
        return otherwise(kernel, op, result)
    axis, shape = op.axis, shape_of(operand.type)
    which = kernel.data(result, 0, shape[axis] - 1, "chosen")
    places = {axis: as_expr(which)}
    for later in range(axis + 1, len(shape)):
        places[later] = kernel.lane(later - 1, shape[later])
    how = ("chosen", which)
    renamer = Renamer(lambda s: moved_copy(s, how) if s.level > LANE and s != which else None)
    renamer.replaced |= {lane(a, shape[a]): p for a, p in places.items() if shape[a] > 1}
    return renamed(kernel, operand, renamer, [result.type])


@several("tt.reduce")
def _chosen_together(kernel: State, op: Operation) -> list[AnyValue]:
    """Evaluate a reduction of several tiles, such as that of `tl.argmax`.

    A result that is always one of the elements of its operand is evaluated as the element at an
    unknown position. All other results are unknown.
    """
    require_modelled(op)
    values: list[AnyValue] = []
    for n, (operand, result) in enumerate(zip(op.operands, op.results, strict=True)):
        is_chosen = chooses(op, n) and isinstance(element_type(result.type), IntegerType)
        values.append(
            _chosen(kernel, op, operand, result) if is_chosen else otherwise(kernel, op, result)
        )
    return values


@rule("tt.reduce", "tt.scan")
def _combined(kernel: State, op: Operation) -> AnyValue:
    """Evaluate a reduction or a scan of one tile.

    A result that is always one of the elements, as for `tl.max`, is evaluated as the element at an
    unknown position. For other functions, such as sums, the range of the result follows from the
    range of the elements.
    """
    result, elements, by = op.results[0], _range_of(kernel, op), combined_by(op)
    if op.name == "tt.reduce" and by is not None and CHOOSES in declared(by).traits:
        return _chosen(kernel, op, op.operands[0], result)
    if elements is not None and by is not None:
        bounds, half = combined_range(op, elements), 1 << (width_of(result) - 1)
        if bounds is not None and -half <= bounds[0] and bounds[1] < half:
            return kernel.unknown(result, *bounds)
    return otherwise(kernel, op, result)
