"""Reductions and scans that combine integers by one operation, and what such a one may give.

Sums, products, minima and maxima along an axis, whatever wrote them: `tl.sum`, `tl.cumsum`, or
`tl.reduce` and `tl.associative_scan` with a function of the kernel's author. Must not know who
asks.
"""

from __future__ import annotations

from ttools.interpreter.dialects.integer_ranges import Interval
from ttools.interpreter.ir import Operation, Value, shape_of

#: Beyond these bits it does not matter how large a product is.
_ENOUGH = 256


def combined_by(op: Operation) -> str | None:
    """The operation by which a reduction or scan of one tensor combines two elements.

    Returns:
        `arith.addi` for sums, for example; None where there is more to it.
    """
    if op.name not in ("tt.reduce", "tt.scan") or len(op.operands) != 1:
        return None
    body = op.regions[0].entry
    if len(body.operations) != 2:
        return None
    combine, end = body.operations
    of_both = len(combine.operands) == 2 and set(combine.operands) == set(body.arguments)
    return combine.name if of_both and end.operands == combine.results else None


def chooses(op: Operation, n: int) -> bool:
    """Whether the n-th result of a reduction or scan always is one of the n-th elements."""
    body, count = op.regions[0].entry, len(op.operands)
    own = (body.arguments[n], body.arguments[n + count])

    def is_own(value: Value) -> bool:
        made = value.defining_op
        chosen = made and (made.operand("true_value"), made.operand("false_value"))
        if chosen and chosen[0] is not None and chosen[1] is not None:
            return is_own(chosen[0]) and is_own(chosen[1])
        return value in own

    return len(body.arguments) == 2 * count and is_own(body.terminator.operands[n])


def sum_of(op: Operation, elements: Interval) -> Interval:
    """The interval of exact sums along the axis of a reduction, or of partial sums of a scan."""
    low, high = elements
    count = _count(op)
    if op.name == "tt.reduce":
        return count * low, count * high
    return min(low, count * low), max(high, count * high)


def product_of(op: Operation, elements: Interval) -> Interval:
    """The interval of exact products along the axis, or of all partial ones."""
    low, high = elements
    largest = max(abs(low), abs(high))
    bits = (largest.bit_length() - 1) * _count(op)
    most = max(1, largest ** _count(op)) if bits <= _ENOUGH else 1 << _ENOUGH
    return (-most if low < 0 else 0), most


def _count(op: Operation) -> int:
    return shape_of(op.operands[0].type)[op.axis]
