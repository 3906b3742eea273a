"""Values that explain a defect, if they are available at the check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ttools.core.location import chain_of
from ttools.interpreter.emit.instruments.event import variable_name
from ttools.ir import Operation, PointerType, Value, element_type, shape_of
from ttools.ir.dialects.traits import CONSTANT, DISPLACES, LINEAR, SPREADS, VIEW
from ttools.ir.rewriting import Builder, with_element
from ttools.sanitizer.analysis.dataflow import holder_of
from ttools.sanitizer.passes.lanes import is_lanewise

_FALLBACK = ("left", "right")
_MOST_SHOWN = 4
_EXTENDING = ("arith.extsi", "arith.extui")
#: Maximum number of operations that are searched between a value and the checked value.
_FAR = 200
#: Operations that move lanes, in order.
_Path: TypeAlias = "tuple[Operation, ...]"


@dataclass(frozen=True)
class CheckSite:
    """The place of a check, and the value that it checks.

    Attributes:
        b: Builder right before `at`.
        at: The operation before which the check is inserted.
        checked: The value to whose lanes the condition applies.
        condition: The condition of the check.
    """

    b: Builder
    at: Operation
    checked: Value
    condition: Value


def operands_shown(culprit: Operation, site: CheckSite) -> Iterator[tuple[str, Value]]:
    """Yield the operands of the reported operation that the check can show."""
    names = _FALLBACK if len(culprit.operands) > 1 else ("value",)
    named = list(zip(names, culprit.operands, strict=False))
    yield from values_shown(named, culprit, site)


def address_shown(
    access: Operation, at: Operation, condition: Value
) -> Iterator[tuple[str, Value]]:
    """Yield a few scalars from which the address of an access is computed.

    Tiles are left out because their lanes need not correspond to those of the check.

    Args:
        access: The load or atomic.
        at: The operation before which the check is inserted.
        condition: The condition of the check.
    """
    offsets = []
    pointer = access.operands[0].defining_op
    while pointer is not None and (pointer.has(SPREADS) or pointer.has(DISPLACES)):
        offsets += pointer.operands[1:]
        pointer = pointer.operands[0].defining_op
    if not _is_visible(access, at):
        return
    parts = [part for offset in offsets for part in _named(offset) if not part.is_tensor]
    shown = {variable_name(part): part for part in parts if not _is_constant(part)}
    yield from list(shown.items())[:_MOST_SHOWN]


def _named(value: Value) -> Iterator[Value]:
    """Yield the named values from which an unnamed value is computed; a named one yields itself."""
    pending, visited = [value], {value}
    while pending:
        part = pending.pop()
        definition = part.defining_op
        if variable_name(part):
            yield part
        elif definition is not None and definition.has(SPREADS, LINEAR):
            new = [v for v in reversed(dict.fromkeys(definition.operands)) if v not in visited]
            visited.update(new)
            pending += new


def values_shown(
    values: Sequence[tuple[str, Value]], culprit: Operation, site: CheckSite
) -> Iterator[tuple[str, Value]]:
    """Yield those values that a check can show, under their names in the source.

    Args:
        values: Values, each with a name that is used if the source has no name for it.
        culprit: The operation that computes or uses all of these values; it has a result.
        site: The check that is about to be inserted.
    """
    if not _is_visible(culprit, site.at):
        return
    shape = shape_of(culprit.results[0].type)
    path: _Path | None = ()
    if shape != shape_of(site.condition.type):
        path = _path(site.checked, culprit.results[0])
    for fallback, repeated in values:
        value = _unspread(repeated)
        if _is_constant(value):
            continue  # a constant is named after the variable computed from it
        if isinstance(element_type(value.type), PointerType):
            continue
        if shape_of(value.type) not in ((), shape):
            continue  # the lanes of a reduction's operand are not those of its result
        source_name = _name(value)
        for name, part in [
            (source_name or fallback, value),
            *(() if source_name else _inputs(value)),
        ]:
            shown = _moved(site.b, part, path, site.condition)
            if shown is not None:
                yield name, shown


def _inputs(value: Value) -> list[tuple[str, Value]]:
    """Return a few variables from which an unnamed value is computed lane by lane."""
    inputs: dict[str, Value] = {}
    pending = [value]
    for _ in range(_FAR):
        if not pending or len(inputs) == _MOST_SHOWN:
            break
        part = _unspread(pending.pop(0))
        definition = part.defining_op
        if part is not value and (name := _name(part)) and not _is_constant(part):
            inputs.setdefault(name, part)
        elif definition is not None and is_lanewise(definition):
            pending += definition.operands
    return list(inputs.items())


def _is_constant(value: Value) -> bool:
    return value.defining_op is not None and value.defining_op.has(CONSTANT)


def _unspread(value: Value) -> Value:
    """Return the scalar that a tensor repeats, or the value itself."""
    definition = value.defining_op
    return definition.operands[0] if definition and definition.name == "tt.splat" else value


def _name(value: Value) -> str:
    """Return the variable that holds a value, or that it was moved or extended from."""
    definition = value.defining_op
    while (
        not variable_name(value)
        and definition is not None
        and (definition.has(SPREADS) or definition.name in _EXTENDING)
    ):
        value = definition.operands[0]
        definition = value.defining_op
    return variable_name(value) or _returned_name(value)


def _returned_name(value: Value) -> str:
    """Return the variable that holds the result of an inlined function."""
    calls = chain_of(value.location)[1:] if value.location is not None else ()
    if not calls:
        return ""
    users = dict.fromkeys(user.location for user, _ in value.uses if user.location is not None)
    around = {(p.file, p.name, p.callers) for user in users for p in chain_of(user)}
    for call in calls:
        if (call.file, call.name, call.callers) in around:
            return ""  # the value is only a part of the assigned value
        if call.name:
            return call.name
    return ""


# ---- from the lanes of a value to those of a check


def _moved(b: Builder, value: Value, path: _Path | None, condition: Value) -> Value | None:
    """Return a value with one element per lane of a check, or None if lanes do not correspond."""
    for op in path or ():
        shape = shape_of(op.operands[0].type)
        if shape_of(value.type) == shape:
            type = with_element(op.result.type, element_type(value.type))
            value = b.value(op.name, [value], type, op.attributes)
    shape, wanted = shape_of(value.type), shape_of(condition.type)
    if shape in ((), wanted):
        return value
    if len(shape) == len(wanted) and all(n in (1, m) for n, m in zip(shape, wanted, strict=True)):
        return b.broadcast(value, wanted)
    return None


def _path(end: Value, start: Value) -> _Path | None:
    """Return the only path by which lanes of `start` become lanes of `end`; None if ambiguous."""
    paths: dict[Value, set[_Path]] = {start: {()}}
    left = _FAR

    def find(value: Value) -> set[_Path]:
        nonlocal left
        op = value.defining_op
        if value in paths or op is None or left == 0:
            return paths.get(value, set())
        left -= 1
        result: set[_Path] = set()
        if _renumbers_lanes(op):
            result = {(*path, op) for path in find(op.operands[0])}
        elif is_lanewise(op):
            result = {path for operand in op.operands for path in find(operand)}
        paths[value] = result
        return result

    result = find(end)
    return next(iter(result)) if len(result) == 1 else None


def _renumbers_lanes(op: Operation) -> bool:
    """Return whether an operation only moves the lanes of one tensor."""
    values = (*op.operands, *op.results)
    return op.has(VIEW) and len(values) == 2 and all(value.is_tensor for value in values)


def _is_visible(definition: Operation, use: Operation) -> bool:
    """Return whether `use` follows `definition` in its block, or is nested in an op that does."""
    current: Operation | None = use
    while current is not None and current.parent is not None:
        if current.parent is definition.parent:
            order = current.parent.operations
            return order.index(definition) <= order.index(current)
        current = holder_of(current.parent)
    return False
