"""Values that explain a defect, where they can still be seen at the check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttools.interpreter.emit.event import variable_name
from ttools.interpreter.ir import Block, Operation, PointerType, Value, element_type, shape_of

_FALLBACK = ("left", "right")
_MOST_SHOWN = 4
_SPREADING = ("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape")
_COMPUTING = {
    *_SPREADING,
    *("arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", "arith.trunci"),
}


def operands_shown(
    culprit: Operation, at: Operation, condition: Value
) -> Iterator[tuple[str, Value]]:
    """The operands of an operation at fault.

    Args:
        culprit: the operation.
        at: before which the check stands.
        condition: of the check; what is shown has its shape, or is a scalar.
    """
    named = list(zip(_FALLBACK, culprit.operands, strict=False))
    yield from values_shown(named, culprit, at, condition)


def address_shown(
    access: Operation, at: Operation, condition: Value
) -> Iterator[tuple[str, Value]]:
    """The scalars that the address of an access is computed from, a few of them.

    No tiles: its lanes need not be those of the check.

    Args:
        access: the load or atomic.
        at: before which the check stands.
        condition: of the check.
    """
    offsets = []
    pointer = access.operands[0].defining_op
    while pointer is not None and pointer.name in (*_SPREADING, "tt.addptr"):
        offsets += pointer.operands[1:]
        pointer = pointer.operands[0].defining_op
    parts = [part for offset in offsets for part in _named(offset) if not part.is_tensor]
    shown = {variable_name(part): part for part in parts}
    yield from list(values_shown(list(shown.items()), access, at, condition))[:_MOST_SHOWN]


def _named(value: Value) -> Iterator[Value]:
    """The values with a name that one without is computed from."""
    definition = value.defining_op
    if variable_name(value):
        yield value
    elif definition is not None and definition.name in _COMPUTING:
        for operand in definition.operands:
            yield from _named(operand)


def values_shown(
    values: Sequence[tuple[str, Value]], culprit: Operation, at: Operation, condition: Value
) -> Iterator[tuple[str, Value]]:
    """Of some values, those that a check can show, under the names they have in the source.

    Args:
        values: each with a name for want of a better.
        culprit: the operation that makes or uses them all.
        at: before which the check stands.
        condition: of the check.
    """
    if not _is_visible(culprit, at):
        return
    for fallback, value in values:
        definition = value.defining_op
        if definition is not None and definition.name == "arith.constant":
            continue  # it would go by the name of what is computed from it
        if isinstance(element_type(value.type), PointerType):
            continue
        if shape_of(value.type) in ((), shape_of(condition.type)):
            yield variable_name(value) or fallback, value


def _is_visible(definition: Operation, use: Operation) -> bool:
    """Whether `use` comes after `definition` in its block, or within an operation that does."""
    current: Operation | None = use
    while current is not None and current.parent is not None:
        block: Block = current.parent
        if block is definition.parent:
            return block.operations.index(definition) <= block.operations.index(current)
        current = block.parent.parent if block.parent is not None else None
    return False
