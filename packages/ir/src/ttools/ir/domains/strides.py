"""Strides of index and pointer tiles, as far as they are known at compile time.

A stride is the difference between neighbouring lanes along an axis; for pointers, it is measured in
elements. For example, `tl.arange(0, 8)[:, None] * 64 + tl.arange(0, 4)[None, :]` has the stride 64
along axis 0 and 1 along axis 1. If the factor 64 were an argument of the kernel, the stride along
axis 0 would be unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ttools.ir.core import Value, shape_of
from ttools.ir.dataflow import OnDemand, carried_values, counted_loop
from ttools.ir.dialects.integers import Integers, UnknownError
from ttools.ir.semantics import meaning, moved_lanes, width_of

#: Stride along each axis; None if it is known only at run time.
Strides: TypeAlias = "tuple[int | None, ...]"


class Steps(NamedTuple):
    """The strides of a tile.

    Attributes:
        along: Stride along each axis; missing axes have stride 0, so `()` is a tile of equal lanes.
        number: The number that all elements are equal to; None if it is unknown or differs.
        wraps: True if a remainder was computed, so that a stride does not hold between the two
            neighbours where the values wrap around.
    """

    along: Strides
    number: int | None = None
    wraps: bool = False

    @property
    def is_uniform(self) -> bool:
        return not any(step is None or step for step in self.along)


_UNIFORM = Steps(())


class StrideDomain(Integers[Steps]):
    """The domain of strides, which supports sums, multiples, and remainders (see `Steps.wraps`)."""

    def constant(self, number: int) -> Steps:
        return Steps((), number)

    def coordinate(self, axis: int, extent: int) -> Steps:
        return Steps((*(0,) * axis, 1))

    def program(self, axis: int) -> Steps:
        return _UNIFORM

    def programs(self, axis: int) -> Steps:
        return _UNIFORM

    def add(self, a: Steps, b: Steps) -> Steps:
        return self._sum(a, b, 1)

    def subtract(self, a: Steps, b: Steps) -> Steps:
        return self._sum(a, b, -1)

    def displace(self, pointer: Steps, offset: Steps) -> Steps:
        return self._sum(pointer, offset, 1)

    def _sum(self, a: Steps, b: Steps, sign: int) -> Steps:
        rank = max(len(a.along), len(b.along))
        along = tuple(
            None if x is None or y is None else x + sign * y
            for x, y in zip(_padded(a.along, rank), _padded(b.along, rank), strict=True)
        )
        are_numbers = a.number is not None and b.number is not None
        number = a.number + sign * b.number if are_numbers else None  # type: ignore[operator]
        return Steps(along, number, a.wraps or b.wraps)

    def multiply(self, a: Steps, b: Steps) -> Steps:
        for factor, other in ((b, a), (a, b)):
            if factor.number is not None:
                along = tuple(None if s is None else s * factor.number for s in other.along)
                number = None if other.number is None else other.number * factor.number
                return Steps(along, number, other.wraps)
        rank = max(len(a.along), len(b.along))
        pairs = zip(_padded(a.along, rank), _padded(b.along, rank), strict=True)
        along = tuple(0 if x == 0 and y == 0 else None for x, y in pairs)
        return Steps(along, None, a.wraps or b.wraps)

    def shift_left(self, a: Steps, by: Steps) -> Steps:
        if by.number is None or not 0 <= by.number < 64:
            raise UnknownError
        return self.multiply(a, Steps((), 1 << by.number))

    def remainder(self, a: Steps, b: Steps) -> Steps:
        return Steps(a.along, None, wraps=True)

    def unsigned(self, a: Steps, bits: int) -> Steps:
        return a

    def signed(self, a: Steps, bits: int) -> Steps:
        return a


def _padded(along: Strides, rank: int) -> Strides:
    return (*along, *(0,) * (rank - len(along)))


class StrideAnalysis(OnDemand[Steps]):
    """The strides of a function's tiles."""

    def __init__(self) -> None:
        super().__init__()
        self._domain = StrideDomain()

    def inputs(self, value: Value) -> Sequence[Value]:
        op = value.defining_op
        if op is not None:
            return op.operands if value.is_tensor and not op.regions else ()
        counted = counted_loop(value)
        # Assume that a loop-carried value keeps the strides of its initial value.
        return (
            (carried_values(counted[0])[counted[1]].initial,) if counted and counted[1] >= 0 else ()
        )

    def compute(self, value: Value) -> Steps:
        if not value.is_tensor:
            return _UNIFORM
        unknown: Strides = (None,) * len(shape_of(value.type))
        op, inputs = value.defining_op, self.inputs(value)
        if op is None:
            return self.known[inputs[0]] if inputs else Steps(unknown)
        if not inputs and op.regions:
            return Steps(unknown)
        operands = [self.known[operand] for operand in inputs]
        lanes = moved_lanes(value)
        if lanes is not None and lanes.axes is not None:
            inner = operands[lanes.operand]
            along: list[int | None] = [0] * len(unknown)
            for axis, step in zip(lanes.axes, inner.along, strict=False):
                if axis is not None:
                    along[axis] = step
            return Steps(tuple(along), inner.number, inner.wraps)
        result_steps = meaning(self._domain, op, operands)
        if result_steps is None:
            return Steps(unknown, wraps=any(operand_steps.wraps for operand_steps in operands))
        # If the steps exceed the range of the index type within the tile, values wrap around, so
        # two elements may be equal.
        range_size = 1 << (width_of(value) or 64)
        steps = zip(_padded(result_steps.along, len(unknown)), shape_of(value.type), strict=True)
        along = [None if s is None or abs(s) * (n - 1) >= range_size else s for s, n in steps]
        return Steps(tuple(along), result_steps.number, result_steps.wraps)

    def strides(self, value: Value) -> Strides:
        """Return the strides of a tile along all of its axes."""
        return _padded(self.of(value).along, len(shape_of(value.type)))
