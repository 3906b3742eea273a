"""Runs Triton kernels on the CPU.

The public names are resolved on first use, because `import triton` imports this package to find the
backend plugin, and this must not import torch, NumPy or llvmlite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.interpreter.api import device_map, interpret
    from ttools.interpreter.eager.program import eager_program

__all__ = ["device_map", "eager_program", "interpret"]

_MODULES = {"device_map": "api", "eager_program": "eager.program", "interpret": "api"}
__getattr__ = lazy_names(__name__, _MODULES)


def load_ipython_extension(shell: object) -> None:
    """Map CUDA devices to the CPU in a notebook; `%load_ext ttools.interpreter` calls this."""
    from ttools.core.device_map.mapping import map_for_good

    map_for_good()


def unload_ipython_extension(shell: object) -> None:
    """Stop mapping CUDA devices to the CPU; `%unload_ext ttools.interpreter` calls this."""
    from ttools.core.device_map.mapping import end_map_for_good

    end_map_for_good()
