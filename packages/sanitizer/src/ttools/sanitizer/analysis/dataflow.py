"""The ways of values through a kernel: its operations in order, and what values come from."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import Block, Constant, Operation, Value
from ttools.ir.dialects.traits import LOADS, READS, WRITES
from ttools.ir.nesting import outside_combines


def operations(parent: Operation) -> Iterator[Operation]:
    """All operations in `parent`, in program order, but those that combine elements."""
    return islice(outside_combines(parent), 1, None)


def parameter_of(pointer: Value, provenance: Provenance) -> int:
    """The one parameter that a pointer derives from; -1 if that is not known."""
    roots = provenance.of(pointer)
    (root,) = roots if len(roots) == 1 else (None,)
    return -1 if root is None else root


def constant_of(value: Value) -> Constant | None:
    """The constant that a value is."""
    op = value.defining_op
    data = op.attributes.get("value") if op is not None else None
    return data if isinstance(data, Constant) else None


def holder_of(block: Block) -> Operation | None:
    """The operation that a block is in."""
    return block.parent.parent if block.parent is not None else None


def is_access(op: Operation) -> bool:
    """Whether an operation reads or writes memory through pointers."""
    return op.has(READS, WRITES) and op.operand("ptr") is not None


def loads(value: Value) -> Operation | None:
    """The load whose result a value is."""
    op = value.defining_op
    return op if op is not None and op.has(LOADS) else None


def is_read(op: Operation) -> bool:
    """Whether an operation reads memory through pointers, as atomics do too."""
    return op.has(READS) and op.operand("ptr") is not None
