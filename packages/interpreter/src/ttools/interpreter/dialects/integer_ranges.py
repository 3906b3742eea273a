"""Ranges of integers: what the exact result of an operation may be, by those of its operands.

What MLIR's InferIntRangeInterface is there
(https://mlir.llvm.org/docs/Interfaces/), in Python's integers, which do not wrap: a caller sees
whether a result fits its type. Must not know values, types or constants of the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Interval: TypeAlias = "tuple[int, int]"
#: Takes the interval of each operand and the bits of the first one; None where nothing is known.
RangeRule: TypeAlias = "Callable[[Sequence[Interval], int], Interval | None]"


def full(width: int) -> Interval:
    """All values of a signed integer; an i1 is 0 or 1."""
    return (0, 1) if width == 1 else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def hull(intervals: Sequence[Interval]) -> Interval:
    """The smallest interval around all."""
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def _corners(compute: Callable[[int, int], int]) -> RangeRule:
    """Functions that are monotone in each operand."""

    def rule(operands: Sequence[Interval], width: int) -> Interval | None:
        (a, b), (c, d) = operands
        values = [compute(x, y) for x in (a, b) for y in (c, d)]
        return min(values), max(values)

    return rule


def _unsigned(signed: RangeRule) -> RangeRule:
    """The same of operands that are read without a sign, where that makes no difference."""

    def rule(operands: Sequence[Interval], width: int) -> Interval | None:
        return None if any(low < 0 for low, _ in operands) else signed(operands, width)

    return rule


def _shift_left(operands: Sequence[Interval], width: int) -> Interval | None:
    (low, high), (least, most) = operands
    if least < 0 or most > 64:
        return full(128)
    values = [x << n for x in (low, high) for n in (least, most)]
    return min(values), max(values)


def _shift_right(operands: Sequence[Interval], width: int) -> Interval | None:
    (low, high), (least, most) = operands
    if least < 0:
        return None
    values = [x >> min(n, 64) for x in (low, high) for n in (least, most)]
    return min(values), max(values)


def _quotient(rounded: Callable[[int, int], int]) -> RangeRule:
    def rule(operands: Sequence[Interval], width: int) -> Interval | None:
        (a, b), (c, d) = operands
        if c <= 0 <= d:
            return None
        values = [rounded(x, y) for x in (a, b) for y in (c, d)]
        # A quotient is nearest to 0 by the largest divisor; 0 lies between mixed signs.
        return (min(*values, 0), max(*values, 0)) if a <= 0 <= b else (min(values), max(values))

    return rule


def _truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(operands: Sequence[Interval], width: int) -> Interval | None:
    (a, b), (c, d) = operands
    if c <= 0 <= d:
        return None
    most = max(abs(c), abs(d)) - 1
    return (0 if a >= 0 else max(a, -most)), (0 if b <= 0 else min(b, most))


def _conjunction(operands: Sequence[Interval], width: int) -> Interval | None:
    highs = [high for low, high in operands if low >= 0]
    return (0, min(highs)) if highs else None


def _disjunction(operands: Sequence[Interval], width: int) -> Interval | None:
    return 0, (1 << max(high for _, high in operands).bit_length()) - 1


def _sign_extension(operands: Sequence[Interval], width: int) -> Interval | None:
    ((low, high),) = operands
    return (-high, -low) if width == 1 else (low, high)


def _zero_extension(operands: Sequence[Interval], width: int) -> Interval | None:
    ((low, high),) = operands
    return (low, high) if low >= 0 else (0, (1 << width) - 1)


def _same(operands: Sequence[Interval], width: int) -> Interval | None:
    return operands[0]


def _arms(operands: Sequence[Interval], width: int) -> Interval | None:
    return hull(operands[1:])


def _truth(operands: Sequence[Interval], width: int) -> Interval | None:
    return 0, 1


_TRUNCATED, _LEAST, _MOST = _quotient(_truncated), _corners(min), _corners(max)

#: By the name in `arith`.
ARITH: dict[str, RangeRule] = {
    "addi": _corners(lambda x, y: x + y),
    "subi": _corners(lambda x, y: x - y),
    "muli": _corners(lambda x, y: x * y),
    "shli": _shift_left,
    "shrsi": _shift_right,
    "shrui": _unsigned(_shift_right),
    "divsi": _TRUNCATED,
    "divui": _unsigned(_TRUNCATED),
    "floordivsi": _quotient(lambda x, y: x // y),
    "ceildivsi": _quotient(lambda x, y: -(-x // y)),
    "remsi": _remainder,
    "remui": _unsigned(_remainder),
    "andi": _conjunction,
    "ori": _unsigned(_disjunction),
    "xori": _unsigned(_disjunction),
    "minsi": _LEAST,
    "maxsi": _MOST,
    "minui": _unsigned(_LEAST),
    "maxui": _unsigned(_MOST),
    "extsi": _sign_extension,
    "extui": _zero_extension,
    "trunci": _same,
    "index_cast": _same,
    "select": _arms,
    "cmpi": _truth,
    "cmpf": _truth,
}
