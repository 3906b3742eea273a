"""`ttools.watch`: hands the value of a variable, all lanes of it, to whoever watches the program.

No operation of Triton's: an observer's rewrite inserts it behind a definition. Its operands are the
value and, for a load that leaves lanes undefined, the mask; its attribute `text` is handed on. The
value is evaluated once more at this place, so that what the kernel itself does stays as it was.
"""

from __future__ import annotations

from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.emit.callback import call_back
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.instruments.event import iterations
from ttools.interpreter.emit.instruments.probe import WATCH, is_watched
from ttools.interpreter.ir import Operation, Value, element_type, shape_of
from ttools.interpreter.llvm.value import ARENA, PROGRAM, integer
from ttools.interpreter.tiles.chunk import origin, uniform
from ttools.interpreter.tiles.slot import Slot


@root(WATCH)
def watch(e: Emitter, op: Operation) -> None:
    assert e.prober is not None
    if not e.prober.watches:
        return
    b = e.b
    watched = is_watched(b, PROGRAM)
    yes, no = b.label("watch"), b.label("watched")
    b.cond_branch(watched, yes, no)
    b.start(yes)
    with e.cold(), e.fresh_memo():
        _hand_over(e, op)
    b.branch(no)
    b.start(no)


def _hand_over(e: Emitter, op: Operation) -> None:
    b = e.b
    slots = [_whole(e, operand) for operand in op.operands]
    addresses = [b.offset(slot.base, slot.offset) for slot in slots]
    payload = e.allocate(8 * (len(slots) + 1 + len(e.iterations)))
    words = [*addresses, integer(len(e.iterations), "i64"), *iterations(e)]
    for n, word in enumerate(words):
        cell = b.offset(ARENA, payload + 8 * n)
        b.store(word, cell, 8)
    described = tuple(
        (str(element_type(operand.type)), shape_of(operand.type), False, True)
        for operand in op.operands
    )
    site = e.add_site(Site(CallbackKind.WATCH, op.location, str(op.attributes["text"]), described))
    call_back(
        e,
        CallbackKind.WATCH,
        site,
        b.offset(ARENA, payload),
    )


def _whole(e: Emitter, value: Value) -> Slot:
    """A slot with the value as it is now, in memory representation."""
    if not value.is_tensor:
        slot = e.new_slot((1,), value.type)
        e.write_slot(slot, origin(1), uniform(value.type, e.scalar(value), 1))
        return slot
    if e.plan.is_stored(value) and not e.slot(value).widened:
        return e.slot(value)
    slot = e.new_slot(shape_of(value.type), element_type(value.type))
    e.fill(slot, lambda at: e.evaluate(value, at))
    return slot
