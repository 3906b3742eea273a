"""A driver for a GPU by name, for processes that compile for it and launch nothing.

Owns what Triton asks a driver before it compiles. A context on the GPU takes memory and a second;
compilation needs neither. Must not know what is compiled.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ttools.core import triton_versions


def compile_for_target(target: Any) -> None:
    """Has Triton compile for a `GPUTarget` in this process from now on."""
    # All that `JITFunction.run(warmup=True)` asks. Binaries are kept by device; nothing is queued.
    driver = SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 0,
        get_current_stream=lambda _device: 0,
    )
    triton_versions.driver_config().set_active(driver)


def current_target() -> Any:
    """What Triton compiles for now; None without a driver."""
    driver = triton_versions.active_driver()
    return None if driver is None else driver.get_current_target()
