"""Checks kernels on a GPU: NVIDIA's compute-sanitizer runs the program, its words become findings.

The public names are resolved on first use: the process that is checked imports a module of this
package, and needs nothing of what starts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.sanitizer.gpu.api import GpuSanitization, sanitize_on_gpu

__all__ = ["GpuSanitization", "sanitize_on_gpu"]


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ttools.sanitizer.gpu import api

    return getattr(api, name)
