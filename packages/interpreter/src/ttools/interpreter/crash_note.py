"""Last words of a process that a kernel killed.

Native code that nobody checks writes where the kernel says. When that kills the process, now or
once the heap is found damaged, a line says which kernel ran last and what finds the mistake. Must
not know who asks for it, nor keep the process alive: its memory is no longer to be trusted.
"""

from __future__ import annotations

import ctypes
import faulthandler
import signal

from ttools.interpreter.native_runtime import native_runtime

_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
_ADDRESS = ctypes.sizeof(ctypes.c_void_p)

_BEFORE = b"\nerror: the process was killed by a bad access to memory or a damaged heap"
_KERNEL = b"; the last kernel to start was `%s`"
_NO_KERNEL = b", before any kernel ran"

#: Where the name of the last kernel goes; nobody reads it unless a note is installed.
_last = ctypes.c_void_p()
#: What the handler writes has to outlive everything.
_texts: list[ctypes.Array[ctypes.c_char]] = []


def remember(name: int) -> None:
    """Takes note of the kernel that is about to run.

    Args:
        name: address of what `phrase` made of its name, which must live as long as the kernel.
    """
    _last.value = name


def phrase(kernel: str) -> ctypes.Array[ctypes.c_char]:
    """What the note says of a kernel, as text that ends with 0."""
    return ctypes.create_string_buffer(_KERNEL % kernel.encode())


def write_crash_note(advice: str) -> None:
    """From now on writes a note to standard error if a signal kills the process.

    A damaged heap is often found when the process ends, so this is for good. Python's own
    `faulthandler` goes first: where it is enabled, nothing is installed.

    Args:
        advice: what to do, a phrase such as "`ttools sanitize` finds out-of-bounds accesses".
    """
    global _last
    if faulthandler.is_enabled():
        return
    runtime = native_runtime()
    last_line = f"\n      help: {advice}\n".encode()
    _texts[:] = [ctypes.create_string_buffer(text) for text in (_BEFORE, _NO_KERNEL, last_line)]
    cells = [ctypes.c_void_p.from_address(runtime.crash_note + n * _ADDRESS) for n in range(3)]
    for cell, text in zip(cells, _texts, strict=True):
        cell.value = ctypes.addressof(text)
    _last = cells[1]
    install = ctypes.CDLL(None).signal
    install.argtypes = [ctypes.c_int, ctypes.c_void_p]
    for number in _SIGNALS:
        install(number, runtime.crashed)
