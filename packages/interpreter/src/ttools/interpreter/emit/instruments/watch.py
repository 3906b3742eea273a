"""`ttools.watch`: passes the value of a variable, with all lanes, to the observer of a program.

An observer's rewrite inserts this operation after a definition; Triton has none. Its operands are
the value and, for a load that leaves lanes undefined, the mask. Its attribute `text` is passed on.
The value is evaluated again here, so that the code of the kernel itself does not change.
"""

from __future__ import annotations

from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.emit.callback import call_back
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.instruments.event import iterations
from ttools.interpreter.emit.instruments.probe import WATCH, is_watched
from ttools.interpreter.emit.plain_slot import plain_slot
from ttools.interpreter.llvm.value import ARENA, PROGRAM, integer
from ttools.ir import Operation, element_type, shape_of


@root(WATCH)
def watch(e: Emitter, op: Operation) -> None:
    assert e.prober is not None
    if not e.prober.watches:
        return
    b = e.b
    with b.only_if(is_watched(b, PROGRAM), "watch", "watched"), e.cold(), e.fresh_memo():
        _hand_over(e, op)


def _hand_over(e: Emitter, op: Operation) -> None:
    b = e.b
    slots = [plain_slot(e, operand) for operand in op.operands]
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
    call_back(e, CallbackKind.WATCH, site, b.offset(ARENA, payload))
