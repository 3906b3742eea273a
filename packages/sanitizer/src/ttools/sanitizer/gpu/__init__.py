"""Checks kernels on a GPU: NVIDIA's compute-sanitizer runs the program, its words become findings.

The public names are resolved on first use: the process that is checked imports a module of this
package, and needs nothing of what starts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.sanitizer.gpu.api import GpuSanitization, sanitize_on_gpu

__all__ = ["GpuSanitization", "sanitize_on_gpu"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "api"))
