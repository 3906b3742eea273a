"""Values that explain a defect, where they can still be seen at the check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttools.interpreter.ir import Block, Operation, PointerType, Value, element_type, shape_of

_FALLBACK = ("left", "right")


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
            location = value.location
            yield (location.name if location is not None else None) or fallback, value


def _is_visible(definition: Operation, use: Operation) -> bool:
    """Whether `use` comes after `definition` in its block, or within an operation that does."""
    current: Operation | None = use
    while current is not None and current.parent is not None:
        block: Block = current.parent
        if block is definition.parent:
            return block.operations.index(definition) <= block.operations.index(current)
        current = block.parent.parent if block.parent is not None else None
    return False
