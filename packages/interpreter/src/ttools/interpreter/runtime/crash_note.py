"""Last words of a process that a kernel killed, or the compilation of one.

Native code that nobody checks writes where the kernel says. When that kills the process, now or
once the heap is found damaged, a note says which kernel ran last, where it is defined, and what
finds the mistake. When LLVM ends the process instead of refusing a module, a note says whose.
Handlers that were there before, such as `faulthandler`'s, come next. Must not know who asks for
it, nor keep the process alive: its memory is no longer to be trusted.
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
from ttools.interpreter.runtime.support.native_runtime import (
    ALTERNATE_STACK_BYTES,
    SignalAction,
    native_runtime,
)

_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
# On the alternate stack, for this one may be full; a fault in the next handler is not held back.
_FLAGS = 0x08000000 | 0x40000000  # SA_ONSTACK | SA_NODEFER

_BEFORE = b"\nerror: the process was killed by a bad access to memory or a damaged heap"
_KERNEL = "; the last kernel to start was {kernel}"
_NO_KERNEL = b", before any kernel ran"
_COMPILED = """
error: LLVM gave up while kernel {kernel} was compiled for the CPU, which ends the process
      help: this is a defect of ttools: please report it with the kernel's source and the lines \
above
"""

#: Where the name of the last kernel goes; nobody reads it unless a note is installed.
_last = ctypes.c_void_p()
#: What the handler reads has to outlive everything.
_kept: list[Any] = []
#: One thread at a time compiles, as in `jit`; a fork waits for it.
_compiling_lock = threading.RLock()


def remember(name: int) -> None:
    """Takes note of the kernel that is about to run.

    Args:
        name: address of what `phrase` made of its name, which must live as long as the kernel.
    """
    _last.value = name


def phrase(kernel: str, defined: SourceLocation | None) -> ctypes.Array[ctypes.c_char]:
    """What the note says of a kernel, as text that ends with 0."""
    return _text(_KERNEL.format(kernel=_named(kernel, defined)))


def write_crash_note(advice: str) -> None:
    """From now on writes a note to standard error if a signal kills the process.

    A damaged heap is often found when the process ends, so this is for good.

    Args:
        advice: what to do, a phrase such as "`ttools sanitize` finds out-of-bounds accesses".
    """
    global _last
    note = native_runtime().note
    head, kernel, help = _text(_BEFORE), _text(_NO_KERNEL), _text(f"\n      help: {advice}\n")
    _kept.extend((head, kernel, help))
    note.kernel = ctypes.addressof(kernel)
    note.advice = ctypes.addressof(help)
    _last = ctypes.c_void_p.from_address(ctypes.addressof(note) + type(note).kernel.offset)
    installed = bool(note.head)
    note.head = ctypes.addressof(head)
    if not installed:
        _use_alternate_stack()
        _install()


@contextmanager
def compiling(kernel: str, defined: SourceLocation | None) -> Iterator[None]:
    """Inside, a note is written if LLVM ends the process."""
    text = _text(_COMPILED.format(kernel=_named(kernel, defined)))
    with _compiling_lock:
        note = native_runtime().note
        _note_exits()
        before = None if note.head else _install()
        stack = _use_alternate_stack()
        note.compiling_thread = threading.get_ident()
        note.compiled = ctypes.addressof(text)
        try:
            yield
        finally:
            note.compiled = None
            _c().sigaltstack(stack, None)
            if before is not None:
                _restore(before)


def _text(text: str | bytes) -> ctypes.Array[ctypes.c_char]:
    encoded = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    return ctypes.create_string_buffer(encoded)


def _named(kernel: str, defined: SourceLocation | None) -> str:
    if defined is None or not defined.line:
        return f"`{kernel}`"
    return f"`{kernel}` (defined at {defined.file}:{defined.line})"


@lru_cache(maxsize=1)
def _c() -> Any:
    c = ctypes.CDLL(None)
    pointer = ctypes.c_void_p
    c.sigaction.argtypes = [ctypes.c_int, pointer, pointer]
    c.sigaltstack.argtypes = [pointer, pointer]
    return c


def _install() -> Any:
    """Puts our handler before those that are there, which it returns."""
    runtime = native_runtime()
    before = (SignalAction * (max(_SIGNALS) + 1))()
    _kept[:] = [kept for kept in _kept if not isinstance(kept, type(before))]
    _kept.append(before)
    runtime.note.before = ctypes.addressof(before)
    ours = SignalAction(handler=runtime.crashed, flags=_FLAGS)
    for number in _SIGNALS:
        _c().sigaction(number, ctypes.byref(ours), ctypes.byref(before[number]))
    return before


def _restore(before: Any) -> None:
    for number in _SIGNALS:
        _c().sigaction(number, ctypes.byref(before[number]), None)


class _Stack(ctypes.Structure):
    """`stack_t`."""

    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


class _AlternateStack(threading.local):
    """Where this thread's handlers run when its stack is full."""

    def __init__(self) -> None:
        self.memory = ctypes.create_string_buffer(ALTERNATE_STACK_BYTES)
        start = ctypes.addressof(self.memory)
        self.description = _Stack(start=start, size=ALTERNATE_STACK_BYTES)


_alternate_stack = _AlternateStack()


def _use_alternate_stack() -> Any:
    """Makes this thread's handlers run on a stack of their own; returns the one before."""
    before = _Stack()
    _c().sigaltstack(ctypes.byref(_alternate_stack.description), ctypes.byref(before))
    return ctypes.byref(before)


@lru_cache(maxsize=1)
def _note_exits() -> None:
    # Not Python's `atexit`: `exit` inside of LLVM does not return to Python.
    _c().__cxa_atexit(ctypes.c_void_p(native_runtime().exited), None, None)


os.register_at_fork(
    before=_compiling_lock.acquire,
    after_in_parent=_compiling_lock.release,
    after_in_child=_compiling_lock.release,
)
