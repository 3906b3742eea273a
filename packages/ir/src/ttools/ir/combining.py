"""Intervals of results of integer reductions and scans that combine elements by one operation.

This covers sums, products, minima and maxima along an axis. They come from functions such as
`tl.sum` and `tl.cumsum`, or from `tl.reduce` and `tl.associative_scan` with a user's function.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.ir.core import Operation, Value, shape_of
from ttools.ir.dialects import declared
from ttools.ir.dialects.integers import UnknownError
from ttools.ir.dialects.traits import COMBINES, COMMUTATIVE
from ttools.ir.domains.intervals import Interval, IntervalDomain, hull

#: Bounds of intervals are limited to this magnitude, because exact bounds of long products would
#: have very many digits. It exceeds the range of every integer type.
_ENOUGH = 1 << 256


def combined_by(op: Operation) -> str | None:
    """Return the name of the operation that combines two elements in a reduction or scan.

    Returns:
        For example `arith.addi` for a sum. None if the combine function consists of more than one
        operation, or if several tensors are reduced together.
    """
    if not op.has(COMBINES) or "axis" not in op.attributes or len(op.operands) != 1:
        return None
    body = op.regions[0].entry
    if len(body.operations) != 2:
        return None
    combine, end = body.operations
    of_both = len(combine.operands) == 2 and set(combine.operands) == set(body.arguments)
    return combine.name if of_both and end.operands == combine.results else None


def chooses(op: Operation, n: int) -> bool:
    """Return whether each element of the n-th result is one of the elements of the n-th operand.

    This holds for both results of `tl.max(x, return_indices=True)`, whose combine function selects
    one of two values and one of two indices.
    """
    body, count = op.regions[0].entry, len(op.operands)
    own = (body.arguments[n], body.arguments[n + count])

    def is_own(value: Value) -> bool:
        made = value.defining_op
        chosen = made and (made.operand("true_value"), made.operand("false_value"))
        if chosen and chosen[0] is not None and chosen[1] is not None:
            return is_own(chosen[0]) and is_own(chosen[1])
        return value in own

    return len(body.arguments) == 2 * count and is_own(body.terminator.operands[n])


def combined_range(op: Operation, elements: Interval) -> Interval | None:
    """Return an interval of the exact results of a reduction, or of the partial results of a scan.

    Args:
        elements: Interval of the operand's elements.

    Returns:
        None if the combine function is not a single commutative integer operation.
    """
    name = combined_by(op)
    meant = declared(name).integer if name is not None else None
    if name is None or meant is None or COMMUTATIVE not in declared(name).traits:
        return None
    combine, domain = op.regions[0].entry.operations[0], IntervalDomain()

    def both(a: Interval, b: Interval) -> Interval:
        low, high = meant(domain, (a, b), combine)
        return max(low, -_ENOUGH), min(high, _ENOUGH)

    try:
        total, partial = _combined(both, elements, shape_of(op.operands[0].type)[op.axis])
    except UnknownError:
        return None
    # The result of a scan has the shape of its operand; a reduction removes the axis.
    scans = shape_of(op.results[0].type) == shape_of(op.operands[0].type)
    return partial if scans else total


def _combined(
    both: Callable[[Interval, Interval], Interval], elements: Interval, count: int
) -> tuple[Interval, Interval]:
    """Return the intervals of exactly `count`, and of 1 to `count`, combined elements.

    For the sum of elements in [1, 3] and `count` 4, these are [4, 12] and [1, 12]. The number of
    elements is halved at each recursion, so that long axes take few steps.
    """
    if count == 1:
        return elements, elements
    half, partial = _combined(both, elements, count // 2)
    total = both(half, half)
    partial = hull((partial, both(half, partial)))
    if count % 2:
        total = both(total, elements)
        partial = hull((partial, total))
    return total, partial
