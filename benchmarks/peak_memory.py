"""The largest resident memory of this process, since it was last forgotten.

As Linux keeps it; where it does not tell, all is zero.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

_PROCESS = Path("/proc/self")


def release_free_memory() -> None:
    """Gives memory that was freed back to the system, where the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def forget_peak_memory() -> int:
    """Starts anew and returns the bytes that are resident now."""
    try:
        (_PROCESS / "clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return peak_memory()
    return _status("VmRSS")


def peak_memory() -> int:
    """The largest number of bytes that were resident since then."""
    return _status("VmHWM")


def _status(name: str) -> int:
    try:
        lines = (_PROCESS / "status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    found = [line.split() for line in lines if line.startswith(f"{name}:")]
    return int(found[0][1]) * 1024 if found else 0
