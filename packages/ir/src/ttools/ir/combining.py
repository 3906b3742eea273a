"""Reductions and scans that combine integers by one operation, and what such a one may give.

Sums, products, minima and maxima along an axis, whatever wrote them: `tl.sum`, `tl.cumsum`, or
`tl.reduce` and `tl.associative_scan` with a function of the kernel's author.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.ir.core import Operation, Value, shape_of
from ttools.ir.dialects import declared
from ttools.ir.dialects.integers import UnknownError
from ttools.ir.dialects.traits import COMBINES, COMMUTATIVE
from ttools.ir.domains.intervals import Interval, IntervalDomain, hull

#: Beyond these bits it does not matter how large a result is.
_ENOUGH = 1 << 256


def combined_by(op: Operation) -> str | None:
    """Return the operation by which a reduction or scan of one tensor combines two elements.

    Returns:
        `arith.addi` for sums, for example; None where there is more to it.
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
    """Return whether the n-th result of a reduction or scan always is one of the n-th elements."""
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
    """Return between which numbers exact results of a reduction lie, or partial ones of a scan.

    Returns:
        None where it is not known how elements are combined, or the order matters.
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
    # A reduction has one result for each line, a scan one of as many lanes as its operand.
    scans = shape_of(op.results[0].type) == shape_of(op.operands[0].type)
    return partial if scans else total


def _combined(
    both: Callable[[Interval, Interval], Interval], elements: Interval, count: int
) -> tuple[Interval, Interval]:
    """Return the intervals of `count` combined elements, and of at most `count`, by halving."""
    if count == 1:
        return elements, elements
    half, partial = _combined(both, elements, count // 2)
    total = both(half, half)
    partial = hull((partial, both(half, partial)))
    if count % 2:
        total = both(total, elements)
        partial = hull((partial, total))
    return total, partial
