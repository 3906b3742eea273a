"""What integers and pointers of a kernel are in one launch, as linear expressions.

An integer is a sum of multiples of program ids, coordinates of a tile and iterations of loops, as
far as it is one; any other is an unknown between bounds. A tile stands for the value in any of its
lanes; two tiles of one shape are compared lane by lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ttools.interpreter.analysis.linear import Atom, Bounds, Linear
from ttools.interpreter.analysis.regularity import Regularity
from ttools.interpreter.dialects import declared
from ttools.interpreter.dialects.integer_ranges import Interval, full, hull
from ttools.interpreter.dialects.traits import RESIZES, SPREADS
from ttools.interpreter.ir import (
    Block,
    Constant,
    IntegerType,
    Operation,
    PointerType,
    Value,
    as_signed,
    element_type,
    shape_of,
)
from ttools.interpreter.llvm.builder import byte_size

#: Kinds of unknowns that differ from lane to lane.
_MOVING = ("axis", "lane")
_SHIFTS = ("arith.shrsi", "arith.shrui")
_DIVISIONS = ("arith.divsi", "arith.divui", *_SHIFTS)


class Pointer(NamedTuple):
    """An address: so many bytes from where a parameter points."""

    parameter: int
    distance: Linear


class LaunchValues:
    """The values of the kernel function in one launch.

    Args:
        kernel: The function.
        grid: How many programs there are along each axis.
        scalars: Values of integer parameters by index.

    Attributes:
        bounds: Of the unknowns.
    """

    def __init__(self, kernel: Operation, grid: Sequence[int], scalars: Mapping[int, int]) -> None:
        self.bounds = Bounds()
        self._grid, self._scalars = (*grid, 1, 1), scalars
        self._parameters = {v: n for n, v in enumerate(kernel.regions[0].entry.arguments)}
        self._known: dict[Value, Linear | Pointer | None] = {}
        self._active: set[Value] = set()
        self._trips: dict[Operation, Linear | None] = {}
        self._regularity = Regularity()

    def value(self, value: Value) -> Linear | Pointer | None:
        """Return an integer or a pointer in a lane; None for anything else."""
        pending = [value]
        while pending:
            current = pending[-1]
            if current in self._known:
                pending.pop()
                continue
            op = current.defining_op
            missing = [v for v in _inputs(op) if v not in self._known] if op is not None else []
            if missing:
                pending += missing
            else:
                pending.pop()
                self._known[current] = self._computed(current, op)
        return self._known[value]

    def _computed(self, value: Value, op: Operation | None) -> Linear | Pointer | None:
        element = element_type(value.type)
        if isinstance(element, PointerType):
            return self._pointer(value, op)
        if not isinstance(element, IntegerType) or element.width == 1:
            return None
        found = self._integer(value, op)
        if isinstance(found, Linear):
            low, high = self.bounds.interval(found)
            least, most = full(element.width)
            if least <= low and high <= most:
                return found if low < high else Linear(low)
            found = None
        return self._unknown(value, found or full(element.width))

    def _integer(self, value: Value, op: Operation | None) -> Linear | Interval | None:
        """Return an exact expression, or an interval, as far as one is known."""
        if op is None:
            return self._argument(value)
        resizes = op.has(RESIZES)
        if resizes or is_view(op):
            inner = self._known[op.operands[0]]
            if not isinstance(inner, Linear):
                return None
            return inner if resizes else self.viewed(op, inner)
        if op.name == "arith.extui":
            inner = self._known[op.operands[0]]
            if isinstance(inner, Linear) and self.bounds.interval(inner)[0] >= 0:
                return inner
        match op.name:
            case "arith.constant":
                return _constant(value)
            case "tt.make_range":
                start = op.attributes["start"]
                assert isinstance(start, int)
                return self._axis(0, shape_of(value.type)[0]).plus(Linear(start))
            case "tt.get_program_id":
                atom = ("program", op.axis)
                self.bounds.intervals[atom] = (0, max(0, self._grid[op.axis] - 1))
                return Linear(0, {atom: 1})
            case "tt.get_num_programs":
                return Linear(self._grid[op.axis])
            case "scf.for":
                return self._carried(op, value.index, after=True)  # type: ignore[return-value]
            case "scf.if":
                return self._joined(op, value.index)
        operands = [self._known.get(operand) for operand in op.operands]
        numbers = [each for each in operands if isinstance(each, Linear)]
        exact = self._exact(op, numbers) if len(numbers) == len(operands) == 2 else None
        return exact if exact is not None else self._ranged(value, op, operands)

    def _exact(self, op: Operation, numbers: Sequence[Linear]) -> Linear | None:
        a, b = numbers
        match op.name:
            case "arith.addi":
                return a.plus(b)
            case "arith.subi":
                return a.plus(b, -1)
            case "arith.muli" if not b.terms:
                return a.times(b.constant)
            case "arith.muli" if not a.terms:
                return b.times(a.constant)
            case "arith.shli" if not b.terms and 0 <= b.constant < _width(op.results[0]):
                return a.times(1 << b.constant)
            case "arith.remsi" | "arith.remui":
                low, high = self.bounds.interval(a)
                return a if low >= 0 and high < self.bounds.interval(b)[0] else None
        return None

    def _ranged(
        self, value: Value, op: Operation, operands: Sequence[Linear | Pointer | None]
    ) -> Interval | Linear | None:
        """Return what the declared rule of ranges says, as an unknown that is compared."""
        rule = declared(op.name).range
        if rule is None:
            return None
        intervals = [self._range(v, e) for v, e in zip(op.operands, operands, strict=True)]
        width = _width(op.operands[0])
        shifts = op.name in ("arith.shli", *_SHIFTS)
        if shifts and not 0 <= intervals[1][0] <= intervals[1][1] < width:
            return None  # what that makes is not defined
        found = rule(intervals, width)
        least, most = full(_width(value))
        if found is None or found[0] < least or found[1] > most:
            return None
        result = self._unknown(value, found)
        numbers = [each for each in operands if isinstance(each, Linear)]
        if result.terms and len(numbers) == 2 == len(operands):
            self._relate(op.name, result, *numbers)
        return result

    def _range(self, value: Value, known: Linear | Pointer | None) -> Interval:
        return self.bounds.interval(known) if isinstance(known, Linear) else full(_width(value))

    def _relate(self, name: str, result: Linear, a: Linear, b: Linear) -> None:
        """Note how the result of an operation compares with its operands."""
        (atom,) = result.terms
        low, divisor = self.bounds.interval(a)[0], self.bounds.interval(b)
        rules: list[Linear] = []
        if name == "arith.minsi":
            rules = [result.plus(a, -1), result.plus(b, -1)]
        elif name == "arith.maxsi":
            rules = [a.plus(result, -1), b.plus(result, -1)]
        elif low >= 0 and divisor[0] > 0 and name in ("arith.remsi", "arith.remui"):
            rules = [result.plus(b, -1).plus(Linear(1)), result.plus(a, -1)]
        elif low >= 0 and divisor[0] >= 0 and not b.terms and name in _DIVISIONS:
            by = 1 << b.constant if name in _SHIFTS else b.constant
            most = result.times(by)
            rules = [most.plus(a, -1), a.plus(most, -1).plus(Linear(1 - by))]
        self.bounds.rules[atom] = rules

    def _unknown(self, value: Value, interval: Interval) -> Linear:
        if interval[0] == interval[1]:
            return Linear(interval[0])
        atom: Atom = ("lane" if value.is_tensor else "scalar", value)
        self.bounds.intervals[atom] = interval
        return Linear(0, {atom: 1})

    def _axis(self, axis: int, extent: int) -> Linear:
        if extent == 1:
            return Linear(0)
        atom = ("axis", axis, extent)
        self.bounds.intervals[atom] = (0, extent - 1)
        return Linear(0, {atom: 1})

    def _argument(self, value: Value) -> Linear | Interval | None:
        if value in self._parameters:
            number = self._scalars.get(self._parameters[value])
            return None if number is None else Linear(number)
        block = value.owner
        assert isinstance(block, Block)
        loop = block.parent_op
        if loop is None or loop.name != "scf.for":
            return None
        if value.index > 0:
            return self._carried(loop, value.index - 1, after=False)  # type: ignore[return-value]
        trips, (lower, _, step) = self.last_iteration(loop), self._limits(loop)
        return None if trips is None else self._iteration(loop, trips).times(step).plus(lower)

    # ---- pointers
    def _pointer(self, value: Value, op: Operation | None) -> Pointer | None:
        if op is None:
            if value in self._parameters:
                return Pointer(self._parameters[value], Linear(0))
            assert isinstance(value.owner, Block)
            loop = value.owner.parent_op
            if loop is None or loop.name != "scf.for":
                return None
            return self._carried(loop, value.index - 1, after=False)  # type: ignore[return-value]
        if op.name == "scf.for":
            return self._carried(op, value.index, after=True)  # type: ignore[return-value]
        inner = self._known.get(op.operands[0]) if op.operands else None
        if not isinstance(inner, Pointer):
            return None
        if is_view(op):
            moved = self.viewed(op, inner.distance)
            return None if moved is None else Pointer(inner.parameter, moved)
        if op.name == "tt.bitcast":
            return inner
        offset = self._known[op.operands[1]] if op.name == "tt.addptr" else None
        element = element_type(value.type)
        if not isinstance(offset, Linear) or not isinstance(element, PointerType):
            return None
        return Pointer(inner.parameter, inner.distance.plus(offset, byte_size(element.pointee)))

    # ---- views
    def viewed(self, op: Operation, inner: Linear) -> Linear | None:
        """Return an expression of an operand's coordinates in those of the view."""
        moves = any(atom[0] in _MOVING for atom in inner.terms)
        if not moves or op.name == "tt.broadcast":
            return inner
        axes = _moved_axes(op)
        if axes is None:
            return None

        def rename(atom: Atom) -> Atom:
            if atom[0] not in _MOVING:
                return atom
            new: Atom = ("lane", atom, op.name, *axes)
            if atom[0] == "axis":
                axis = atom[1]
                assert isinstance(axis, int)
                new = ("axis", axes[axis], atom[2])
            self.bounds.intervals[new] = self.bounds.intervals[atom]
            rules = self.bounds.rules
            if new not in rules and atom in rules:
                rules[new] = []
                rules[new] = [rule.renamed(rename) for rule in rules[atom]]
            return new

        return inner.renamed(rename)

    # ---- control flow
    def _limits(self, loop: Operation) -> tuple[Linear, Linear, int]:
        """Return first and end of a loop's counter, and its step, 0 if that is not known."""
        lower, upper, step = (self.value(operand) for operand in loop.operands[:3])
        if not (isinstance(lower, Linear) and isinstance(upper, Linear)):
            return Linear(0), Linear(0), 0
        known = isinstance(step, Linear) and not step.terms and step.constant > 0
        signed = not loop.attributes.get("unsignedCmp")
        return lower, upper, step.constant if known and signed else 0  # type: ignore[union-attr]

    def last_iteration(self, loop: Operation) -> Linear | None:
        """Return an upper bound of the last iteration of a loop, counted from 0."""
        if loop not in self._trips:
            self._trips[loop] = None  # where its own limits depend on it
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
        """Return what a loop carries from iteration to iteration, in one of them or after all."""
        body, initial = loop.regions[0].entry, self.value(loop.operands[3 + number])
        argument, yielded = body.arguments[1 + number], body.terminator.operands[number]
        last = self.last_iteration(loop)
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
        """Return by how much a value grows in an iteration; None where that is not one number."""
        addends = self._regularity.increments(argument, yielded)
        if addends is None:
            return None
        element = element_type(argument.type)
        unit = byte_size(element.pointee) if isinstance(element, PointerType) else 1
        self._active.add(argument)
        try:
            found = [self.value(addend) for addend in addends]
        finally:
            self._active.discard(argument)
        if any(not isinstance(each, Linear) or each.terms for each in found):
            return None
        return unit * sum(each.constant for each in found if isinstance(each, Linear))

    def _joined(self, op: Operation, index: int) -> Linear | Interval | None:
        """Return what either branch yields."""
        ends = [region.entry.terminator.operands[index] for region in op.regions if region.blocks]
        found = [self.value(end) for end in ends]
        numbers = [each for each in found if isinstance(each, Linear)]
        if len(numbers) < 2 or len(numbers) < len(found):
            return None
        if numbers[0] == numbers[1]:
            return numbers[0]
        return hull([self.bounds.interval(each) for each in numbers])


