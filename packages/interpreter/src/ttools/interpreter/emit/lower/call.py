"""Calls between functions of a kernel, those that are marked `noinline`."""

from __future__ import annotations

from ttools.core.errors import UnsupportedError
from ttools.interpreter.emit.callback import leave_unless_zero
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.plain_slot import plain_slot
from ttools.interpreter.ir import Operation
from ttools.interpreter.llvm.value import ARENA, LAUNCH, PROBE, PROGRAM, PROGRAM_IDS, SSAValue
from ttools.interpreter.tiles.slot import Slot


@root("tt.call")
def call(e: Emitter, op: Operation) -> None:
    """Calls another function: scalars by value, tiles by address of their slots."""
    callee = e.callees.get(str(op.attributes["callee"]))
    if callee is None:
        raise UnsupportedError("a recursive call", op.location)
    b = e.b
    frame = e.allocate(callee.arena_bytes)
    arena = b.offset(ARENA, frame)
    arguments = [LAUNCH, PROGRAM, *PROGRAM_IDS, arena]
    if e.prober is not None:
        arguments.append(PROBE)
    for value in op.operands:
        tensor = value.is_tensor
        arguments.append(_address(e, plain_slot(e, value)) if tensor else e.scalar(value))
    arguments += [_address(e, e.slot(result)) for result in op.results if result.is_tensor]
    answer = b.call(callee.return_type, f"@{callee.symbol}", *arguments)
    status = b.field(answer, 0)
    leave_unless_zero(e, status)
    for n, result in enumerate(v for v in op.results if not v.is_tensor):
        e.set_scalar(result, b.field(answer, n + 1))


def _address(e: Emitter, slot: Slot) -> SSAValue:
    return e.b.offset(slot.base, slot.offset)
