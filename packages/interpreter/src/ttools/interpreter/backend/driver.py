"""The driver half of the Triton plugin: the CPU as Triton's device.

Imported by `import triton`, so its top imports only the standard library and Triton.
"""

from __future__ import annotations

import os
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase


class CPUDriver(DriverBase):  # type: ignore[misc]
    """Runs kernels on the CPU."""

    @classmethod
    def is_active(cls) -> bool:
        """Whether this is Triton's default driver: nobody else is, and nobody switched it off."""
        if os.environ.get("TTOOLS_BACKEND", "").lower() == "off":
            return False
        from triton.backends import backends

        others = (b.driver for b in backends.values() if b.driver is not cls)
        return not any(driver.is_active() for driver in others)

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Not needed: no C++ is generated."""
        return ty

    def get_current_target(self) -> GPUTarget:
        """The target of every compilation."""
        return GPUTarget("cpu", 0, 32)

    def get_active_torch_device(self) -> Any:
        """The device whose tensors kernels take."""
        import torch

        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        """Times the native engine."""
        from triton.testing import do_bench

        return do_bench
