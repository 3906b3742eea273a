"""A Triton driver for a GPU given by its target, for processes that compile and launch nothing.

Compilation needs no context on the GPU, which would take memory and a second to create.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ttools.core import triton_versions


def compile_for_target(target: Any) -> None:
    """Make Triton compile for a `GPUTarget` in this process from now on."""
    # `JITFunction.run(warmup=True)` calls no methods other than these. The device number serves
    # only as the key of the kernel's cache, and nothing is enqueued on the stream.
    driver = SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 0,
        get_current_stream=lambda _device: 0,
    )
    triton_versions.driver_config().set_active(driver)


def current_target() -> Any:
    """Return Triton's current target; None if there is no driver."""
    driver = triton_versions.active_driver()
    return None if driver is None else driver.get_current_target()
