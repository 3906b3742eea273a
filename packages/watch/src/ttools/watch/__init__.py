"""Records what the variables of Triton kernels hold while the kernels run as native code.

The public names are resolved on first use: importing this package must not import NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.watch.trace.recording import open_trace

__all__ = ["open_trace"]

_MODULES = {"open_trace": "trace.recording"}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
