"""Queries on a kernel's IR: its operations in program order, and the origins of values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import Block, Constant, Operation, Value
from ttools.ir.dialects.integers import Integers
from ttools.ir.dialects.traits import LOADS, READS, WRITES
from ttools.ir.nesting import outside_combines
from ttools.ir.semantics import meaning


def operations(parent: Operation) -> Iterator[Operation]:
    """Yield the operations nested in `parent`, in program order.

    The combine regions of reductions and scans are left out: their operations work on pairs of
    elements, not on the values of the kernel.
    """
    return islice(outside_combines(parent), 1, None)


def parameter_of(pointer: Value, provenance: Provenance) -> int:
    """Return the index of the only parameter that a pointer derives from; -1 if it is unknown."""
    roots = provenance.of(pointer)
    (root,) = roots if len(roots) == 1 else (None,)
    return -1 if root is None else root


def constant_of(value: Value) -> Constant | None:
    """Return the value's constant, or None if no constant operation defines it."""
    op = value.defining_op
    data = op.attributes.get("value") if op is not None else None
    return data if isinstance(data, Constant) else None


def holder_of(block: Block) -> Operation | None:
    """Return the operation whose region contains a block, or None."""
    return block.parent.parent if block.parent is not None else None


class _Axes(Integers[Any]):
    def program(self, axis: int) -> int:
        return axis


_AXES = _Axes()


def program_axis(op: Operation) -> int | None:
    """Return the grid axis whose program id an operation reads; None for any other operation."""
    return None if op.operands else meaning(_AXES, op, ())


def is_access(op: Operation) -> bool:
    """Return whether an operation reads or writes memory through a pointer operand."""
    return op.has(READS, WRITES) and op.operand("ptr") is not None


def loads(value: Value) -> Operation | None:
    """Return the load that defines a value, or None if another operation does."""
    op = value.defining_op
    return op if op is not None and op.has(LOADS) else None


def is_read(op: Operation) -> bool:
    """Return whether an operation reads memory through a pointer operand, as atomics do, too."""
    return op.has(READS) and op.operand("ptr") is not None
