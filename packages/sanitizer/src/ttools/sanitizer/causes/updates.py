"""Updates that are not atomic: a load, a change and a store of the elements that an index selects.

In the following kernel, two lanes or two programs with the same index `s` both load the old sum,
and one of the two additions is lost:

    s = tl.load(segment_ptr + offs)
    tl.store(sum_ptr + s, tl.load(sum_ptr + s) + x)

The conflicts between the load and the store, and of the store with itself, have a common cause, and
a barrier would not help. Only indices that are loaded from memory are considered: if indices are
computed from the ids of programs, a wrong stride is the likelier mistake.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ttools.core.findings.causes import Cause
from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.positions import Position, position_of
from ttools.ir import Module, Operation, Value
from ttools.ir.dataflow import reachable
from ttools.ir.dialects.traits import ATOMIC, WRITES
from ttools.sanitizer.analysis.dataflow import loads
from ttools.sanitizer.analysis.index_loads import index_loads
from ttools.sanitizer.launch.checked import CheckedLaunch


@dataclass(frozen=True)
class Update:
    """A store of a value that is computed from the old contents of the same elements.

    Attributes:
        load: Position of the load of these elements.
        store: Position of the store.
    """

    load: Position
    store: Position


def updates(module: Module) -> dict[Position, Update]:
    """Return the updates of a kernel, by the position of the store."""
    by_index = index_loads(module)
    by_store: dict[Position, Update] = {}
    for op in module.kernel.walk():
        store = position_of(op.location)
        value = op.operand("value") if op.has(WRITES) and not op.has(ATOMIC) else None
        if value is None or store is None or store not in by_index:
            continue
        load = position_of(_own_load(op.address, value))
        if load is not None:
            by_store[store] = Update(load, store)
    return by_store


def _own_load(address: Value, stored: Value) -> SourceLocation | None:
    """Return the location of a load of the stored elements on which the stored value depends."""

    def sources(value: Value) -> Iterable[Value]:
        op = value.defining_op
        return () if op is None or op.regions or loads(value) else op.operands

    for value in reachable([stored], sources):
        op: Operation | None = value.defining_op
        if op is not None and loads(value) and op.address is address:
            return op.location
    return None


def cause_of_update(
    checked: CheckedLaunch, locations: Iterable[SourceLocation | None], parameter: int
) -> Cause | None:
    """Return the update that causes a conflict; None if other accesses take part in it.

    Args:
        checked: The launch in which the conflict occurs.
        locations: Locations of the conflicting accesses.
        parameter: Index of the parameter through which the elements are accessed.
    """
    places = list(locations)
    for place in places:
        update: Update | None = checked.kernel.at(updates, place, None)
        argument = checked.spec.argument(parameter)
        if update is None or place is None or argument is None:
            continue
        if {position_of(other) for other in places} <= {update.load, update.store}:
            return Cause(
                kind="update",
                kernel=checked.spec.kernel,
                name=argument.name,
                location=place,
            )
    return None


def update_help(cause: Cause) -> str:
    """Return how to correct an update."""
    return (
        f"update `{cause.name}` by tl.atomic_add or another atomic instead of a load and a store: "
        "equal indices select the same element"
    )
