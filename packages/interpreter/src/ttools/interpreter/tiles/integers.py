"""Scalar integer arithmetic in LLVM IR, with constant folding and divisibility.

For each SSA value, a power of two that divides it is recorded. If it is larger than each lane
offset of a chunk, adding an offset to the chunk's base only changes bits that are 0 in the base, so
the sum cannot wrap.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence

from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue, integer
from ttools.interpreter.tiles.chunk import ANY_DIVISOR


def divisor_of_literal(value: int) -> int:
    """Return the largest power of two that divides a literal."""
    return value & -value if value else ANY_DIVISOR


def wrap_signed(value: int, bits: int) -> int:
    """Return a literal as a signed integer of `bits` bits, wrapped around."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def wrapped(lanes: Sequence[int], bits: int) -> tuple[int, ...]:
    """Return the offsets of lanes as signed integers of `bits` bits, wrapped around."""
    limit = 1 << (bits - 1)
    if -limit <= min(lanes) and max(lanes) < limit:
        return tuple(lanes)
    return tuple([wrap_signed(lane, bits) for lane in lanes])


class Integers:
    """Emits integer arithmetic on SSA values and decimal literals."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.divisors: dict[str, int] = {}

    def divisor(self, ssa: SSAValue) -> int:
        """Return a power of two that is known to divide an integer SSA value or literal."""
        if ssa.startswith("%"):
            return self.divisors.get(ssa, 1)
        return divisor_of_literal(int(ssa)) if ssa.lstrip("-").isdigit() else 1

    def add(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """Emit an addition."""
        b = b if isinstance(b, SSAValue) else integer(b, a.type)
        if a == "0":
            return b
        if b == "0":
            return a
        return self._folded("add", operator.add, min, a, b)

    def subtract(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """Emit a subtraction."""
        b = b if isinstance(b, SSAValue) else integer(b, a.type)
        return a if b == "0" else self._folded("sub", operator.sub, min, a, b)

    def multiply(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """Emit a multiplication."""
        b = b if isinstance(b, SSAValue) else integer(b, a.type)
        if a == "1" or b == "0":
            return b
        if b == "1" or a == "0":
            return a
        return self._folded("mul", operator.mul, operator.mul, a, b)

    def linear_index(self, digits: Iterable[tuple[SSAValue, int]]) -> SSAValue:
        """Return the i32 index of an element from its coordinates, slowest axis first.

        Args:
            digits: The coordinate along each axis, and the extent of the axis.
        """
        index = integer(0, "i32")
        for digit, extent in digits:
            index = self.add(self.multiply(index, extent), digit)
        return index

    def _folded(
        self,
        op: str,
        of_literals: Callable[[int, int], int],
        of_divisors: Callable[[int, int], int],
        a: SSAValue,
        b: SSAValue,
    ) -> SSAValue:
        """Emit an operation, or compute it if both operands are literals."""
        if a.is_literal and b.is_literal:
            return integer(wrap_signed(of_literals(int(a), int(b)), int(a.type[1:])), a.type)
        ssa = self.b.binary(op, a, b)
        self.divisors[ssa] = min(ANY_DIVISOR, of_divisors(self.divisor(a), self.divisor(b)))
        return ssa

    def convert(self, value: SSAValue, target: str, *, signed: bool = True) -> SSAValue:
        """Extend or truncate a scalar; the result has the same divisor."""
        if value.type == target:
            return value
        bits, wanted = int(value.type[1:]), int(target[1:])
        if not value.startswith("%") and value.lstrip("-").isdigit():
            number = int(value)
            if not signed and wanted > bits:
                number &= (1 << bits) - 1
            return integer(wrap_signed(number, wanted), target)
        op = "trunc" if wanted < bits else "sext" if signed else "zext"
        ssa = self.b.cast(op, value, target)
        self.divisors[ssa] = self.divisor(value)
        return ssa
