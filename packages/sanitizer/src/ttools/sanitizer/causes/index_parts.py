"""The named values from which an address or a condition is computed, nearest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ttools.core.location import SourceLocation, loop_variable
from ttools.interpreter.emit.instruments.event import argument_name, subscripted_name, variable_name
from ttools.ir import IntegerType, Operation, Value, element_type, shape_of
from ttools.ir.dataflow import carried_values, counted_loop
from ttools.ir.dialects.traits import COUNTED, READS
from ttools.ir.semantics import moved_lanes

#: For each axis of a part, the corresponding axis of the value that is explained; None if there is
#: none.
Axes = tuple["int | None", ...]


@dataclass(frozen=True)
class Part:
    """An integer that an address is computed from.

    Attributes:
        name: The Python variable that holds the integer; empty if there is none.
        axes: For each axis of its tile, the corresponding axis of the access.
        used: Position at which the variable is used, if the location of the value belongs to
            another variable; otherwise None.
    """

    value: Value
    name: str
    axes: Axes
    used: SourceLocation | None = None


def parts_of(address: Value) -> Iterator[Part]:
    """Yield the integers that a value is computed from; loads are yielded, but not followed."""
    axes: Axes = tuple(range(len(shape_of(address.type))))
    queue: list[tuple[Value, Axes, Operation | None]] = [(address, axes, None)]
    # The same value may be used with different axes, for example a range along two axes of a tile.
    visited = {(address, axes)}
    for value, axes, user in queue:  # the loop appends to the queue
        if isinstance(element_type(value.type), IntegerType):
            name, used = named(value), None
            if not name and user is not None and (name := subscripted_name(value, user)):
                used = user.location
            yield Part(value, name, axes, used)
        for operand, theirs in _operands(value, axes):
            if (operand, theirs) not in visited:
                visited.add((operand, theirs))
                queue.append((operand, theirs, value.defining_op))


def _operands(value: Value, axes: Axes) -> list[tuple[Value, Axes]]:
    counted = counted_loop(value)
    if counted is not None and counted[1] >= 0:
        carried = carried_values(counted[0])[counted[1]]
        return [(carried.initial, axes), (carried.yielded, axes)]
    op = value.defining_op
    if op is None or op.has(READS) or op.regions:
        return []
    if (lanes := moved_lanes(value)) is not None and lanes.axes is not None:
        moved = tuple(None if axis is None else axes[axis] for axis in lanes.axes)
        return [(op.operands[lanes.operand], moved)]
    return [(v, axes if v.is_tensor else ()) for v in op.operands]


def named(value: Value) -> str:
    """Return the Python variable that holds a value, or `""`."""
    return variable_name(value) if value.defining_op is not None else argument_name(value)


def loop_variables(op: Operation) -> Iterator[str]:
    """Yield the counters of the counted loops around an operation, innermost first."""
    parent = op.parent_op
    while parent is not None:
        location: SourceLocation | None = parent.location
        if parent.has(COUNTED) and location is not None:
            yield loop_variable(location.file, location.line)
        parent = parent.parent_op
