"""Binds the functions that instrumented code calls on its cold paths: `native_probe.c`.

They check lanes, count, log and call back; layouts are those of `abi.probe_layout`. The code around
an access is emitted by `emit.access`; `monitor` turns events into findings.
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
