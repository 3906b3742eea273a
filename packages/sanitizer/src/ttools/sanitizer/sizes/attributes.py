"""What both evaluations read of operations: widths, axes, kinds of accesses."""

from __future__ import annotations

from typing import Literal

from ttools.interpreter.dialects.traits import ATOMIC, WRITES
from ttools.interpreter.ir import IntegerType, Operation, Value, element_type


def width_of(value: Value) -> int:
    """Bits of an integer; what an address has of anything else."""
    kind = element_type(value.type)
    return kind.width if isinstance(kind, IntegerType) else 64


def axis_of(op: Operation) -> int:
    """The axis of the grid that an operation asks about, or that of a tile along which it goes."""
    axis = op.attributes["axis"]
    return axis if isinstance(axis, int) else "xyz".index(str(axis))


def range_of(op: Operation) -> tuple[int, int]:
    """Start and end of a range."""
    start, end = op.attributes["start"], op.attributes["end"]
    assert isinstance(start, int)
    assert isinstance(end, int)
    return start, end


def access_kind(op: Operation) -> Literal["load", "store", "atomic"]:
    """What an access is to the memory it reaches."""
    if op.has(ATOMIC):
        return "atomic"
    return "store" if op.has(WRITES) else "load"
