"""Integers and pointers of a kernel in one launch, as linear expressions.

Where possible, an integer is a sum of multiples of program ids, coordinates of a tile and
iterations of loops; any other integer is an unknown in an interval. The expression of a tile gives
the value of each lane, in terms of the lane's coordinates, so two tiles of the same shape are
compared lane by lane. `analysis/launch_bounds.py` has an example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ttools.interpreter.analysis.linear import Atom, Bounds, Linear
from ttools.interpreter.llvm.builder import byte_size
from ttools.ir import IntegerType, Operation, PointerType, Value, element_type
from ttools.ir.dataflow import OnDemand, carried_values, counted_loop
from ttools.ir.dialects.integers import Integers, UnknownError
from ttools.ir.dialects.traits import CAST, LOOP, STRUCTURED
from ttools.ir.domains.intervals import Interval, IntervalDomain, full, holds, hull
from ttools.ir.domains.regularity import Regularity, summands
from ttools.ir.semantics import axes_through, is_view, meaning, moved_lanes, width_of

_FOLLOWED = (IntegerType, PointerType)
#: Kinds of atoms whose value differs from lane to lane.
_MOVING = ("axis", "lane")
_INTERVALS = IntervalDomain()


class Pointer(NamedTuple):
    """An address, as a distance in bytes from the address that a pointer parameter holds."""

    parameter: int
    distance: Linear


class LinearDomain(Integers[Linear]):
    """The domain of linear expressions, in which each non-linear result is an unknown with bounds.

    Args:
        grid: Number of programs along each axis.
    """

    def __init__(self, bounds: Bounds, grid: Sequence[int]) -> None:
        self._bounds, self._grid = bounds, grid
        self._value: Value | None = None
        self._bits = self._unknowns = 0

    def result(self, value: Value, op: Operation, operands: Sequence[Linear]) -> Linear | None:
        """Return the result of an operation; None if nothing is known."""
        self._value, self._bits, self._unknowns = value, op.operand_bits, 0
        return meaning(self, op, operands)

    def constant(self, number: int) -> Linear:
        return Linear(number)

    def elements(self, numbers: Sequence[int]) -> Linear:
        return self._unknown((min(numbers), max(numbers)))

    def coordinate(self, axis: int, extent: int) -> Linear:
        if extent == 1:
            return Linear(0)
        atom = ("axis", axis, extent)
        self._bounds.intervals[atom] = (0, extent - 1)
        return Linear(0, {atom: 1})

    def program(self, axis: int) -> Linear:
        atom = ("program", axis)
        self._bounds.intervals[atom] = (0, max(0, self._grid[axis] - 1))
        return Linear(0, {atom: 1})

    def programs(self, axis: int) -> Linear:
        return Linear(self._grid[axis])

    def add(self, a: Linear, b: Linear) -> Linear:
        return a.plus(b)

    def subtract(self, a: Linear, b: Linear) -> Linear:
        return a.plus(b, -1)

    def multiply(self, a: Linear, b: Linear) -> Linear:
        if not b.terms:
            return a.times(b.constant)
        if not a.terms:
            return b.times(a.constant)
        return self._between(_INTERVALS.multiply, a, b)

    def shift_left(self, a: Linear, by: Linear) -> Linear:
        self._demand_shift(by)
        if not by.terms:
            return a.times(1 << by.constant)
        return self._between(_INTERVALS.shift_left, a, by)

    def shift_right(self, a: Linear, by: Linear) -> Linear:
        self._demand_shift(by)
        result = self._between(_INTERVALS.shift_right, a, by)
        return self._quotient(result, a, by.times(0).plus(Linear(1 << by.constant)), by)

    def quotient(self, a: Linear, b: Linear) -> Linear:
        return self._quotient(self._between(_INTERVALS.quotient, a, b), a, b, b)

    def floor_quotient(self, a: Linear, b: Linear) -> Linear:
        return self._quotient(self._between(_INTERVALS.floor_quotient, a, b), a, b, b)

    def _quotient(self, result: Linear, a: Linear, divisor: Linear, known: Linear) -> Linear:
        """Record the conditions that relate a quotient by a constant to the dividend.

        For `q = a // 8` with `a` not negative, the conditions are `8*q <= a` and `a <= 8*q + 7`.

        Args:
            divisor: The divisor, if it is constant.
            known: The expression that must be constant for conditions to be recorded: the divisor,
                or the number of bits of a shift.
        """
        if not known.terms and divisor.constant >= 0 and self._low(a) >= 0:
            most = result.times(divisor.constant)
            below = Linear(1 - divisor.constant)
            self._relate(result, most.plus(a, -1), a.plus(most, -1).plus(below))
        return result

    def ceiling_quotient(self, a: Linear, b: Linear) -> Linear:
        return self._between(_INTERVALS.ceiling_quotient, a, b)

    def remainder(self, a: Linear, b: Linear) -> Linear:
        (low, high), least = self._bounds.interval(a), self._low(b)
        if low >= 0 and high < least:
            return a
        result = self._between(_INTERVALS.remainder, a, b)
        if low >= 0 and least > 0:
            self._relate(result, result.plus(b, -1).plus(Linear(1)), result.plus(a, -1))
        return result

    def least(self, a: Linear, b: Linear) -> Linear:
        result = self._between(_INTERVALS.least, a, b)
        self._relate(result, result.plus(a, -1), result.plus(b, -1))
        return result

    def greatest(self, a: Linear, b: Linear) -> Linear:
        result = self._between(_INTERVALS.greatest, a, b)
        self._relate(result, a.plus(result, -1), b.plus(result, -1))
        return result

    def bits_and(self, a: Linear, b: Linear) -> Linear:
        return self._between(_INTERVALS.bits_and, a, b)

    def bits_or(self, a: Linear, b: Linear) -> Linear:
        return self._between(_INTERVALS.bits_or, a, b)

    def bits_xor(self, a: Linear, b: Linear) -> Linear:
        return self._between(_INTERVALS.bits_xor, a, b)

    def choose(self, condition: Linear, a: Linear, b: Linear) -> Linear:
        return self._between(lambda x, y: hull((x, y)), a, b)

    def unsigned(self, a: Linear, bits: int) -> Linear:
        return a if self._low(a) >= 0 else self._unknown((0, (1 << bits) - 1))

    def signed(self, a: Linear, bits: int) -> Linear:
        return a if holds(full(bits), self._bounds.interval(a)) else self._unknown(full(bits))

    def _low(self, a: Linear) -> int:
        return self._bounds.interval(a)[0]

    def _demand_shift(self, by: Linear) -> None:
        low, high = self._bounds.interval(by)
        if not 0 <= low <= high < self._bits:
            raise UnknownError  # the result is undefined

    def _between(
        self, rule: Callable[[Interval, Interval], Interval], a: Linear, b: Linear
    ) -> Linear:
        """Return a new unknown whose interval is computed by a rule of interval arithmetic."""
        return self._unknown(rule(self._bounds.interval(a), self._bounds.interval(b)))

    def _unknown(self, interval: Interval) -> Linear:
        assert self._value is not None
        self._unknowns += 1
        return self._bounds.unknown(self._value, self._unknowns, interval)

    def _relate(self, result: Linear, *rules: Linear) -> None:
        """Record conditions on an unknown result, as expressions that are at most 0."""
        for atom in result.terms:
            self._bounds.rules[atom] = list(rules)


class KernelValues(OnDemand["Linear | Pointer | None"]):
    """Integers and pointers of the kernel function in one launch; None for other values.

    Args:
        grid: Number of programs along each axis.
        scalars: Values of integer parameters, by index.

    Attributes:
        bounds: Intervals and rules of the unknowns.
    """

    def __init__(self, kernel: Operation, grid: Sequence[int], scalars: Mapping[int, int]) -> None:
        super().__init__()
        self.bounds = Bounds()
        self._domain = LinearDomain(self.bounds, (*grid, 1, 1))
        self._scalars = scalars
        self._parameters = {v: n for n, v in enumerate(kernel.regions[0].entry.arguments)}
        self._active: set[Value] = set()
        self._trips: dict[Operation, Linear | None] = {}
        self._regularity = Regularity()

    def inputs(self, value: Value) -> Sequence[Value]:
        op = value.defining_op
        if op is None or op.regions:
            return ()
        if op.declaration.integer is None and not is_view(op):
            return op.operands[:1] if op.has(CAST) else ()
        return [v for v in op.operands if isinstance(element_type(v.type), _FOLLOWED)]

    def compute(self, value: Value) -> Linear | Pointer | None:
        op = value.defining_op
        if isinstance(element_type(value.type), PointerType):
            return self._pointer(value, op)
        width = width_of(value)
        if width <= 1:
            return None
        result = self._integer(value, op)
        if isinstance(result, Linear):
            interval = self.bounds.interval(result)
            if holds(full(width), interval):
                return result if interval[0] < interval[1] else Linear(interval[0])
            result = None
        return self.bounds.unknown(value, 0, result or full(width))

    def _integer(self, value: Value, op: Operation | None) -> Linear | Interval | None:
        """Return the exact expression of an integer, or its interval; None if neither is known."""
        if op is None:
            return self._argument(value)
        if op.has(STRUCTURED):
            if counted_loop(value) is not None:
                return self._carried(op, value.index, after=True)  # type: ignore[return-value]
            return None if op.has(LOOP) else self._joined(op, value.index)
        if is_view(op):
            source = op.operands[0] if len(op.operands) == 1 else None
            inner = self._operand(source) if source is not None else None
            return None if inner is None else self.viewed(value, inner)
        operands = [self._operand(operand) for operand in op.operands]
        integers = [operand for operand in operands if operand is not None]
        return self._domain.result(value, op, integers) if len(integers) == len(operands) else None

    def _operand(self, value: Value) -> Linear | None:
        """Return the expression of an integer; None for other values."""
        expression = self.known.get(value)
        if isinstance(expression, Linear):
            return expression
        width = width_of(value)
        return self.bounds.unknown(value, 0, full(width)) if width else None

    def _argument(self, value: Value) -> Linear | Interval | None:
        if value in self._parameters:
            number = self._scalars.get(self._parameters[value])
            return None if number is None else Linear(number)
        counted = counted_loop(value)
        if counted is None:
            return None
        loop, number = counted
        if number >= 0:
            return self._carried(loop, number, after=False)  # type: ignore[return-value]
        trips, (lower, _, step) = self.last_iteration(loop), self._limits(loop)
        return None if trips is None else self._iteration(loop, trips).times(step).plus(lower)

    # ---- pointers
    def _pointer(self, value: Value, op: Operation | None) -> Pointer | None:
        if value in self._parameters:
            return Pointer(self._parameters[value], Linear(0))
        if op is None or op.has(STRUCTURED):
            counted = counted_loop(value)
            if counted is None:
                return None
            return self._carried(*counted, after=op is not None)  # type: ignore[return-value]
        inner = self.known.get(op.operands[0]) if op.operands else None
        if not isinstance(inner, Pointer):
            return None
        if is_view(op):
            moved = self.viewed(value, inner.distance)
            return None if moved is None else Pointer(inner.parameter, moved)
        if op.has(CAST):
            return inner
        _, offset = summands(op) or (None, None)
        distance = self.known.get(offset) if offset is not None else None
        element = element_type(value.type)
        if not isinstance(distance, Linear) or not isinstance(element, PointerType):
            return None
        return Pointer(inner.parameter, inner.distance.plus(distance, byte_size(element.pointee)))

    # ---- views
    def viewed(self, value: Value, inner: Linear) -> Linear | None:
        """Return the expression of a view in terms of its own coordinates.

        Args:
            value: The result of the view, such as a transposition or a broadcast.
            inner: The expression of its operand, in terms of the operand's coordinates.
        """
        if not any(atom[0] in _MOVING for atom in inner.terms):
            return inner
        lanes, whole = moved_lanes(value), axes_through(value)
        if lanes is None or lanes.axes is None:
            return None
        if whole is not None and all(axis in (n, None) for n, axis in enumerate(whole)):
            return inner  # each axis keeps its number
        axes, fixed = lanes.axes, lanes.fixed
        intervals, rules = self.bounds.intervals, self.bounds.rules

        def moved(expression: Linear) -> Linear:
            result = Linear(expression.constant)
            for atom, factor in expression.terms.items():
                axis = axes[atom[1]] if atom[0] == "axis" else None  # type: ignore[call-overload]
                if atom[0] == "axis" and axis is None:
                    result = result.plus(Linear(fixed[atom[1]]), factor)  # type: ignore[call-overload]
                    continue
                new: Atom = atom
                if atom[0] == "axis":
                    new = ("axis", axis, atom[2])
                elif atom[0] == "lane":
                    new = ("lane", atom, axes, fixed)
                intervals[new] = intervals[atom]
                if new not in rules and atom in rules:
                    rules[new] = []
                    rules[new] = [moved(rule) for rule in rules[atom]]
                result = result.plus(Linear(0, {new: factor}))
            return result

        return moved(inner)

    # ---- control flow
    def _limits(self, loop: Operation) -> tuple[Linear, Linear, int]:
        """Return the first value of a loop's counter, its exclusive end, and its step.

        The step is 0 if any of the three is unknown.
        """
        bounds = loop.loop_bounds
        assert bounds is not None
        lower, upper, step = map(self.of, bounds)
        if not (isinstance(lower, Linear) and isinstance(upper, Linear)):
            return Linear(0), Linear(0), 0
        is_constant = isinstance(step, Linear) and not step.terms and step.constant > 0
        signed = not loop.attributes.get("unsignedCmp")
        return lower, upper, step.constant if is_constant and signed else 0  # type: ignore[union-attr]

    def last_iteration(self, loop: Operation) -> Linear | None:
        """Return an upper bound of the last iteration of a loop, counted from 0."""
        if loop not in self._trips:
            self._trips[loop] = None  # the result if the loop's limits depend on its own counter
            lower, upper, step = self._limits(loop)
            if step:
                span = self.bounds.interval(upper.plus(lower, -1))[1]
                self._trips[loop] = Linear(-(-span // step) - 1)
        return self._trips[loop]

    def _iteration(self, loop: Operation, last: Linear) -> Linear:
        atom = ("iteration", loop)
        if atom not in self.bounds.intervals:
            lower, upper, step = self._limits(loop)
            self.bounds.intervals[atom] = (0, max(0, last.constant))
            counter = lower.plus(Linear(0, {atom: 1}), step)
            self.bounds.rules[atom] = [counter.plus(upper, -1).plus(Linear(1))]
        return Linear(0, {atom: 1})

    def _carried(self, loop: Operation, number: int, *, after: bool) -> Linear | Pointer | None:
        """Return the expression of a value that a loop carries from one iteration to the next.

        Args:
            number: The index of the value among those that the loop carries.
            after: If True, the value after the loop; otherwise the value in an iteration.
        """
        first, argument, yielded, _ = carried_values(loop)[number]
        initial, last = self.of(first), self.last_iteration(loop)
        if initial is None or last is None or argument in self._active:
            return None
        step = self._growth(argument, yielded)
        if step is None:
            return None
        if not step:
            return initial
        count = self._iteration(loop, last)
        if after:
            lower, upper, _ = self._limits(loop)
            atom = ("iterations", loop)
            least = last.constant + 1 if not (lower.terms or upper.terms) else 0
            self.bounds.intervals[atom] = (max(0, least), max(0, last.constant + 1))
            count = Linear(0, {atom: 1})
        if isinstance(initial, Linear):
            return initial.plus(count, step)
        return Pointer(initial.parameter, initial.distance.plus(count, step))

    def _growth(self, argument: Value, yielded: Value) -> int | None:
        """Return the amount added to a value in each iteration; None if it is not constant."""
        addends = self._regularity.increments(argument, yielded)
        if addends is None:
            return None
        element = element_type(argument.type)
        unit = byte_size(element.pointee) if isinstance(element, PointerType) else 1
        self._active.add(argument)
        try:
            addend_values = [self.of(addend) for addend in addends]
        finally:
            self._active.discard(argument)
        if any(
            not isinstance(addend_value, Linear) or addend_value.terms
            for addend_value in addend_values
        ):
            return None
        return unit * sum(
            addend_value.constant
            for addend_value in addend_values
            if isinstance(addend_value, Linear)
        )

    def _joined(self, op: Operation, index: int) -> Linear | Interval | None:
        """Return the value of an `if`: the expression that both branches yield, or an interval."""
        ends = [region.entry.terminator.operands[index] for region in op.regions if region.blocks]
        yielded = [self.of(end) for end in ends]
        numbers = [number for number in yielded if isinstance(number, Linear)]
        if len(numbers) < 2 or len(numbers) < len(yielded):
            return None
        if numbers[0] == numbers[1]:
            return numbers[0]
        return hull([self.bounds.interval(number) for number in numbers])
