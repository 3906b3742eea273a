"""Properties of operations that the evaluation at one size and the one at all sizes both need."""

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
    """Return the width in bits of a value's integers; 64 for pointers and all other types."""
    kind = element_type(value.type)
    return kind.width if isinstance(kind, IntegerType) else 64


def axis_of(op: Operation) -> int:
    """Return the axis attribute: the grid axis of `tt.get_program_id`, or the axis of a tile."""
    axis = op.attributes["axis"]
    return axis if isinstance(axis, int) else "xyz".index(str(axis))


def range_of(op: Operation) -> tuple[int, int]:
    """Return the start and the end of a `tt.make_range`."""
    start, end = op.attributes["start"], op.attributes["end"]
    assert isinstance(start, int)
    assert isinstance(end, int)
    return start, end


def is_mixed(maps: Sequence[Lanes]) -> bool:
    """Return whether a view combines the lanes of several operands in an unspecified order."""
    return len(maps) > 1 and not all(lane_map.ordered for lane_map in maps)


def is_modelled(op: Operation) -> bool:
    """Return whether the evaluation supports a memory access.

    Atomic loads and atomic stores are not supported, and neither are accesses through descriptors.
    """
    changes = op.has(READS) and op.has(WRITES)
    return op.operand("ptr") is not None and (changes or not op.has(ATOMIC))


def access_kind(op: Operation) -> Literal["load", "store", "atomic"]:
    """Return the kind of an access to memory."""
    if op.has(ATOMIC):
        return "atomic"
    return "store" if op.has(WRITES) else "load"


def same_elements(one: Type, other: Type) -> bool:
    """Return whether both types are pointers to elements of the same size in bytes."""
    sizes = [_element_bytes(k.pointee) if isinstance(k, PointerType) else 0 for k in (one, other)]
    return 0 < sizes[0] == sizes[1]


def _element_bytes(kind: Type) -> int:
    width = kind.width if isinstance(kind, (IntegerType, FloatType)) else 64
    return -(-width // 8)
