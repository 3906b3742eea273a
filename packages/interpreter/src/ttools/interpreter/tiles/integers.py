"""Scalar integer arithmetic in LLVM text: literals folded, powers of two that divide tracked.

Divisibility is what proves that a chunk's base and lane offsets cannot carry into each other.
"""

from __future__ import annotations

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

    def iadd(self, type: str, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """Integer addition with literals folded and divisors tracked."""
        a = a if isinstance(a, SSAValue) else integer(a, type)
        b = b if isinstance(b, SSAValue) else integer(b, type)
        if a == "0":
            return b
        if b == "0":
            return a
        if not a.startswith("%") and not b.startswith("%"):
            return integer(wrap_signed(int(a) + int(b), int(type[1:])), type)
        ssa = self.b.binary("add", a, b)
        self.divisors[ssa] = min(self.divisor(a), self.divisor(b))
        return ssa

    def isub(self, type: str, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """Integer subtraction with literals folded and divisors tracked."""
        a = a if isinstance(a, SSAValue) else integer(a, type)
        b = b if isinstance(b, SSAValue) else integer(b, type)
        if b == "0":
            return a
        if not a.startswith("%") and not b.startswith("%"):
            return integer(wrap_signed(int(a) - int(b), int(type[1:])), type)
        ssa = self.b.binary("sub", a, b)
        self.divisors[ssa] = min(self.divisor(a), self.divisor(b))
        return ssa

    def imul(self, type: str, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """Integer multiplication with literals folded and divisors tracked."""
        a = a if isinstance(a, SSAValue) else integer(a, type)
        b = b if isinstance(b, SSAValue) else integer(b, type)
        if a == "1" or b == "0":
            return b
        if b == "1" or a == "0":
            return a
        if not a.startswith("%") and not b.startswith("%"):
            return integer(wrap_signed(int(a) * int(b), int(type[1:])), type)
        ssa = self.b.binary("mul", a, b)
        self.divisors[ssa] = min(ANY_DIVISOR, self.divisor(a) * self.divisor(b))
        return ssa

    def convert_int(
        self, value: SSAValue, source: str, target: str, *, signed: bool = True
    ) -> SSAValue:
        """Sign- or zero-extends or truncates a scalar, keeping its divisor."""
        if source == target:
            return value
        bits, wanted = int(source[1:]), int(target[1:])
        if not value.startswith("%") and value.lstrip("-").isdigit():
            known = int(value)
            if not signed and wanted > bits:
                known &= (1 << bits) - 1
            return integer(wrap_signed(known, wanted), target)
        op = "trunc" if wanted < bits else "sext" if signed else "zext"
        ssa = self.b.cast(op, value, target)
        self.divisors[ssa] = min(self.divisor(value), ANY_DIVISOR)
        return ssa
