"""Calls of functions that are marked `noinline`."""

from __future__ import annotations

from collections.abc import Sequence

from ttools.core.errors import UnsupportedError
from ttools.interpreter.emit.callback import leave_unless_zero
from ttools.interpreter.emit.function import Callee, Emitter, root
from ttools.interpreter.llvm.value import ARENA, LAUNCH, PROBE, PROGRAM, PROGRAM_IDS, SSAValue
from ttools.interpreter.tiles.slot import Slot
from ttools.ir import Operation


@root("tt.call")
def call(e: Emitter, op: Operation) -> None:
    """Call another function; scalars are passed by value, tiles by the addresses of their slots."""
    arguments = [
        _address(e, e.plain_slot(value)) if value.is_tensor else e.scalar(value)
        for value in op.operands
    ]
    arguments += [_address(e, e.slot(result)) for result in op.results if result.is_tensor]
    answer = invoke(e, op, arena_of(e, op), arguments)
    leave_unless_zero(e, e.b.field(answer, 0))
    for n, result in enumerate(v for v in op.results if not v.is_tensor):
        e.set_scalar(result, e.b.field(answer, n + 1))


def arena_of(e: Emitter, op: Operation) -> SSAValue:
    """Return the address of scratch memory for the function that a `tt.call` calls."""
    return e.b.offset(ARENA, e.allocate(_callee(e, op).arena_bytes))


def invoke(e: Emitter, op: Operation, arena: SSAValue, arguments: Sequence[SSAValue]) -> SSAValue:
    """Call the function of a `tt.call`.

    Returns:
        A structure that consists of a status and the scalar results. The status is not 0 if the
        program must end.
    """
    callee = _callee(e, op)
    probe = [PROBE] if e.prober is not None else []
    state = [LAUNCH, PROGRAM, *PROGRAM_IDS, arena, *probe]
    return e.b.call(callee.return_type, f"@{callee.symbol}", *state, *arguments)


def _callee(e: Emitter, op: Operation) -> Callee:
    callee = e.signature.callees.get(str(op.attributes["callee"]))
    if callee is None:
        raise UnsupportedError("a recursive call", op.location)
    return callee


def _address(e: Emitter, slot: Slot) -> SSAValue:
    return e.b.offset(slot.base, slot.offset)
