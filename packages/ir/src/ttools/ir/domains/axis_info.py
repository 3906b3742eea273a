"""Axis info: the contiguity, divisibility and constancy of a tile along each axis.

These are the results of Triton's AxisInfo analysis (lib/Analysis/AxisInfo.cpp). Here, a divisor
need not be a power of two, and it is 0 for elements that are 0, which every number divides. As in
Triton, sums of narrow integers are assumed not to wrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import NamedTuple

from ttools.ir.core import Value, shape_of
from ttools.ir.dataflow import OnDemand, carried_values, counted_loop
from ttools.ir.dialects.integers import Integers, UnknownError
from ttools.ir.semantics import meaning, moved_lanes


class AxisInfo(NamedTuple):
    """Contiguity, divisibility and constancy of a tile along each axis.

    A scalar is treated as a tile of one element. For example, `tl.arange(0, 8) + 16` has contiguity
    8, divisibility 16 and constancy 1, and `tl.arange(0, 8) * 4` has contiguity 1, divisibility 4
    and constancy 1.

    Attributes:
        contiguity: For each axis, the size of the aligned groups in which each element is its
            predecessor plus one.
        divisibility: For each axis, a divisor of the first element of every such group. If the
            groups are single elements, it divides every element.
        constancy: For each axis, the size of the aligned groups of equal elements.
        number: The value of all elements if it is known and the same for all, otherwise None.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    number: int | None = None

    def divides(self, number: int) -> bool:
        """Return whether a number divides the first elements of the groups along the first axis."""
        return self.divisibility[0] % number == 0

    @property
    def of_all(self) -> int:
        """A number that divides every element; 0 if all elements are 0."""
        pairs = zip(self.contiguity, self.divisibility, strict=True)
        divisors = [divisor for length, divisor in pairs if length == 1]
        return 0 if 0 in divisors else max(divisors, default=1)


def _within(info: AxisInfo, axis: int, length: int) -> int:
    """Return a divisor of the first elements of groups of `length` lanes along an axis."""
    divisor = info.divisibility[axis]
    return divisor if info.contiguity[axis] <= length else gcd(divisor, length)


