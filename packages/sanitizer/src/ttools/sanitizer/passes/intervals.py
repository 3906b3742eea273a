"""Intervals of a kernel's integers in one launch, from its scalar arguments and its grid.

A forward analysis in Python's integers: the range of what every integer value may hold, and for
every operation whether its exact result may not fit its type. Must not know which of those matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ttools.interpreter.analysis.regularity import Regularity
from ttools.interpreter.dialects import declared
from ttools.interpreter.dialects.integer_ranges import Interval, full, hull
from ttools.interpreter.dialects.traits import (
    CHOOSES,
    COMBINES,
    FROM_COORDINATES,
    GATHERS,
    STRUCTURED,
)
from ttools.interpreter.ir import Block, IntegerType, Operation, Value, as_signed, element_type
from ttools.interpreter.ir.dataflow import control_sources
from ttools.sanitizer.analysis.dataflow import constant_of, holder_of, operations
from ttools.sanitizer.passes.combining import combined_by, product_of, sum_of
from ttools.sanitizer.passes.lanes import MOVES

#: After so many rounds a value that still grows is taken to be anything.
_PATIENCE = 4


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
        known = [self.of(v) for v in sources if v in reached or not width_of(v)]
        if not sources:
            return full(width_of(value))
        return hull(known) if known else None

    def _known_operand(self, value: Value, reached: set[Value]) -> Interval | None:
        if not width_of(value):
            return (0, 0)
        return self.of(value) if value in reached else None

    def _result(self, op: Operation, value: Value, operands: list[Interval]) -> Interval:
        width = width_of(value)
        everything = full(width)
        if op.name in ("tt.get_program_id", "tt.get_num_programs"):
            count = self._grid[op.axis] if op.axis < len(self._grid) else 1
            return (0, max(0, count - 1)) if op.name == "tt.get_program_id" else (count, count)
        exact = _exact(op, operands) if width else None
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
        if loop is None or any(v not in reached for v in loop.operands[:3] if width_of(v)):
            return None
        lower, upper, step = (self.of(v) for v in loop.operands[:3])
        if number < 0:
            return (lower[0], max(lower[0], upper[1] - 1)) if step[0] > 0 else full(width_of(value))
        body = loop.regions[0].entry
        argument, yielded = body.arguments[1 + number], body.terminator.operands[number]
        addends = Regularity().increments(argument, yielded)
        initial = loop.operands[3 + number]
        if addends is None or step[0] <= 0 or (initial not in reached and width_of(initial)):
            return None
        if any(v not in reached and width_of(v) for v in addends):
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


def _position_in_loop(value: Value) -> tuple[Operation | None, int]:
    """The counted loop that carries a value, and as which one; -1 is its counter."""
    op = value.defining_op
    if op is not None:
        return (op, value.index) if op.name == "scf.for" else (None, 0)
    assert isinstance(value.owner, Block)
    parent = holder_of(value.owner)
    if parent is not None and parent.name == "scf.for":
        return parent, value.index - 1
    return None, 0


# ---- exact results; None where nothing is known


def _exact(op: Operation, operands: list[Interval]) -> Interval | None:
    if op.has(FROM_COORDINATES):
        return _from_coordinates(op)
    if op.has(COMBINES):
        return _combined(op, operands[0])
    if op.has(GATHERS):
        return operands[0]
    if op.name in MOVES:
        return hull(operands)
    rule = declared(op.name).range
    return rule(operands, width_of(op.operands[0])) if rule is not None else None


def _from_coordinates(op: Operation) -> Interval | None:
    """The values of a constant or a range."""
    if op.name == "tt.make_range":
        start, end = op.attributes["start"], op.attributes["end"]
        assert isinstance(start, int)
        assert isinstance(end, int)
        return start, end - 1
    data, element = constant_of(op.result), element_type(op.result.type)
    if data is None or not isinstance(element, IntegerType):
        return None
    values = [as_signed(bits, element.width) for bits in data.bits]
    return min(values), max(values)


def _combined(op: Operation, elements: Interval) -> Interval | None:
    """Minima and maxima stay among the elements; sums and products grow with their number."""
    combine = combined_by(op)
    if combine is not None and CHOOSES in declared(combine).traits:
        return elements
    grown = {"arith.addi": sum_of, "arith.muli": product_of}.get(combine or "")
    return grown(op, elements) if grown is not None else None
