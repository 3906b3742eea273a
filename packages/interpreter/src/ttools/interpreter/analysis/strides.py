"""Static strides of index and pointer tiles, to choose the axis along which lanes should lie."""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.ir import (
    Block,
    Constant,
    Operation,
    Value,
    as_signed,
    element_type,
    shape_of,
)

#: Elements between neighbours along each axis; None where unknown or run-time.
Strides = tuple[int | None, ...]


def memory_order(pointer: Value) -> tuple[int, ...] | None:
    """Axes from slowest to fastest if another axis than the last has unit stride, else None."""
    shape = shape_of(pointer.type)
    strides = static_strides(pointer) if len(shape) > 1 else ()
    if not strides or strides[-1] in (0, 1):
        return None
    for axis in range(len(shape) - 1):
        if strides[axis] == 1 and shape[axis] >= 4:
            return (*(k for k in range(len(shape)) if k != axis), axis)
    return None


def tile_order(value: Value, stored: Callable[[Value], bool]) -> tuple[int, ...] | None:
    """In which order to compute a tile so that the loads it is made of run along memory.

    Args:
        stored: whether a tile is read from its slot, row-major, rather than computed.
    """
    rank = len(shape_of(value.type))
    op = value.defining_op
    if op is not None and op.name == "tt.elementwise_inline_asm":
        return None  # neighbours in row-major order may share a register
    axis = _fastest_axis(value, stored)
    if rank < 2 or axis is None or axis == rank - 1:
        return None
    return (*(k for k in range(rank) if k != axis), axis)


def _fastest_axis(value: Value, stored: Callable[[Value], bool]) -> int | None:
    """The axis along which the first load below `value` has unit stride; None without one."""
    seen: dict[Value, int | None] = {}  # a value that is used twice is looked at once

    def visit(value: Value, depth: int) -> int | None:
        if value not in seen:
            seen[value] = look(value, depth)
        return seen[value]

    def look(value: Value, depth: int) -> int | None:
        op = value.defining_op
        if op is None or depth > 16 or (stored(value) and depth > 0):
            return None
        if op.name == "tt.load":
            order = memory_order(op.operands[0])
            if order is not None:
                return order[-1]
            strides = static_strides(op.operands[0])
            return len(strides) - 1 if strides and strides[-1] == 1 else None
        for operand in op.operands:
            axis = visit(operand, depth + 1) if operand.is_tensor else None
            if axis is not None:
                return _through(op, operand, axis)
        return None

    return visit(value, 0)


def _through(op: Operation, operand: Value, axis: int) -> int | None:
    """The result axis that runs along `axis` of an operand."""
    shape = shape_of(operand.type)
    if op.name == "tt.trans":
        order = op.attributes["order"]
        return [int(k) for k in order].index(axis)  # type: ignore[union-attr, arg-type]
    if op.name == "tt.expand_dims":
        return axis + (axis >= op.axis)
    if shape == shape_of(op.results[0].type):
        return axis
    return None


def addresses_differ(pointer: Value) -> bool:
    """Whether all lanes of a tile of pointers are seen to have different addresses."""
    shape, strides = shape_of(pointer.type), static_strides(pointer)
    if _wraps(pointer):
        return False
    span = 1
    for stride, extent in sorted((abs(s or 0), n) for s, n in zip(strides, shape, strict=True)):
        if extent > 1:
            if stride < span:
                return False
            span += stride * (extent - 1)
    return True


def _wraps(value: Value) -> bool:
    """Whether a remainder takes part in an index, so that its strides hold only locally."""
    seen = {value}
    pending = [value]
    while pending:
        op = pending.pop().defining_op
        if op is None:
            continue
        if op.name in ("arith.remsi", "arith.remui"):
            return True
        operands = {operand for operand in op.operands if operand.is_tensor} - seen
        seen |= operands
        pending += operands
    return False


def static_strides(value: Value) -> Strides:
    """Strides of a tile as far as they can be seen without running anything."""
    return _strides(value, {}, 0)


def _strides(value: Value, known: dict[Value, Strides], depth: int) -> Strides:
    if value not in known:
        unknown: Strides = (None,) * len(shape_of(value.type))
        known[value] = (_defined(value, known, depth) if depth <= 32 else None) or unknown
    return known[value]


def _defined(value: Value, known: dict[Value, Strides], depth: int) -> Strides | None:
    op = value.defining_op
    if op is None:
        return _carried(value, known, depth)
    rank = len(shape_of(value.type))
    match op.name:
        case "tt.make_range":
            return (1,)
        case "tt.splat":
            return (0,) * rank
        case "arith.constant":
            data = op.attributes["value"]
            return (0,) * rank if isinstance(data, Constant) and data.is_splat else None
    inner = [_strides(v, known, depth + 1) for v in op.operands if v.is_tensor]
    return _from_operands(op, inner)


def _from_operands(op: Operation, inner: list[Strides]) -> Strides | None:
    match op.name:
        case "tt.expand_dims":
            axis = op.axis
            return (*inner[0][:axis], 0, *inner[0][axis:])
        case "tt.broadcast":
            shape = shape_of(op.operands[0].type)
            return tuple(0 if n == 1 else s for n, s in zip(shape, inner[0], strict=True))
        case "tt.trans":
            order = op.attributes["order"]
            return tuple(inner[0][int(k)] for k in order)  # type: ignore[union-attr, arg-type]
        case "arith.addi" | "tt.addptr":
            a, b = inner
            return tuple(
                None if x is None or y is None else x + y for x, y in zip(a, b, strict=True)
            )
        case "arith.muli":
            return _product(op.operands[0], op.operands[1], inner[0], inner[1])
        case "arith.extsi" | "arith.extui" | "arith.remsi" | "arith.remui":
            return inner[0]
    return None


def _product(a: Value, b: Value, first: Strides, second: Strides) -> Strides:
    for factor, strides in ((b, first), (a, second)):
        op = factor.defining_op
        data = op.attributes.get("value") if op is not None else None
        if isinstance(data, Constant) and data.is_splat:
            width = getattr(element_type(data.type), "width", 64)
            number = as_signed(data.bits[0], width)
            return tuple(None if s is None else s * number for s in strides)
    return tuple(0 if x == 0 and y == 0 else None for x, y in zip(first, second, strict=True))


def _carried(value: Value, known: dict[Value, Strides], depth: int) -> Strides | None:
    """A loop-carried pointer keeps the strides of its initial value."""
    block = value.owner
    assert isinstance(block, Block)
    loop = block.parent_op
    if loop is None or loop.name != "scf.for" or value.index == 0:
        return None
    return _strides(loop.operands[2 + value.index], known, depth + 1)
