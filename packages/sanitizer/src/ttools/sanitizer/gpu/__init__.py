"""Checks of kernels on a GPU, by NVIDIA's compute-sanitizer or Triton's own instrumentation.

The user's program runs once under each tool, in a child process; the errors that the tool prints
become findings. The public names are imported on first use, so that the child process, which
imports a module of this package, does not load the code that started it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.sanitizer.gpu.api import GpuSanitization, sanitize_on_gpu

__all__ = ["GpuSanitization", "sanitize_on_gpu"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "api"))
