"""Intervals of a kernel's integers in one launch, from its scalar arguments and its grid.

A forward analysis in Python's integers: the range of what every integer value may hold, and for
every operation whether its exact result may not fit its type. Must not know which of those matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ttools.interpreter.analysis.regularity import Regularity
from ttools.interpreter.dialects.traits import STRUCTURED
from ttools.interpreter.ir import (
    Block,
    Constant,
    IntegerType,
    Operation,
    Value,
    as_signed,
    element_type,
)
from ttools.sanitizer.analysis.dataflow import control_sources, operations
from ttools.sanitizer.passes.combining import Interval, combined_by, product_of, sum_of
from ttools.sanitizer.passes.lanes import MOVES

#: After so many rounds a value that still grows is taken to be anything.
_PATIENCE = 4


def full(width: int) -> Interval:
    """All values of a signed integer; an i1 is 0 or 1."""
    return (0, 1) if width == 1 else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def width_of(value: Value) -> int:
    """The bits of an integer's elements, 0 for anything else."""
    element = element_type(value.type)
    return element.width if isinstance(element, IntegerType) else 0


def bits_for(interval: Interval) -> int:
    """The width of the narrowest usual integer that holds an interval."""
    low, high = interval
    for width in (8, 16, 32):
        least, most = full(width)
        if least <= low and high <= most:
            return width
    return 64


