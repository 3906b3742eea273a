"""Runs Triton kernels on the CPU.

The public names are resolved on first use: `import triton` imports this package to reach the
backend plugin, and must pull in neither torch, NumPy nor llvmlite by doing so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.interpreter.api import interpret

__all__ = ["interpret"]


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ttools.interpreter import api

    return getattr(api, name)
