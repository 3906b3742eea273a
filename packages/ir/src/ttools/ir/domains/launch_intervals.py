"""Intervals of a kernel's integers in one launch, from its scalar arguments and its grid.

The analysis also determines which operations may have an exact result that does not fit its type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ttools.ir.combining import combined_range
from ttools.ir.core import Block, Operation, Value
from ttools.ir.dataflow import (
    ForwardAnalysis,
    carried_values,
    control_sources,
    counted_loop,
)
from ttools.ir.dialects.traits import COMBINES, GATHERS, STRUCTURED
from ttools.ir.domains.intervals import Interval, IntervalDomain, full, holds, hull
from ttools.ir.domains.regularity import Regularity
from ttools.ir.nesting import outside_combines
from ttools.ir.semantics import lanes_of, meaning, width_of

#: After this many iterations, an interval that still grows is widened to the range of its type.
_PATIENCE = 4


class Intervals(ForwardAnalysis[Interval]):
    """The intervals of the integers of one kernel in one launch.

    Args:
        kernel: A function without calls.
        scalars: Values of its integer parameters by index; parameters not listed are unknown.
        grid: Number of programs along each axis.

    Attributes:
        exact: Intervals of exact results, for operations whose result may not fit its type.
    """

    def __init__(self, kernel: Operation, scalars: Mapping[int, int], grid: Sequence[int]) -> None:
        super().__init__()
        self._domain, self._regularity = IntervalDomain(grid), Regularity()
        parameters = kernel.regions[0].entry.arguments
        self._parameters = frozenset(parameters)
        for index, argument in enumerate(parameters):
            if width := width_of(argument):
                number = scalars.get(index)
                self.states[argument] = full(width) if number is None else (number, number)
        self.solve(kernel)
        self.exact: dict[Operation, Interval] = {}
        for op in outside_combines(kernel):
            if op.results and (width := width_of(op.results[0])) and not op.has(STRUCTURED):
                exact = self._exact(op, op.results[0])
                if exact is not None and not holds(full(width), exact):
                    self.exact[op] = exact

    def of(self, value: Value) -> Interval:
        """Return the interval of an integer."""
        return self.states.get(value) or full(width_of(value))

    def follows(self, value: Value) -> bool:
        return width_of(value) > 0 and value not in self._parameters

    def update(
        self, value: Value, known: Interval | None, new: Interval, iteration: int
    ) -> Interval:
        if known is not None:
            new = hull((known, new))
        op = value.defining_op
        grows = new != known and iteration >= _PATIENCE
        return full(width_of(value)) if grows and (op is None or op.has(STRUCTURED)) else new

    def transfer(self, op: Operation, value: Value) -> Interval | None:
        if any(width_of(v) and v not in self.states for v in op.operands):
            return None
        exact, everything = self._exact(op, value), full(width_of(value))
        return exact if exact is not None and holds(everything, exact) else everything

    def _exact(self, op: Operation, value: Value) -> Interval | None:
        """Return the interval of an exact result, which does not wrap; None if it is unknown."""
        operands = [self.of(v) if width_of(v) else (0, 0) for v in op.operands]
        if op.has(COMBINES):
            return combined_range(op, operands[0])
        if op.has(GATHERS):
            return operands[0]
        if lanes := lanes_of(value):
            return hull([operands[lane_map.operand] for lane_map in lanes])
        return meaning(self._domain, op, operands)

    # ---- control flow
    def moved(self, value: Value) -> Interval | None:
        counted = counted_loop(value)
        if counted is not None and (carried := self._carried(value, *counted)) is not None:
            return carried
        sources = control_sources(value)
        intervals = [self.of(v) for v in sources if v in self.states or not width_of(v)]
        if not sources:
            return full(width_of(value))
        return hull(intervals) if intervals else None

    def _carried(self, value: Value, loop: Operation, number: int) -> Interval | None:
        """Return the interval of a loop's counter or of a value that each iteration increments.

        Args:
            number: Position of the carried value; -1 for the counter.

        Returns:
            None for other carried values, or if the loop's bounds are unknown.
        """
        bounds = loop.loop_bounds
        if bounds is None or not self._reached(bounds):
            return None
        lower, upper, step = map(self.of, bounds)
        if number < 0:
            return (lower[0], max(lower[0], upper[1] - 1)) if step[0] > 0 else full(width_of(value))
        carried = carried_values(loop)[number]
        addends = self._regularity.increments(carried.argument, carried.yielded)
        if addends is None or step[0] <= 0 or not self._reached((carried.initial,)):
            return None
        first = self.of(carried.initial)
        if not self._reached(addends):
            return first
        trips = max(0, -((lower[0] - upper[1]) // step[0]))
        if isinstance(value.owner, Block):
            trips = max(0, trips - 1)
        growth = [self.of(v) for v in addends]
        low = trips * min(0, sum(g[0] for g in growth))
        high = trips * max(0, sum(g[1] for g in growth))
        least, most = full(width_of(value))
        grown = (first[0] + low, first[1] + high)
        return grown if least <= grown[0] and grown[1] <= most else (least, most)

    def _reached(self, values: Sequence[Value]) -> bool:
        return all(v in self.states or not width_of(v) for v in values)
