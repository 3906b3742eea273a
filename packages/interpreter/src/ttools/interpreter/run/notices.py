"""Messages on standard error about actions that the engine takes without a request.

If no GPU driver is active, the plugin runs kernels on the CPU although the user has not requested
it. Therefore it prints a message once per process, which TTOOLS_QUIET=1 hides. Accesses that were
skipped are always reported.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path

from ttools.core.location import SourceLocation

_QUIET = ("1", "true", "on", "yes")


@lru_cache(maxsize=1)  # once per process; a forked process does not repeat it
def announce_implicit_launch() -> None:
    """Print that kernels run on the CPU because no GPU driver is active."""
    if _is_quiet():
        return
    _write(f"ttools: {_reason()}; Triton kernels run on the CPU (TTOOLS_QUIET=1 hides this)\n")


@lru_cache(maxsize=256)  # once per process and place
def announce_eager_kernel(kernel: str, what: str, location: SourceLocation) -> None:
    """Print that a kernel runs as Python because it cannot be compiled."""
    if not _is_quiet():
        _write(
            f"ttools: kernel `{kernel}` runs as Python, because it contains {what} "
            f"({location.file}:{location.line})\n"
        )


#: The lines of kernels that were reported; a forked process does not report them again.
_skipped: set[object] = set()


def announce_skipped(key: object, text: str) -> None:
    """Print a warning about skipped accesses, unless one was printed for this key before."""
    if key not in _skipped:
        _skipped.add(key)
        _write(f"ttools: warning: {text}\n")


def _write(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_quiet() -> bool:
    return os.environ.get("TTOOLS_QUIET", "").strip().lower() in _QUIET


def _reason() -> str:
    if not _has_gpu_device_file():
        return "no GPU found"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1"):
        return f"a GPU is present but hidden by CUDA_VISIBLE_DEVICES={hidden!r}"
    return "a GPU is present but Triton's driver for it is not active (is torch a CPU build?)"


def _has_gpu_device_file() -> bool:
    return any(Path(path).exists() for path in ("/dev/nvidia0", "/dev/kfd"))
