"""Tiles in memory representation, for callees and the runtime, which get their address."""

from __future__ import annotations

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.tiles.chunk import origin, uniform
from ttools.interpreter.tiles.slot import Slot
from ttools.ir import Value, element_type, shape_of


def plain_slot(e: Emitter, value: Value) -> Slot:
    """Return a slot that holds the current value in memory representation."""
    if not value.is_tensor:
        slot = e.new_slot((1,), value.type)
        e.write_slot(slot, origin(1), uniform(value.type, e.scalar(value), 1))
        return slot
    if e.plan.is_stored(value) and not e.slot(value).widened:
        return e.slot(value)
    slot = e.new_slot(shape_of(value.type), element_type(value.type))
    e.fill(slot, lambda at: e.evaluate(value, at))
    return slot