class AxisInfoDomain(Integers[AxisInfo]):
    """The domain of axis info for results of one shape.

    Args:
        shape: Shape of the result; `(1,)` for a scalar.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape

    def uniform(self, divisor: int, number: int | None = None) -> AxisInfo:
        """Return the info of a tile with the same number in every lane.

        Args:
            divisor: A divisor of the number.
            number: The number, if it is known.
        """
        rank = len(self._shape)
        return AxisInfo((1,) * rank, (divisor,) * rank, self._shape, number)

    def constant(self, number: int) -> AxisInfo:
        return self.uniform(abs(number), number)

    def coordinate(self, axis: int, extent: int) -> AxisInfo:
        own = [n == axis for n in range(len(self._shape))]
        return AxisInfo(
            tuple(extent if here else 1 for here in own),
            tuple(0 if here else 1 for here in own),
            tuple(1 if here else n for here, n in zip(own, self._shape, strict=True)),
        )

    def program(self, axis: int) -> AxisInfo:
        return self.uniform(1)

    def programs(self, axis: int) -> AxisInfo:
        return self.uniform(1)

    def add(self, a: AxisInfo, b: AxisInfo) -> AxisInfo:
        contiguity, divisibility = [], []
        for axis in range(len(self._shape)):
            length = max(
                gcd(a.contiguity[axis], b.constancy[axis]),
                gcd(a.constancy[axis], b.contiguity[axis]),
            )
            contiguity.append(length)
            divisibility.append(gcd(_within(a, axis, length), _within(b, axis, length)))
        number = None if a.number is None or b.number is None else a.number + b.number
        constancy = tuple(map(gcd, a.constancy, b.constancy))
        return AxisInfo(tuple(contiguity), tuple(divisibility), constancy, number)

    def subtract(self, a: AxisInfo, b: AxisInfo) -> AxisInfo:
        return self.add(a, self.multiply(b, self.constant(-1)))

    def multiply(self, a: AxisInfo, b: AxisInfo) -> AxisInfo:
        if 1 in (a.number, b.number):
            return a if b.number == 1 else b
        number = None if a.number is None or b.number is None else a.number * b.number
        constancy = tuple(map(gcd, a.constancy, b.constancy))
        divisor = a.of_all * b.of_all
        rank = len(self._shape)
        return AxisInfo((1,) * rank, (divisor,) * rank, constancy, number)

    def shift_left(self, a: AxisInfo, by: AxisInfo) -> AxisInfo:
        if by.number is None or not 0 <= by.number < 64:
            raise UnknownError
        return self.multiply(a, self.constant(1 << by.number))

    def choose(self, condition: AxisInfo, a: AxisInfo, b: AxisInfo) -> AxisInfo:
        constancy = tuple(map(gcd, map(gcd, condition.constancy, a.constancy), b.constancy))
        return self.uniform(gcd(a.of_all, b.of_all))._replace(constancy=constancy)


class AxisInfoAnalysis(OnDemand[AxisInfo]):
    """The axis info of the values of a function.

    Args:
        divisors: Known divisors of the function's parameters, for example 16.
    """

    def __init__(self, divisors: Mapping[Value, int]) -> None:
        super().__init__()
        self._divisors = divisors

    def inputs(self, value: Value) -> Sequence[Value]:
        op = value.defining_op
        if op is not None:
            return () if op.regions else op.operands
        counted = counted_loop(value)
        if counted is None:
            return ()
        loop, number = counted
        if number >= 0:
            return (carried_values(loop)[number].initial,)
        bounds = loop.loop_bounds
        assert bounds is not None
        return bounds[0], bounds[2]

    def compute(self, value: Value) -> AxisInfo:
        domain = AxisInfoDomain(shape_of(value.type) or (1,))
        if value in self._divisors:
            return domain.uniform(self._divisors[value])
        unknown = domain.uniform(1)
        if value.is_tensor:
            unknown = unknown._replace(constancy=(1,) * len(unknown.constancy))
        op, inputs = value.defining_op, [self.known[operand] for operand in self.inputs(value)]
        if op is None:
            return self._carried(value, domain, inputs) or unknown
        if (lanes := moved_lanes(value)) is not None and lanes.axes is not None:
            return self._viewed(domain, inputs[lanes.operand], lanes.axes)
        shapes = {shape_of(operand.type) for operand in op.operands}
        if op.regions or not shapes <= {shape_of(value.type)}:
            return unknown
        return meaning(domain, op, inputs) or unknown

    def _carried(
        self, value: Value, domain: AxisInfoDomain, inputs: Sequence[AxisInfo]
    ) -> AxisInfo | None:
        """Return the axis info of a loop's counter, or of a value that a loop carries unchanged."""
        counted = counted_loop(value)
        if counted is None:
            return None
        loop, number = counted
        if number < 0:
            return domain.uniform(gcd(*(info.of_all for info in inputs)))
        carried = carried_values(loop)[number]
        return inputs[0] if carried.yielded is carried.argument else None

    def _viewed(
        self, domain: AxisInfoDomain, inner: AxisInfo, axes: Sequence[int | None]
    ) -> AxisInfo:
        """Return the axis info of a view, given the info of its operand.

        Args:
            axes: For each axis of the operand, the axis of the view that it becomes, or None.
        """
        uniform_info = domain.uniform(inner.of_all, inner.number)
        contiguity, divisibility, constancy = map(list, uniform_info[:3])
        for n, axis in enumerate(axes):
            if axis is not None:
                contiguity[axis], divisibility[axis] = inner.contiguity[n], inner.divisibility[n]
                constancy[axis] = inner.constancy[n]
        return AxisInfo(tuple(contiguity), tuple(divisibility), tuple(constancy), inner.number)
