"""Recording of variables in Triton kernels while the kernels run as native code.

    with ttools.watch.watch(["acc"]) as run:
        kernel[grid](...)
    run.recording.select("acc", program=0)

The public names are imported on first use, so that importing this package does not import NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.watch.api import WatchedRun, watch
    from ttools.watch.trace.recording import open_trace

__all__ = ["WatchedRun", "open_trace", "watch"]

_MODULES = {"WatchedRun": "api", "open_trace": "trace.recording", "watch": "api"}
__getattr__ = lazy_names(__name__, _MODULES)
