"""What can be seen of index tiles without running anything: uniform, regular, incremented."""

from __future__ import annotations

from ttools.interpreter import elementwise
from ttools.interpreter.ir import Operation, Value

#: Operations that only rename coordinates: as cheap as their operand.
VIEWS = {"tt.splat", "tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.trans", "tt.make_range"}
VIEWS |= {"arith.constant", "tt.split", "tt.join", "tt.unsplat", "ttg.convert_layout", "ub.poison"}


def increments(argument: Value, yielded: Value) -> tuple[Value, ...] | None:
    """The uniform addends that turn `argument` into `yielded`, or None if there is more to it."""
    addends: list[Value] = []
    value = yielded
    while value is not argument:
        op = value.defining_op
        if op is None or op.name not in ("tt.addptr", "arith.addi"):
            return None
        first, second = op.operands
        if op.name == "arith.addi" and is_uniform(first) and not is_uniform(second):
            first, second = second, first
        if not is_uniform(second):
            return None
        addends.append(second)
        value = first
    return tuple(addends)


def is_uniform(value: Value) -> bool:
    """Whether all elements of a tensor are the same by construction."""
    if not value.is_tensor:
        return True
    op = value.defining_op
    if op is None:
        return False
    if op.name == "tt.splat":
        return True
    if op.name == "arith.constant":
        constant = op.attributes["value"]
        return getattr(constant, "is_splat", False)
    if op.name in ("tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans"):
        return is_uniform(op.operands[0])
    return elementwise.is_elementwise(op.name) and all(is_uniform(v) for v in op.operands)


_AFFINE = {
    "arith.addi",
    "arith.subi",
    "arith.muli",
    "arith.extsi",
    "arith.extui",
    "arith.trunci",
    "arith.remsi",
    "arith.remui",
    "tt.addptr",
    "arith.andi",
    "arith.ori",
    "arith.cmpi",
}


def is_index_arithmetic(op: Operation) -> bool:
    """Whether an operation only moves a regular index, which costs nothing per lane."""
    return op.name in ("tt.addptr", "arith.addi", "arith.muli") and is_regular(op.results[0])


def is_index_division(op: Operation) -> bool:
    """Whether an operation divides a regular index by one number: mostly one division per chunk.

    Stored, the result would no longer be seen to be the same, or contiguous, within a chunk.
    """
    if op.name not in ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui"):
        return False
    index, divisor = op.operands
    return is_regular(index) and not is_uniform(index) and is_uniform(divisor)


def is_regular(value: Value, depth: int = 0) -> bool:
    """Whether a pointer or index is built of ranges and uniform values only."""
    op = value.defining_op
    if not value.is_tensor or depth > 24:
        return not value.is_tensor
    if op is None:
        return True  # carried: judged by its initial value elsewhere
    if op.name in VIEWS:
        return all(is_regular(v, depth + 1) for v in op.operands)
    if op.name in _AFFINE:
        return all(is_regular(v, depth + 1) for v in op.operands)
    return is_uniform(value)
