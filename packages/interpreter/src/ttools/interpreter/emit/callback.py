"""Calls from native code back into the runtime, and early returns of programs."""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.abi.launch_layout import offset
from ttools.interpreter.abi.module import CallbackKind
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.launch_fields import launch_field
from ttools.interpreter.llvm.value import LAUNCH, PROGRAM, SSAValue, integer


def call_back(e: Emitter, kind: CallbackKind, site: int, payload: SSAValue) -> None:
    """Call the runtime; if it returns a status other than 0, the program returns immediately."""
    b = e.b
    function = launch_field(b, "callback")
    numbers = integer(int(kind), "i32"), integer(site, "i32")
    leave_unless_zero(e, b.call("i32", function, LAUNCH, PROGRAM, *numbers, payload))


def leave_when_aborted(e: Emitter, site: int) -> None:
    """Emit, in a loop that may run long, a return that is taken if the launch was aborted.

    Args:
        e: The emitter, in the loop.
        site: The number of the loop's site, which the first program that leaves a loop records.
    """
    b = e.b
    flag = b.offset(LAUNCH, offset("abort"))
    status = b.load("i32", flag, 4, op="load volatile")

    def leave() -> None:
        # This function belongs to the runtime. If it were part of each module, LLVM would spend
        # more time compiling it than compiling the check.
        b.call("void", launch_field(b, "note_stop"), LAUNCH, PROGRAM, integer(site, "i64"))

    leave_unless_zero(e, status, leave)


def leave_unless_zero(
    e: Emitter, status: SSAValue, before: Callable[[], None] = lambda: None
) -> None:
    """Emit a return that is taken if an i32 status is not 0.

    Args:
        before: Emits code that runs before the return.
    """
    b = e.b
    stop = b.compare("icmp ne", status, 0)
    leave, stay = b.label("leave"), b.label("stay")
    b.cond_branch(stop, leave, stay)
    b.start(leave)
    before()
    e.emit_failure_return()
    b.start(stay)