def is_view(op: Operation) -> bool:
    """Return whether an operation shows the lanes of its one operand at other coordinates."""
    return op.has(SPREADS) or op.name == "tt.trans"


def _inputs(op: Operation) -> Iterable[Value]:
    """Return the operands that an integer or pointer result is computed from lane by lane."""
    if op.regions or not (is_view(op) or op.name.startswith(("arith.", "tt.addptr"))):
        return op.operands[:1] if op.name == "tt.bitcast" else ()
    return [v for v in op.operands if isinstance(element_type(v.type), IntegerType | PointerType)]


def _moved_axes(op: Operation) -> tuple[int, ...] | None:
    """Return for each axis of a view's operand the axis of the result along which it lies."""
    shape, result = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    if op.name == "tt.expand_dims":
        return tuple(axis + (axis >= op.axis) for axis in range(len(shape)))
    if op.name == "tt.trans":
        order = op.attributes["order"]
        assert isinstance(order, tuple | list)
        return tuple([int(k) for k in order].index(axis) for axis in range(len(shape)))  # type: ignore[arg-type]
    if op.name != "tt.reshape" or op.attributes.get("allow_reorder"):
        return None
    # Of a reshape that adds and removes axes of extent 1 only.
    kept = [axis for axis, extent in enumerate(result) if extent > 1]
    if [result[axis] for axis in kept] != [extent for extent in shape if extent > 1]:
        return None
    places = iter(kept)
    return tuple(next(places) if extent > 1 else -1 for extent in shape)


def _width(value: Value) -> int:
    element = element_type(value.type)
    return element.width if isinstance(element, IntegerType) else 64


def _constant(value: Value) -> Linear | Interval | None:
    op = value.defining_op
    data = op.attributes["value"] if op is not None else None
    if not isinstance(data, Constant):
        return None
    numbers = [as_signed(bits, _width(value)) for bits in data.bits]
    return Linear(numbers[0]) if len(numbers) == 1 else (min(numbers), max(numbers))
