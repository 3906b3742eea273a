"""Strides of index and pointer tiles, which determine the axis along which a tile is traversed."""

from __future__ import annotations

from collections.abc import Callable

from ttools.ir import Operation, Value, shape_of
from ttools.ir.dialects.traits import LOADS
from ttools.ir.domains.strides import StrideAnalysis, Strides
from ttools.ir.semantics import is_view, moved_lanes


def memory_order(pointer: Value, known: StrideAnalysis | None = None) -> tuple[int, ...] | None:
    """Return the axes from slowest to fastest if an axis other than the last has unit stride.

    Args:
        pointer: A tile of pointers.
        known: Strides that were already computed for the function; new ones are added.
    """
    shape = shape_of(pointer.type)
    strides = static_strides(pointer, known) if len(shape) > 1 else ()
    if not strides or strides[-1] in (0, 1):
        return None
    for axis in range(len(shape) - 1):
        if strides[axis] == 1 and shape[axis] >= 4:
            return (*(k for k in range(len(shape)) if k != axis), axis)
    return None


def tile_order(
    value: Value, stored: Callable[[Value], bool], known: StrideAnalysis | None = None
) -> tuple[int, ...] | None:
    """Return the order of axes in which to compute a tile so that its loads are contiguous.

    Args:
        stored: Returns whether a tile is read from its slot, which is row-major, instead of being
            computed.
        known: Strides that were already computed for the function; new ones are added.
    """
    rank = len(shape_of(value.type))
    op = value.defining_op
    if op is not None and op.name == "tt.elementwise_inline_asm":
        return None  # neighbours in row-major order may share a register
    axis = _fastest_axis(value, stored, known or StrideAnalysis()) if rank > 1 else None
    if axis is None or axis == rank - 1:
        return None
    return (*(k for k in range(rank) if k != axis), axis)


def _fastest_axis(
    value: Value, stored: Callable[[Value], bool], known: StrideAnalysis
) -> int | None:
    """Return the axis along which the first load that a value depends on has unit stride."""
    axes: dict[Value, int | None] = {}  # results, so that each value is visited once

    def visit(value: Value, depth: int) -> int | None:
        if value not in axes:
            axes[value] = look(value, depth)
        return axes[value]

    def look(value: Value, depth: int) -> int | None:
        op = value.defining_op
        if op is None or depth > 16 or (stored(value) and depth > 0):
            return None
        if op.has(LOADS):
            order = memory_order(op.operands[0], known)
            if order is not None:
                return order[-1]
            strides = known.strides(op.operands[0])
            return len(strides) - 1 if strides and strides[-1] == 1 else None
        for operand in op.operands:
            axis = visit(operand, depth + 1) if operand.is_tensor else None
            if axis is not None:
                return _through(op, operand, axis)
        return None

    return visit(value, 0)


def _through(operation: Operation, operand: Value, axis: int) -> int | None:
    """Return the axis of the result that corresponds to an axis of an operand."""
    result = operation.results[0]
    if is_view(operation):
        lanes = moved_lanes(result)
        return lanes.axes[axis] if lanes is not None and lanes.axes is not None else None
    return axis if shape_of(operand.type) == shape_of(result.type) else None


def addresses_differ(pointer: Value) -> bool:
    """Return whether all lanes of a tile of pointers provably have different addresses."""
    analysis, shape = StrideAnalysis(), shape_of(pointer.type)
    if analysis.of(pointer).wraps:
        return False
    strides, span = analysis.strides(pointer), 1
    for stride, extent in sorted((abs(s or 0), n) for s, n in zip(strides, shape, strict=True)):
        if extent > 1:
            if stride < span:
                return False
            span += stride * (extent - 1)
    return True


def static_strides(value: Value, known: StrideAnalysis | None = None) -> Strides:
    """Return the stride of a tile along each axis; None for each one that is not constant."""
    return (known or StrideAnalysis()).strides(value)
