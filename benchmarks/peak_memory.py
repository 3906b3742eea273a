"""The peak of this process's resident memory, as Linux records it.

On systems without `/proc`, all functions return zero.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

_PROCESS = Path("/proc/self")


def release_free_memory() -> None:
    """Return freed memory to the system, if the C library supports it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def forget_peak_memory() -> int:
    """Reset the peak; return the number of bytes that are resident now."""
    try:
        (_PROCESS / "clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return peak_memory()
    return _status("VmRSS")


def peak_memory() -> int:
    """Return the maximum number of resident bytes since `forget_peak_memory` was called."""
    return _status("VmHWM")


def _status(name: str) -> int:
    try:
        lines = (_PROCESS / "status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    fields = [line.split() for line in lines if line.startswith(f"{name}:")]
    return int(fields[0][1]) * 1024 if fields else 0
