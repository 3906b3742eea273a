"""The crash report that is printed if a kernel, or its compilation, kills the process.

Native code without guards may write to any address. If this kills the process, immediately or when
the damaged heap is detected, the report contains the kernel that started last, the location of its
definition, and the command that finds the mistake. If LLVM terminates the process instead of
rejecting a module, the report contains the kernel that was being compiled. After the report,
handlers that were installed before, such as those of `faulthandler`, are called. Signal handlers
may run after Python has freed its objects, so all data that they read is in memory that stays
mapped (`permanent_memory.py`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ttools.core.location import SourceLocation
from ttools.interpreter.runtime.permanent_memory import immortal_memory, immortal_text
from ttools.interpreter.runtime.signals import libc
from ttools.interpreter.runtime.support.native_runtime import (
    ALTERNATE_STACK_BYTES,
    SignalAction,
    native_runtime,
)

_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
# Handlers run on the alternate stack, because a full stack may be the cause of the signal. With
# SA_NODEFER, a fault in the handler that is called next is not blocked.
_FLAGS = 0x08000000 | 0x40000000  # SA_ONSTACK | SA_NODEFER

_BEFORE = b"\nerror: the process was killed by an invalid memory access or a damaged heap"
_KERNEL = "; the last kernel to start was {kernel}"
_NO_KERNEL = b", before any kernel ran"
_COMPILED = """
error: LLVM aborted while compiling kernel {kernel} for the CPU, so the process will exit
      help: this is a bug in ttools; please report it with the kernel's source and the lines above
"""

#: The address of the name of the last kernel; it is only read if a crash report is installed.
_last = ctypes.c_void_p()
#: Only one thread compiles at a time, as in `native/jit.py`; a fork waits for it.
_compiling_lock = threading.RLock()


def remember(name: int) -> None:
    """Record the kernel that is about to run.

    Args:
        name: Address of the text that `phrase` returned.
    """
    _last.value = name


def phrase(kernel: str, defined: SourceLocation | None) -> int:
    """Return the address of the part of a report that names a kernel."""
    return immortal_text(_KERNEL.format(kernel=_named(kernel, defined)))


def write_crash_note(advice: str) -> None:
    """Install a handler that writes a report to standard error if a signal kills the process.

    The handler stays installed until the process ends, because a damaged heap is often detected
    only at that time.

    Args:
        advice: Advice for the user, such as "`ttools sanitize` finds out-of-bounds accesses".
    """
    global _last
    note = native_runtime().note
    note.kernel = _last.value or immortal_text(_NO_KERNEL)
    note.advice = immortal_text(f"\n      help: {advice}\n")
    _last = ctypes.c_void_p.from_address(ctypes.addressof(note) + type(note).kernel.offset)
    installed = bool(note.head)
    note.head = immortal_text(_BEFORE)
    if not installed:
        _use_stack(immortal_memory(ALTERNATE_STACK_BYTES))
        _install()


@contextmanager
def compiling(kernel: str, defined: SourceLocation | None) -> Iterator[None]:
    """Write a report if LLVM terminates the process inside this context."""
    text = immortal_text(_COMPILED.format(kernel=_named(kernel, defined)))
    with _compiling_lock:
        note = native_runtime().note
        _note_exits()
        outer = note.compiled
        before = None if note.head or outer else _install()
        stack = _use_stack(_compiling_stack())
        note.compiling_thread = threading.get_ident()
        note.compiled = text
        try:
            yield
        finally:
            note.compiled = outer
            libc().sigaltstack(stack, None)
            if before is not None:
                _restore(before)


def _named(kernel: str, defined: SourceLocation | None) -> str:
    if defined is None or not defined.line:
        return f"`{kernel}`"
    return f"`{kernel}` (defined at {defined.file}:{defined.line})"


def _install() -> Any:
    """Install our handler for all signals, and return the table of the previous handlers."""
    runtime = native_runtime()
    before = _handlers_before()
    runtime.note.before = ctypes.addressof(before)
    ours = SignalAction(handler=runtime.crashed, flags=_FLAGS)
    current = SignalAction()
    for number in _SIGNALS:
        libc().sigaction(number, ctypes.byref(ours), ctypes.byref(current))
        if current.handler != runtime.crashed:
            before[number] = current
    return before


def _restore(before: Any) -> None:
    for number in _SIGNALS:
        libc().sigaction(number, ctypes.byref(before[number]), None)


@lru_cache(maxsize=1)
def _handlers_before() -> Any:
    """Return the table for the previous handlers, which our handler reads."""
    table = SignalAction * (max(_SIGNALS) + 1)
    return table.from_address(immortal_memory(ctypes.sizeof(table)))


class _Stack(ctypes.Structure):
    """The C library's `stack_t`."""

    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


@lru_cache(maxsize=1)
def _compiling_stack() -> int:
    """Return the stack for handlers in the thread that is inside LLVM; there is at most one."""
    return immortal_memory(ALTERNATE_STACK_BYTES)


def _use_stack(start: int) -> Any:
    """Make signal handlers of this thread run on a separate stack; return the previous setting."""
    stack, before = _Stack(start=start, size=ALTERNATE_STACK_BYTES), _Stack()
    libc().sigaltstack(ctypes.byref(stack), ctypes.byref(before))
    return ctypes.byref(before)


@lru_cache(maxsize=1)
def _note_exits() -> None:
    # Python's `atexit` cannot be used, because LLVM calls C's `exit`, which does not return to
    # Python.
    libc().__cxa_atexit(ctypes.c_void_p(native_runtime().exited), None, None)


os.register_at_fork(
    before=_compiling_lock.acquire,
    after_in_parent=_compiling_lock.release,
    after_in_child=_compiling_lock.release,
)
