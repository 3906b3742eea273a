"""Tiles in memory representation, for those who get an address: callees and the runtime."""

from __future__ import annotations

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.tiles.chunk import origin, uniform
from ttools.interpreter.tiles.slot import Slot
from ttools.ir import Value, element_type, shape_of


def plain_slot(e: Emitter, value: Value) -> Slot:
    """A slot that holds the value as it is now, in memory representation."""
    if not value.is_tensor:
        slot = e.new_slot((1,), value.type)
        e.write_slot(slot, origin(1), uniform(value.type, e.scalar(value), 1))
        return slot
    if e.plan.is_stored(value) and not e.slot(value).widened:
        return e.slot(value)
    slot = e.new_slot(shape_of(value.type), element_type(value.type))
    e.fill(slot, lambda at: e.evaluate(value, at))
    return slot
