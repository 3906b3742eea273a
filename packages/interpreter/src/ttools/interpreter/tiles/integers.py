"""Scalar integer arithmetic in LLVM text: literals folded, powers of two that divide tracked.

Divisibility is what proves that a chunk's base and lane offsets cannot carry into each other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue, integer
from ttools.interpreter.tiles.chunk import ANY_DIVISOR


def divisor_of_literal(value: int) -> int:
    """The largest power of two that divides a literal."""
    return value & -value if value else ANY_DIVISOR


def wrap_signed(value: int, bits: int) -> int:
    """Two's complement wrap-around of a literal."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Integers:
    """Emits integer arithmetic on SSA values and decimal literals."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.divisors: dict[str, int] = {}

    def divisor(self, ssa: SSAValue) -> int:
        """A power of two known to divide an integer SSA value or literal."""
        if ssa.startswith("%"):
            return self.divisors.get(ssa, 1)
        return divisor_of_literal(int(ssa)) if ssa.lstrip("-").isdigit() else 1

    def add(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """Integer addition with literals folded and divisors tracked."""
        b = b if isinstance(b, SSAValue) else integer(b, a.type)
        if a == "0":
            return b
        if b == "0":
            return a
        return self._folded("add", operator.add, min, a, b)

    def subtract(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """Integer subtraction with literals folded and divisors tracked."""
        b = b if isinstance(b, SSAValue) else integer(b, a.type)
        return a if b == "0" else self._folded("sub", operator.sub, min, a, b)

    def multiply(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """Integer multiplication with literals folded and divisors tracked."""
        b = b if isinstance(b, SSAValue) else integer(b, a.type)
        if a == "1" or b == "0":
            return b
        if b == "1" or a == "0":
            return a
        return self._folded("mul", operator.mul, operator.mul, a, b)

    def linear_index(self, digits: Iterable[tuple[SSAValue, int]]) -> SSAValue:
        """The i32 whose digits are given, the highest first, each with its number of values."""
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
        """An operation, unless it is one of literals."""
        if a.is_literal and b.is_literal:
            return integer(wrap_signed(of_literals(int(a), int(b)), int(a.type[1:])), a.type)
        ssa = self.b.binary(op, a, b)
        self.divisors[ssa] = min(ANY_DIVISOR, of_divisors(self.divisor(a), self.divisor(b)))
        return ssa

    def convert(self, value: SSAValue, target: str, *, signed: bool = True) -> SSAValue:
        """Sign- or zero-extends or truncates a scalar, keeping its divisor."""
        if value.type == target:
            return value
        bits, wanted = int(value.type[1:]), int(target[1:])
        if not value.startswith("%") and value.lstrip("-").isdigit():
            known = int(value)
            if not signed and wanted > bits:
                known &= (1 << bits) - 1
            return integer(wrap_signed(known, wanted), target)
        op = "trunc" if wanted < bits else "sext" if signed else "zext"
        ssa = self.b.cast(op, value, target)
        self.divisors[ssa] = self.divisor(value)
        return ssa
