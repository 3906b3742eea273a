"""Binds the functions that instrumented code calls on its cold paths (`native_probe.c`).

They check lanes, count, log and call back. The layouts are defined in `abi/probe_layout.py`. Calls
are emitted by `emit/instruments`, and `runtime/monitor.py` decodes the results.
"""

from __future__ import annotations

from ttools.core.lazy_values import once
from ttools.interpreter.abi.probe_layout import FUNCTIONS
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_beside


@once
def probe_code() -> jit.NativeCode:
    """Return the functions, compiled or read from the object cache at first use."""
    return module_beside(__file__, FUNCTIONS, name="the probes")
