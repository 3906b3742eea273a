"""Records what the variables of Triton kernels hold while the kernels run as native code.

    with ttools.watch.watch(["acc"]) as run:
        kernel[grid](...)
    run.recording.select("acc", program=0)

The public names are resolved on first use: importing this package must not import NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.watch.api import WatchedRun, watch
    from ttools.watch.trace.recording import open_trace

__all__ = ["WatchedRun", "open_trace", "watch"]

_MODULES = {"WatchedRun": "api", "open_trace": "trace.recording", "watch": "api"}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
