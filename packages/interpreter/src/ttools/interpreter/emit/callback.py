"""Calls from native code back into the runtime, and what ends a program early."""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.abi.launch_layout import offset
from ttools.interpreter.abi.module import CallbackKind
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.launch_fields import launch_field
from ttools.interpreter.llvm.value import LAUNCH, PROGRAM, SSAValue, integer


def call_back(e: Emitter, kind: CallbackKind, site: int, payload: SSAValue) -> None:
    """Calls the runtime; the program returns at once if the answer says so."""
    b = e.b
    function = launch_field(b, "callback")
    numbers = integer(int(kind), "i32"), integer(site, "i32")
    leave_unless_zero(e, b.call("i32", function, LAUNCH, PROGRAM, *numbers, payload))


def leave_when_aborted(e: Emitter, site: int) -> None:
    """Emits a return for when the launch is aborted; for loops that may not end soon.

    Args:
        e: stands in the loop.
        site: of the loop; the first program that leaves notes where it was.
    """
    b = e.b
    flag = b.offset(LAUNCH, offset("abort"))
    status = b.load("i32", flag, 4, op="load volatile")

    def leave() -> None:
        # Not a function of the module: compiling it would take LLVM longer than the loop's check.
        b.call("void", launch_field(b, "note_stop"), LAUNCH, PROGRAM, integer(site, "i64"))

    leave_unless_zero(e, status, leave)


def leave_unless_zero(
    e: Emitter, status: SSAValue, before: Callable[[], None] = lambda: None
) -> None:
    """Emits a return for when a status, an i32, is not 0; what `before` emits comes first."""
    b = e.b
    stop = b.compare("icmp ne", status, 0)
    leave, stay = b.label("leave"), b.label("stay")
    b.cond_branch(stop, leave, stay)
    b.start(leave)
    before()
    e.emit_failure_return()
    b.start(stay)
