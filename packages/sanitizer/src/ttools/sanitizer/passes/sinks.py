"""Sinks: uses of a value where a defective lane becomes a defect of the program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ttools.ir import Operation, Value
from ttools.ir.dialects.traits import LOADS
from ttools.sanitizer.analysis.dataflow import is_access
from ttools.sanitizer.passes.undefined_lanes import mask_of

#: Operands by which an atomic changes memory, or with which it compares memory.
_COMPUTED_WITH = ("cmp", "val", "value")
#: Message of asserts that Triton itself inserts, even for lanes that are not used.
_OVERFLOW_ASSERT = "overflow detected for operation"


@dataclass(frozen=True)
class Sink:
    """A use where a defective lane of a value matters.

    Attributes:
        op: The operation that uses the value.
        use: The end of a sentence about the lanes, such as "they decide a branch".
        mask: If given, only lanes inside it matter.
        allows_copies: If True, defective lanes may be stored as long as their shadows are stored
            with them.
        allows_choices: If True, lanes may hold one of several defined values. An example is the
            address of a load: loading any of the elements is valid.
    """

    op: Operation
    value: Value
    use: str
    mask: Value | None = None
    allows_copies: bool = False
    allows_choices: bool = False


def sinks(op: Operation) -> Iterator[Sink]:
    """Yield the sinks among the operands of an operation."""
    if is_access(op):
        yield from _accessed(op)
    match op.name:
        case "scf.if" | "scf.condition" | "cf.cond_br":
            yield Sink(op, op.operands[0], "they decide a branch")
        case "scf.for":
            for value in op.operands[:3]:
                yield Sink(op, value, "they bound a loop")
        case "tt.assert" | "cf.assert":
            if _OVERFLOW_ASSERT not in str(op.attributes.get("message", "")):
                yield Sink(op, op.operands[0], "they are asserted")


def _accessed(op: Operation) -> Iterator[Sink]:
    mask, loads = mask_of(op), op.has(LOADS)
    use = "an address is computed from them"
    yield Sink(op, op.address, use, mask, allows_choices=loads)
    if op.mask is not None:
        yield Sink(op, op.mask, "they decide a mask", allows_choices=loads)
    if op.name == "tt.store":
        yield Sink(op, op.operands[1], "they reach what is stored", mask, allows_copies=True)
    elif not loads:
        for value in map(op.operand, _COMPUTED_WITH):
            if value is not None:
                yield Sink(op, value, "an atomic uses them", mask)
