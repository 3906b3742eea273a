"""Rules for quotients and remainders of negative integers: Triton truncates them, Python floors.

This is the part of the pass `numeric` that follows such a result to memory or an address, as it
follows wrong integers. In the following kernel, `at % n` is -2 for `at = -5` and `n = 3`, and would
be 1 if `at` were a constant:

    tl.load(ring_ptr + at % n)

A kernel that takes care of the sign is not reported: a later remainder, a comparison, `tl.where` or
a bit operation ends the propagation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttools.core.location import user_location
from ttools.ir import Module, Operation, Value
from ttools.ir.dialects.integers import Integers
from ttools.ir.dialects.traits import DIVIDES, SELECTS
from ttools.ir.rewriting import Builder
from ttools.ir.semantics import comparison, lanes_of, meaning, width_of

MESSAGE = (
    "an operand of {} is negative: the result is truncated and reaches memory or an address; "
    "Python, and Triton for constants, would floor it"
)
HELP = (
    "use `(a % n + n) % n` for a remainder, and `(a - (a % n + n) % n) // n` for a quotient, or "
    "keep the operands from being negative"
)
_DEEPEST = 16


class _Symbols(Integers[Any]):
    def quotient(self, a: Any, b: Any) -> str:
        return "`//`"

    def remainder(self, a: Any, b: Any) -> str:
        return "`%`"


class _Naturals(Integers[bool]):
    """The abstract domain that records whether an integer is known not to be negative."""

    def constant(self, number: int) -> bool:
        return number >= 0

    def elements(self, numbers: Sequence[int]) -> bool:
        return min(numbers) >= 0

    def coordinate(self, axis: int, extent: int) -> bool:
        return True

    def program(self, axis: int) -> bool:
        return True

    def programs(self, axis: int) -> bool:
        return True

    def add(self, a: bool, b: bool) -> bool:
        return a and b

    def multiply(self, a: bool, b: bool) -> bool:
        return a and b

    def quotient(self, a: bool, b: bool) -> bool:
        return a and b

    def remainder(self, a: bool, b: bool) -> bool:
        return a

    def least(self, a: bool, b: bool) -> bool:
        return a and b

    def greatest(self, a: bool, b: bool) -> bool:
        return a or b

    def bits_and(self, a: bool, b: bool) -> bool:
        return a or b


def symbol(op: Operation) -> str:
    """Return the Python operator whose result an operation may truncate; empty if none.

    Operations whose results are compared are left out, because the kernel then distinguishes the
    signs. Operations of Triton's own library are left out, too.
    """
    if not op.has(DIVIDES) or not op.results or width_of(op.results[0]) < 8:
        return ""
    if op.location is not None and user_location(op.location) != op.location:
        return ""
    if any(comparison(user) is not None for user, _ in op.results[0].uses):
        return ""
    if all(_is_natural(operand, 0) for operand in op.operands):
        return ""
    return meaning(_Symbols(), op, op.operands) or ""


def remainder_names(module: Module) -> frozenset[str]:
    """Return the names of the variables that a kernel assigns a remainder."""
    places = (
        op.results[0].location
        for op in module.walk()
        if op.results and op.declaration.python == "Mod"
    )
    return frozenset(place.name for place in places if place is not None and place.name)


def _is_natural(value: Value, depth: int) -> bool:
    op = value.defining_op
    if op is None or depth > _DEEPEST:
        return False
    if len(lanes_of(value)) == 1:
        return _is_natural(op.operands[0], depth + 1)
    operands = [_is_natural(operand, depth + 1) for operand in op.operands]
    return meaning(_Naturals(), op, operands) or False


def is_truncated(b: Builder, op: Operation) -> Value:
    """Build the condition that the result of an operation differs from the result in Python."""
    dividend, divisor = op.operands
    rest = b.binary("remsi", dividend, divisor)
    zero = b.constant(rest.type, 0)
    signs = b.binary("xori", rest, divisor)
    return b.binary("andi", b.compare("ne", rest, zero), b.compare("slt", signs, zero))


def propagates(op: Operation) -> bool:
    """Return whether an operation may keep a truncated result without handling its sign."""
    return not op.has(SELECTS, DIVIDES)
