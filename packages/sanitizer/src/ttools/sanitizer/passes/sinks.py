"""Where a wrong lane of a value becomes a defect: what decides, and what leaves the program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ttools.ir import Operation, Value
from ttools.ir.dialects.traits import LOADS
from ttools.sanitizer.analysis.dataflow import is_access
from ttools.sanitizer.passes.undefined_lanes import mask_of

#: What an atomic compares memory with, or changes it by.
_COMPUTED_WITH = ("cmp", "val", "value")
#: Asserts that Triton makes itself, also for lanes that are not used.
_OVERFLOW_ASSERT = "overflow detected for operation"


@dataclass(frozen=True)
class Sink:
    """A use where a wrong lane of a value matters.

    Attributes:
        op: the operation that uses the value.
        use: what becomes of the lanes, as the end of a sentence about them.
        mask: only lanes with it matter; None for all.
        allows_copies: whether lanes may be handed on as they are.
        allows_choices: whether it does no harm that lanes hold another one of several values, as
            where an element is loaded: then it is undefined which one.
    """

    op: Operation
    value: Value
    use: str
    mask: Value | None = None
    allows_copies: bool = False
    allows_choices: bool = False


def sinks(op: Operation) -> Iterator[Sink]:
    """The sinks among the operands of an operation."""
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
