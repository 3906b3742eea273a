"""A driver for a GPU by name, for processes that compile for it and launch nothing.

Owns what Triton asks a driver before it compiles. A context on the GPU takes memory and a second;
compilation needs neither. Must not know what is compiled.
"""

from __future__ import annotations

from typing import Any

from ttools.core import triton_versions


class TargetDriver:
    """What `JITFunction.run(warmup=True)` asks of a driver.

    Args:
        target: Triton's `GPUTarget`.
    """

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        """What is compiled for."""
        return self._target

    def get_current_device(self) -> int:
        """Any number: binaries are kept by device."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default one; nothing is queued."""
        return 0


def compile_for_target(target: Any) -> None:
    """Has Triton compile for a target in this process from now on."""
    triton_versions.driver_config().set_active(TargetDriver(target))


def current_target() -> Any:
    """What Triton compiles for now; None without a driver."""
    driver = triton_versions.active_driver()
    return None if driver is None else driver.get_current_target()
