"""Calls from native code back into the runtime, and what ends a program early."""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.abi.launch_layout import offset
from ttools.interpreter.abi.module import CallbackKind
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.launch_fields import launch_field
from ttools.interpreter.llvm.value import LAUNCH, PROGRAM, SSAValue, integer

_STOPPED = "ttools.stopped"


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
    note = b.define(_STOPPED, _note_text())

    def leave() -> None:
        b.call("void", note, LAUNCH, PROGRAM, integer(site, "i64"))

    leave_unless_zero(e, status, leave)


def _note_text() -> str:
    """The function by which a program notes that it was stopped, and where."""
    fields = ("stopped", "stopped_program", "stopped_site")
    stopped, program, site = (
        f"%{name}.at = getelementptr i8, ptr %launch, i64 {offset(name)}" for name in fields
    )
    parameters = "ptr %launch, i64 %program, i64 %site"
    return f"""define internal void @{_STOPPED}({parameters}) cold noinline #0 {{
  {stopped}
  {program}
  {site}
  %before = atomicrmw xchg ptr %stopped.at, i64 1 seq_cst
  %first = icmp eq i64 %before, 0
  br i1 %first, label %note, label %done
note:
  store i64 %program, ptr %stopped_program.at
  store i64 %site, ptr %stopped_site.at
  br label %done
done:
  ret void
}}"""


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
