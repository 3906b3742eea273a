"""Calls from native code back into the runtime, and what ends a program early."""

from __future__ import annotations

from ttools.interpreter.abi.launch_layout import offset
from ttools.interpreter.abi.module import CallbackKind
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.launch_fields import launch_field


def call_back(e: Emitter, kind: CallbackKind, site: int, payload: str) -> None:
    """Calls the runtime; the program returns at once when told to."""
    b = e.b
    function = launch_field(b, "callback", "ptr")
    verdict = b.emit(
        f"call i32 {function}(ptr %launch, i64 %program, i32 {int(kind)}, i32 {site}, "
        f"ptr {payload})"
    )
    leave_unless_zero(e, verdict)


def leave_when_aborted(e: Emitter) -> None:
    """Lets the program return if the launch has been aborted; for loops that may not end."""
    b = e.b
    flag = b.emit(f"getelementptr inbounds i8, ptr %launch, i64 {offset('abort')}")
    leave_unless_zero(e, b.emit(f"load volatile i32, ptr {flag}, align 4"))


def leave_unless_zero(e: Emitter, status: str) -> None:
    """Lets the program return if a status, an i32, is not 0."""
    b = e.b
    stop = b.emit(f"icmp ne i32 {status}, 0")
    leave, stay = b.label("leave"), b.label("stay")
    b.cond_branch(stop, leave, stay)
    b.start(leave)
    e.abandon()
    b.start(stay)
