"""What both evaluations read of operations: widths, axes, kinds of accesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ttools.ir import (
    FloatType,
    IntegerType,
    Operation,
    PointerType,
    Type,
    Value,
    element_type,
)
from ttools.ir.dialects.coordinates import Lanes
from ttools.ir.dialects.traits import ATOMIC, READS, WRITES


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


def is_mixed(maps: Sequence[Lanes]) -> bool:
    """Return whether a view puts lanes of several operands into an unspecified order."""
    return len(maps) > 1 and not all(lane_map.ordered for lane_map in maps)


def is_modelled(op: Operation) -> bool:
    """Return whether an access is one whose effect is followed: atomic loads and stores are not."""
    changes = op.has(READS) and op.has(WRITES)
    return op.operand("ptr") is not None and (changes or not op.has(ATOMIC))


def access_kind(op: Operation) -> Literal["load", "store", "atomic"]:
    """What an access is to the memory it reaches."""
    if op.has(ATOMIC):
        return "atomic"
    return "store" if op.has(WRITES) else "load"


def same_elements(one: Type, other: Type) -> bool:
    """Whether both are pointers, to elements of the same number of bytes."""
    sizes = [_element_bytes(k.pointee) if isinstance(k, PointerType) else 0 for k in (one, other)]
    return 0 < sizes[0] == sizes[1]


def _element_bytes(kind: Type) -> int:
    width = kind.width if isinstance(kind, (IntegerType, FloatType)) else 64
    return -(-width // 8)
