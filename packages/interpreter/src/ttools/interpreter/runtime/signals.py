"""Signals that ask the process to end, reported to a thread of ours while native code runs.

Python handles signals in the main thread, between two of its instructions: not while that thread
is in native code. So a handler of ours writes each to a pipe before Python's own takes note of it.
Python's table of handlers is as it was, and a handler that the program installs replaces ours.
Owns the handler and the pipe. Must not know what is done about a signal.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ttools.interpreter.runtime.immortal import immortal_memory
from ttools.interpreter.runtime.support.native_runtime import SignalAction, native_runtime

_MOST_SIGNALS = 65
#: `SA_SIGINFO | SA_ONSTACK`; system calls are interrupted, as Python wants it.
_FLAGS = 0x08000004


class SignalPipe:
    """The pipe that signals of this process are written to, with other bytes that wake its reader.

    Attributes:
        reader: the descriptor to wait for.
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
        """Wake the reader and return whether the pipe is still there."""
        if not self._is(self._writer):
            return False
        with suppress(BlockingIOError):  # there is enough to wake it
            os.write(self._writer, b"\0")
        return True

    def read(self) -> list[int] | None:
        """Return the signals that came since, in order; None if the pipe is gone."""
        if not self._is(self.reader):
            return None
        try:
            return [number for number in os.read(self.reader, 4096) if number]
        except BlockingIOError:
            return []

    def _is(self, descriptor: int) -> bool:
        """Return whether a descriptor still belongs to the pipe.

        Some programs close all descriptors that they did not open, and the number is then reused.
        """
        try:
            return os.fstat(descriptor).st_ino == self._inode
        except OSError:
            return False

    def is_watched(self, number: int) -> bool:
        """Return whether the handler of a signal is ours; the main thread asks at each launch."""
        _c().sigaction(number, None, ctypes.byref(self._seen))
        return bool(self._seen.handler == native_runtime().signalled)

    def watch(self, number: int) -> None:
        """Put our handler before the one that a signal has now, unless that is ours already.

        SIGINT is watched if Python handles it; another signal, which then does not end the process
        by itself, if the program does not handle it. What is ignored stays so.
        """
        current = SignalAction()
        _c().sigaction(number, None, ctypes.byref(current))
        if current.handler in (native_runtime().signalled, _IGNORED):
            return
        # LLVM's own handlers, which tidy up and end the process, are not in Python's table.
        default = signal.getsignal(number) in (signal.SIG_DFL, signal.SIG_IGN, None)
        if default == (number == signal.SIGINT) or (
            number == signal.SIGINT and not current.handler
        ):
            return
        self._before[number] = current
        ours = SignalAction.from_buffer_copy(current)
        ours.handler = native_runtime().signalled
        ours.flags = _FLAGS  # LLVM's handlers are there for one signal only
        _c().sigaction(number, ctypes.byref(ours), None)

    def await_end(self, awaits: bool) -> None:
        """Record whether anything is to run before SIGTERM ends this process."""
        native_runtime().signal_target.ends = int(awaits)
        if awaits:
            self.watch(signal.SIGTERM)
        else:
            self.release(signal.SIGTERM)

    def release(self, number: int) -> None:
        """Give a signal back to who had it before us, unless somebody else has it by now."""
        current = SignalAction()
        _c().sigaction(number, None, ctypes.byref(current))
        if current.handler == native_runtime().signalled:
            _c().sigaction(number, ctypes.byref(self._before[number]), None)

    def close_inherited(self) -> None:
        """Close what a forked process has of its parent's pipe, and takes SIGINT for Python."""
        self.await_end(False)
        for descriptor in (self.reader, self._writer):
            with suppress(OSError):
                os.close(descriptor)


_IGNORED = 1


@lru_cache(maxsize=1)
def _handlers_before() -> Any:
    """Return the table of the handlers before ours, which our handler reads at any time."""
    table = SignalAction * _MOST_SIGNALS
    return table.from_address(immortal_memory(ctypes.sizeof(table)))


@lru_cache(maxsize=1)
def _c() -> Any:
    c = ctypes.CDLL(None)
    pointer = ctypes.c_void_p
    c.sigaction.argtypes = [ctypes.c_int, pointer, pointer]
    return c
