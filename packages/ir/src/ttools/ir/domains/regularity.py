"""Classification of tiles as uniform or regular.

All lanes of a uniform tile are equal. A regular tile is built from ranges and uniform tiles only:
`pid * 64 + tl.arange(0, 64)` is regular, an index that was loaded from memory is not.
"""

from __future__ import annotations

from ttools.ir.core import Operation, Value
from ttools.ir.dataflow import OnDemand
from ttools.ir.dialects.integers import Integers
from ttools.ir.dialects.traits import (
    COMMUTATIVE,
    DIVIDES,
    ELEMENTWISE,
    FROM_COORDINATES,
    REGULAR,
    VIEW,
)
from ttools.ir.semantics import meaning


class _Sums(Integers["tuple[Value, ...]"]):
    """Domain that represents a sum by its operands, including a sum of a pointer and an offset."""

    def add(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Value, ...]:
        return a + b

    def displace(self, pointer: tuple[Value, ...], offset: tuple[Value, ...]) -> tuple[Value, ...]:
        return pointer + offset


class _SumsAndProducts(_Sums):
    """Domain that represents a sum or product by its operands."""

    def multiply(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Value, ...]:
        return a + b


def summands(op: Operation) -> tuple[Value, Value] | None:
    """Return the operands of a sum, with a pointer first; None for other operations."""
    terms = meaning(_Sums(), op, [(operand,) for operand in op.operands]) or ()
    return terms if len(terms) == 2 else None


class _Uniform(OnDemand[bool]):
    """Determines whether all lanes of a value are the same by construction."""

    def compute(self, value: Value) -> bool:
        op = value.defining_op
        if not value.is_tensor or op is None:
            return not value.is_tensor
        if FROM_COORDINATES in op.traits:
            return op.constant is not None and op.constant.is_splat
        if (VIEW in op.traits and len(op.operands) == 1) or ELEMENTWISE in op.traits:
            return all(self.known[operand] for operand in op.operands)
        return False


class _Regular(OnDemand[bool]):
    """Determines whether a pointer or index is built from ranges and uniform values only."""

    def __init__(self, uniform: _Uniform) -> None:
        super().__init__()
        self._uniform = uniform

    def compute(self, value: Value) -> bool:
        op = value.defining_op
        if not value.is_tensor or op is None:
            return True  # loop-carried values are classified elsewhere, by their initial values
        if op.has(VIEW, FROM_COORDINATES, REGULAR):
            return all(self.known[operand] for operand in op.operands)
        return self._uniform.of(value)


class Regularity:
    """Classifies the tiles of one function and caches the results."""

    def __init__(self) -> None:
        self._uniform = _Uniform()
        self._regular = _Regular(self._uniform)

    def is_uniform(self, value: Value) -> bool:
        """Return whether all elements of a tensor are the same by construction."""
        return self._uniform.of(value)

    def is_regular(self, value: Value) -> bool:
        """Return whether a pointer or index is built from ranges and uniform values only."""
        return self._regular.of(value)

    def is_index_arithmetic(self, op: Operation) -> bool:
        """Return whether an operation adds or multiplies to compute a regular index.

        Such an operation costs nothing per lane.
        """
        if not self.is_regular(op.results[0]):
            return False
        parts = meaning(_SumsAndProducts(), op, [(operand,) for operand in op.operands])
        return parts is not None and len(parts) == 2

    def is_index_division(self, op: Operation) -> bool:
        """Return whether an operation divides a regular index by a uniform number.

        Usually one division per chunk of lanes is enough. If the result were stored in memory,
        later operations could not recognise that it is constant or contiguous within a chunk.
        """
        if DIVIDES not in op.traits:
            return False
        index, divisor = op.operands
        regular = self.is_regular(index) and not self.is_uniform(index)
        return regular and self.is_uniform(divisor)

    def increments(self, argument: Value, yielded: Value) -> tuple[Value, ...] | None:
        """Return the uniform values whose addition to `argument` gives `yielded`.

        Returns:
            None if `yielded` is computed in a different way.
        """
        addends: list[Value] = []
        value = yielded
        while value is not argument:
            op = value.defining_op
            summed = summands(op) if op is not None else None
            if op is None or summed is None:
                return None
            first, second = summed
            if COMMUTATIVE in op.traits and self.is_uniform(first) and not self.is_uniform(second):
                first, second = second, first
            if not self.is_uniform(second):
                return None
            addends.append(second)
            value = first
        return tuple(addends)
