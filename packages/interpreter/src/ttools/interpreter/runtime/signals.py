"""Delivers SIGINT and SIGTERM to a watching thread while the main thread runs native code.

Python handles signals in the main thread between two bytecode instructions, and thus never while
that thread runs native code. Therefore a native handler writes the number of each signal to a pipe.
For SIGINT, it also calls `PyErr_SetInterrupt`, so that Python handles the signal later. Python's
table of handlers is not changed, and a handler that the program installs later replaces the native
one.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ttools.interpreter.runtime.permanent_memory import immortal_memory
from ttools.interpreter.runtime.support.native_runtime import SignalAction, native_runtime

_MOST_SIGNALS = 65
#: `SA_SIGINFO | SA_ONSTACK`. Without SA_RESTART, system calls are interrupted, as Python expects.
_FLAGS = 0x08000004


class SignalPipe:
    """A pipe to which the handler writes the signals of this process.

    A zero byte is not a signal; it only wakes the reader.

    Attributes:
        reader: File descriptor of the end that is read.
    """

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        os.set_blocking(self.reader, False)
        self._inode = os.fstat(self.reader).st_ino
        runtime = native_runtime()
        self._before = _handlers_before()
        self._seen = SignalAction()
        runtime.signal_target.before = ctypes.addressof(self._before)
        interrupt = ctypes.cast(ctypes.pythonapi.PyErr_SetInterrupt, ctypes.c_void_p)
        runtime.signal_target.interrupt = interrupt.value
        runtime.signal_target.pipe = self._writer
        runtime.signal_target.owner = os.getpid()

    def wake(self) -> bool:
        """Wake the reader; return False if the pipe was closed."""
        if not self._is(self._writer):
            return False
        with suppress(BlockingIOError):  # a full pipe wakes the reader, too
            os.write(self._writer, b"\0")
        return True

    def read(self) -> list[int] | None:
        """Return the signals since the last call, in order; None if the pipe was closed."""
        if not self._is(self.reader):
            return None
        try:
            return [number for number in os.read(self.reader, 4096) if number]
        except BlockingIOError:
            return []

    def _is(self, descriptor: int) -> bool:
        """Return whether a descriptor still belongs to the pipe.

        Some programs close all descriptors that they did not open. The number of a closed
        descriptor may then be reused.
        """
        try:
            return os.fstat(descriptor).st_ino == self._inode
        except OSError:
            return False

    def is_watched(self, number: int) -> bool:
        """Return whether the native handler is installed for a signal.

        The main thread calls this in each launch.
        """
        libc().sigaction(number, None, ctypes.byref(self._seen))
        return bool(self._seen.handler == native_runtime().signalled)

    def watch(self, number: int) -> None:
        """Install the native handler in place of the current handler of a signal.

        SIGINT is only watched if Python handles it. Other signals are only watched if the program
        does not handle them; they then no longer terminate the process directly. Ignored signals
        stay ignored.
        """
        current = SignalAction()
        libc().sigaction(number, None, ctypes.byref(current))
        if current.handler in (native_runtime().signalled, _IGNORED):
            return
        # LLVM installs handlers that clean up and terminate the process. Python does not know these
        # handlers, so it reports the default handler for their signals.
        default = signal.getsignal(number) in (signal.SIG_DFL, signal.SIG_IGN, None)
        if default == (number == signal.SIGINT) or (
            number == signal.SIGINT and not current.handler
        ):
            return
        self._before[number] = current
        ours = SignalAction.from_buffer_copy(current)
        ours.handler = native_runtime().signalled
        ours.flags = _FLAGS  # LLVM's flags remove the handler after one signal
        libc().sigaction(number, ctypes.byref(ours), None)

    def await_end(self, awaits: bool) -> None:
        """Set whether functions must run before SIGTERM ends this process; if so, watch SIGTERM."""
        native_runtime().signal_target.ends = int(awaits)
        if awaits:
            self.watch(signal.SIGTERM)
        else:
            self.release(signal.SIGTERM)

    def release(self, number: int) -> None:
        """Restore the previous handler of a signal, unless the native handler was replaced."""
        current = SignalAction()
        libc().sigaction(number, None, ctypes.byref(current))
        if current.handler == native_runtime().signalled:
            libc().sigaction(number, ctypes.byref(self._before[number]), None)

    def close_inherited(self) -> None:
        """Close a forked process's copy of its parent's pipe, and stop watching SIGTERM."""
        self.await_end(False)
        for descriptor in (self.reader, self._writer):
            with suppress(OSError):
                os.close(descriptor)


_IGNORED = 1


@lru_cache(maxsize=1)
def _handlers_before() -> Any:
    """Return the table of the previous handlers, which the native handler may read at any time."""
    table = SignalAction * _MOST_SIGNALS
    return table.from_address(immortal_memory(ctypes.sizeof(table)))


@lru_cache(maxsize=1)
def libc() -> Any:
    """Return the C library with the argument types of its functions for signals."""
    c = ctypes.CDLL(None)
    pointer = ctypes.c_void_p
    c.sigaction.argtypes = [ctypes.c_int, pointer, pointer]
    c.sigaltstack.argtypes = [pointer, pointer]
    return c
