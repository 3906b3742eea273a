"""Sampling of the native code that a thread runs, on Linux.

A timer sends a signal to the thread, and a native handler records the address of the code that was
interrupted. The module calls the C library directly, because Python would run a handler only after
the native code has returned.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.lazy_values import once
from ttools.interpreter.native.jit import NativeCode
from ttools.interpreter.native.native_module import module_beside

#: Offset of the interrupted thread's program counter in Linux's `ucontext_t`.
_PROGRAM_COUNTER = {"x86_64": 168, "aarch64": 440}
_SIGNAL = signal.SIGPROF
_MOST = 1 << 16
#: Constants CLOCK_MONOTONIC and SIGEV_THREAD_ID of `timer_create`.
_MONOTONIC, _TO_THREAD = 1, 4
_WITH_CONTEXT, _RESTART = 4, 0x10000000
#: The fractional parts of its multiples are distributed evenly.
_GOLDEN_RATIO = (1 + 5**0.5) / 2


class _Action(ctypes.Structure):
    """The C library's `struct sigaction`."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Event(ctypes.Structure):
    """The C library's `struct sigevent`."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_int * 11),
    )


class _Taken(ctypes.Structure):
    """The buffer that the signal handler writes to."""

    _fields_ = (
        ("count", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("places", ctypes.c_void_p),
    )


#: Held while a thread is sampled, because the handler has only one buffer.
_lock = threading.Lock()


def can_sample() -> bool:
    """Return whether the threads of this machine can be sampled."""
    return sys.platform == "linux" and platform.machine() in _PROGRAM_COUNTER


class Samples:
    """Sampled addresses; each `taking` context appends to them."""

    def __init__(self) -> None:
        self._buffer = np.zeros(_MOST, np.uint64)
        self._count = 0
        self._contexts = 0

    @property
    def addresses(self) -> NDArray[np.uint64]:
        """The addresses in the order of sampling."""
        return self._buffer[: self._count]

    @contextmanager
    def taking(self, interval_s: float) -> Iterator[None]:
        """Sample the calling thread periodically while the context is active.

        The time of the first sample differs between contexts: it visits the interval evenly.
        Otherwise, code that is not much longer than the interval would be sampled at the same
        places in each context.

        Args:
            interval_s: Seconds between two samples.

        Raises:
            OSError: The system cannot create the timer.
        """
        c, code = _libc(), _handler()
        taken = _Taken.from_address(ctypes.CFUNCTYPE(ctypes.c_void_p)(code.symbols["taken_at"])())
        with _lock:
            taken.count, taken.capacity = self._count, _MOST
            taken.places = self._buffer.ctypes.data
            action, before = _Action(), _Action()
            action.handler, action.flags = code.symbols["take"], _WITH_CONTEXT | _RESTART
            blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, {_SIGNAL})
            _check(c.sigaction(int(_SIGNAL), ctypes.byref(action), ctypes.byref(before)))
            try:
                with _timer(c, interval_s, (1 + self._contexts) * _GOLDEN_RATIO % 1):
                    yield
            finally:
                self._contexts += 1
                # Consume pending signals first, because the default action terminates the process.
                signal.pthread_sigmask(signal.SIG_BLOCK, {_SIGNAL})
                while _SIGNAL in signal.sigpending():
                    signal.sigtimedwait({_SIGNAL}, 0)
                _check(c.sigaction(int(_SIGNAL), ctypes.byref(before), None))
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
                self._count = min(int(taken.count), _MOST)
                taken.capacity = 0


@contextmanager
def _timer(c: Any, interval_s: float, phase: float) -> Iterator[None]:
    """Send the signal periodically; the first one after a fraction `phase` of the interval."""
    event = _Event(None, int(_SIGNAL), _TO_THREAD, threading.get_native_id())
    timer = ctypes.c_void_p()
    _check(c.timer_create(_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)))
    try:
        times = (
            divmod(max(1, round(t * 1e9)), 1_000_000_000) for t in (interval_s, interval_s * phase)
        )
        period = (ctypes.c_long * 4)(*chain.from_iterable(times))
        _check(c.timer_settime(timer, 0, period, None))
        yield
    finally:
        c.timer_delete(timer)


def _check(answer: int) -> None:
    if answer:
        raise OSError(ctypes.get_errno(), "the thread cannot be sampled")


@lru_cache(maxsize=1)
def _libc() -> Any:
    """Return the library with the timer functions: the C library, or librt before glibc 2.34."""
    for name in (None, "librt.so.1"):
        library = ctypes.CDLL(name, use_errno=True)
        if hasattr(library, "timer_create"):
            return library
    raise OSError("the C library has no timer functions")


@once
def _handler() -> NativeCode:
    words = {"PROGRAM_COUNTER": _PROGRAM_COUNTER[platform.machine()]}
    return module_beside(__file__, ("take", "taken_at"), name="sampling", machine=words)