class Intervals:
    """The intervals of one kernel in one launch.

    Args:
        kernel: the function.
        scalars: values of its integer parameters by index; others are unknown.
        grid: how many programs there are along each axis.

    Attributes:
        exact: of operations whose exact result may not fit their type, the interval of that.
    """

    def __init__(self, kernel: Operation, scalars: Mapping[int, int], grid: Sequence[int]) -> None:
        self.exact: dict[Operation, Interval] = {}
        self._grid = grid
        self._known: dict[Value, Interval] = {}
        self._kernel = kernel
        for index, argument in enumerate(kernel.regions[0].entry.arguments):
            if index in scalars and width_of(argument):
                self._known[argument] = (scalars[index], scalars[index])
        self._parameters = frozenset(kernel.regions[0].entry.arguments)
        self._solve(list(operations(kernel)))

    def of(self, value: Value) -> Interval:
        """What an integer value may hold."""
        return self._known.get(value, full(width_of(value)))

    def _solve(self, ops: list[Operation]) -> None:
        reached: set[Value] = set(self._parameters)
        for iteration in range(_PATIENCE + 64):
            self.exact.clear()
            changed = False
            for op in [self._kernel, *ops]:
                for value in self._values(op):
                    if not width_of(value) or value in self._parameters:
                        continue
                    new = self._compute(value, reached)
                    if new is None:
                        continue
                    old = self._known.get(value) if value in reached else None
                    if old is not None:
                        new = (min(old[0], new[0]), max(old[1], new[1]))
                    if new != old:
                        changed = True
                        if iteration >= _PATIENCE and self._is_moved(value):
                            new = full(width_of(value))
                    self._known[value] = new
                    reached.add(value)
            if not changed:
                return
        self._known.clear()  # cannot happen, and says nothing if it does
        for op in ops:
            for value in op.results:
                self._compute(value, set(self._parameters))

    def _values(self, op: Operation) -> list[Value]:
        values = list(op.results)
        for region in op.regions if op.has(STRUCTURED) or op is self._kernel else ():
            values += [argument for block in region.blocks for argument in block.arguments]
        return values

    def _is_moved(self, value: Value) -> bool:
        op = value.defining_op
        return op is None or op.has(STRUCTURED)

    def _compute(self, value: Value, reached: set[Value]) -> Interval | None:
        """The interval by what is known so far; None if nothing has reached the value."""
        op = value.defining_op
        if op is not None and not op.has(STRUCTURED):
            operands = [self._known_operand(v, reached) for v in op.operands]
            if any(operand is None for operand in operands):
                return None
            return self._result(op, value, [o for o in operands if o is not None])
        carried = self._carried(value, reached)
        if carried is not None:
            return carried
        sources = control_sources(value)
        known = [self.of(v) for v in sources if v in reached or not _is_tracked(v)]
        if not sources:
            return full(width_of(value))
        return _hull(known) if known else None

    def _known_operand(self, value: Value, reached: set[Value]) -> Interval | None:
        if not width_of(value):
            return (0, 0)
        return self.of(value) if value in reached else None

    def _result(self, op: Operation, value: Value, operands: list[Interval]) -> Interval:
        width = width_of(value)
        everything = full(width)
        if op.name in ("tt.get_program_id", "tt.get_num_programs"):
            axis = op.attributes["axis"]
            assert isinstance(axis, int)
            count = self._grid[axis] if axis < len(self._grid) else 1
            return (0, max(0, count - 1)) if op.name == "tt.get_program_id" else (count, count)
        rule = _RULES.get(op.name)
        if rule is None or width == 0:
            return everything
        exact = rule(op, operands)
        if exact is None:
            return everything
        if everything[0] <= exact[0] and exact[1] <= everything[1]:
            return exact
        self.exact[op] = exact
        return everything

    # ---- loops
    def _carried(self, value: Value, reached: set[Value]) -> Interval | None:
        """The counter of a counted loop, and what grows by steady steps in it."""
        loop, number = _position_in_loop(value)
        if loop is None or any(v not in reached for v in loop.operands[:3] if _is_tracked(v)):
            return None
        lower, upper, step = (self.of(v) for v in loop.operands[:3])
        if number < 0:
            return (lower[0], max(lower[0], upper[1] - 1)) if step[0] > 0 else full(width_of(value))
        body = loop.regions[0].entry
        argument, yielded = body.arguments[1 + number], body.terminator.operands[number]
        addends = Regularity().increments(argument, yielded)
        initial = loop.operands[3 + number]
        if addends is None or step[0] <= 0 or (initial not in reached and _is_tracked(initial)):
            return None
        if any(v not in reached and _is_tracked(v) for v in addends):
            return self.of(initial)
        trips = max(0, -((lower[0] - upper[1]) // step[0]))
        if isinstance(value.owner, Block):
            trips = max(0, trips - 1)
        growth = [self.of(v) for v in addends]
        low = trips * min(0, sum(g[0] for g in growth))
        high = trips * max(0, sum(g[1] for g in growth))
        first = self.of(initial)
        least, most = full(width_of(value))
        found = (first[0] + low, first[1] + high)
        return found if least <= found[0] and found[1] <= most else (least, most)


def _is_tracked(value: Value) -> bool:
    return width_of(value) > 0


def _position_in_loop(value: Value) -> tuple[Operation | None, int]:
    """The counted loop that carries a value, and as which one; -1 is its counter."""
    op = value.defining_op
    if op is not None:
        return (op, value.index) if op.name == "scf.for" else (None, 0)
    assert isinstance(value.owner, Block)
    region = value.owner.parent
    parent = region.parent if region is not None else None
    if parent is not None and parent.name == "scf.for":
        return parent, value.index - 1
    return None, 0


def _hull(intervals: Sequence[Interval]) -> Interval:
    return min(low for low, _ in intervals), max(high for _, high in intervals)


# ---- exact results; None where nothing is known

_Rule: TypeAlias = "Callable[[Operation, list[Interval]], Interval | None]"


def _constant(op: Operation, _: list[Interval]) -> Interval | None:
    data = op.attributes["value"]
    element = element_type(op.result.type)
    if not isinstance(data, Constant) or not isinstance(element, IntegerType):
        return None
    values = [as_signed(bits, element.width) for bits in data.bits]
    return min(values), max(values)


def _range(op: Operation, _: list[Interval]) -> Interval | None:
    start, end = op.attributes["start"], op.attributes["end"]
    assert isinstance(start, int)
    assert isinstance(end, int)
    return start, end - 1


def _corners(compute: Callable[[int, int], int]) -> _Rule:
    """Functions that are monotone in each operand."""

    def rule(op: Operation, operands: list[Interval]) -> Interval | None:
        (a, b), (c, d) = operands
        values = [compute(x, y) for x in (a, b) for y in (c, d)]
        return min(values), max(values)

    return rule


def _shift_left(op: Operation, operands: list[Interval]) -> Interval | None:
    (low, high), (least, most) = operands
    if least < 0 or most > 64:
        return full(128)
    values = [x << n for x in (low, high) for n in (least, most)]
    return min(values), max(values)


def _shift_right(op: Operation, operands: list[Interval]) -> Interval | None:
    (low, high), (least, most) = operands
    if least < 0 or (low < 0 and op.name == "arith.shrui"):
        return None
    values = [x >> min(n, 64) for x in (low, high) for n in (least, most)]
    return min(values), max(values)


def _quotient(rounded: Callable[[int, int], int]) -> _Rule:
    def rule(op: Operation, operands: list[Interval]) -> Interval | None:
        (a, b), (c, d) = operands
        if c <= 0 <= d or (a < 0 and op.name.endswith("ui")) or (c < 0 and op.name.endswith("ui")):
            return None
        values = [rounded(x, y) for x in (a, b) for y in (c, d)]
        # A quotient is nearest to 0 by the largest divisor; 0 lies between mixed signs.
        return (min(*values, 0), max(*values, 0)) if a <= 0 <= b else (min(values), max(values))

    return rule


def _truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(op: Operation, operands: list[Interval]) -> Interval | None:
    (a, b), (c, d) = operands
    if c <= 0 <= d or (op.name.endswith("ui") and (a < 0 or c < 0)):
        return None
    most = max(abs(c), abs(d)) - 1
    return (0 if a >= 0 else max(a, -most)), (0 if b <= 0 else min(b, most))


def _conjunction(op: Operation, operands: list[Interval]) -> Interval | None:
    highs = [high for low, high in operands if low >= 0]
    return (0, min(highs)) if highs else None


def _disjunction(op: Operation, operands: list[Interval]) -> Interval | None:
    if any(low < 0 for low, _ in operands):
        return None
    return 0, (1 << max(high for _, high in operands).bit_length()) - 1


def _extension(op: Operation, operands: list[Interval]) -> Interval | None:
    ((low, high),) = operands
    width = width_of(op.operands[0])
    if op.name == "arith.extsi":
        return (-high, -low) if width == 1 else (low, high)
    return (low, high) if low >= 0 else (0, (1 << width) - 1)


def _unsigned_extreme(signed: _Rule) -> _Rule:
    def rule(op: Operation, operands: list[Interval]) -> Interval | None:
        return None if any(low < 0 for low, _ in operands) else signed(op, operands)

    return rule


def _same(op: Operation, operands: list[Interval]) -> Interval | None:
    return _hull(operands)


def _arms(op: Operation, operands: list[Interval]) -> Interval | None:
    return _hull(operands[1:])


def _first(op: Operation, operands: list[Interval]) -> Interval | None:
    return operands[0]


_EXTREMES = {"arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui"}


def _combined(op: Operation, operands: list[Interval]) -> Interval | None:
    """Minima and maxima stay among the elements; sums and products grow with their number."""
    combine = combined_by(op)
    if combine in _EXTREMES:
        return operands[0]
    grown = _GROWING.get(combine) if combine is not None else None
    return grown(op, operands[0]) if grown is not None else None


_GROWING = {"arith.addi": sum_of, "arith.muli": product_of}
_LEAST, _MOST = _corners(min), _corners(max)
_RULES: dict[str, _Rule] = {
    "arith.constant": _constant,
    "tt.make_range": _range,
    "arith.addi": _corners(lambda x, y: x + y),
    "arith.subi": _corners(lambda x, y: x - y),
    "arith.muli": _corners(lambda x, y: x * y),
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right,
    "arith.shrui": _shift_right,
    "arith.divsi": _quotient(_truncated),
    "arith.divui": _quotient(_truncated),
    "arith.floordivsi": _quotient(lambda x, y: x // y),
    "arith.ceildivsi": _quotient(lambda x, y: -(-x // y)),
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.andi": _conjunction,
    "arith.ori": _disjunction,
    "arith.xori": _disjunction,
    "arith.minsi": _LEAST,
    "arith.maxsi": _MOST,
    "arith.minui": _unsigned_extreme(_LEAST),
    "arith.maxui": _unsigned_extreme(_MOST),
    "arith.extsi": _extension,
    "arith.extui": _extension,
    "arith.trunci": _same,
    "arith.index_cast": _same,
    "arith.select": _arms,
    "arith.cmpi": lambda op, operands: (0, 1),
    "arith.cmpf": lambda op, operands: (0, 1),
    "tt.gather": _first,
    "tt.reduce": _combined,
    "tt.scan": _combined,
    **dict.fromkeys(MOVES, _same),
}
