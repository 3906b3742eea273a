"""The driver half of the Triton plugin: the CPU as Triton's device.

`import triton` imports this module, so its top level imports only the standard library and Triton.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cached_property
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from ttools.core.context_values import bound
from ttools.core.device_map.children import join_map

# Triton searches this module for exactly one concrete driver class, so it must define no other
# class derived from `DriverBase`.

#: Triton looks up compiled kernels by device number. Eager launches have their own device number,
#: so that they do not find kernels that were compiled for native launches.
_EAGER_DEVICE = -2

_is_eager: ContextVar[bool] = ContextVar("ttools_launch_is_eager", default=False)


def eager_device(engine: str | bool) -> AbstractContextManager[None]:
    """Return a context in which launches use the eager engine if `engine` is "eager"."""
    return bound(_is_eager, engine == "eager")


def launches_are_eager() -> bool:
    """Return whether launches in this context use the engine `eager`."""
    return _is_eager.get()


class CPUDriver(DriverBase):  # type: ignore[misc]
    """Triton's driver for the CPU; the default driver if no other driver is active.

    Args:
        device: The result of `get_current_device`. Triton looks up the compiled variants of a
            kernel by this number only, so it must differ from the device numbers that a GPU driver
            of the same process uses.
    """

    def __init__(self, device: int = 0) -> None:
        from ttools.interpreter.frontend.parsing import parse_one_by_one

        super().__init__()
        self._device = device
        parse_one_by_one()
        if device == 0:
            from ttools.interpreter.backend.inductor import install_for_good

            install_for_good()

    @classmethod
    def is_active(cls) -> bool:
        """Return whether this is the default driver.

        It is the default unless the driver of another backend is active or TTOOLS_BACKEND is `off`.
        """
        if os.environ.get("TTOOLS_BACKEND", "").strip().lower() == "off":
            return False
        from triton.backends import backends

        others = (b.driver for b in backends.values() if b.driver is not cls)
        return not any(driver.is_active() for driver in others)

    @cached_property
    def launcher_cls(self) -> Callable[..., Any]:
        from ttools.interpreter.backend.launcher import CPULauncher

        return CPULauncher

    # Cached, because Triton reads this property again when a kernel is freed, which may be while
    # Python shuts down and imports fail.
    @cached_property
    def utils(self) -> Any:
        """The object that returns properties of the device and loads compiled kernels."""
        from ttools.interpreter.backend.device import DEVICE

        return DEVICE

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the type unchanged; not used, because launchers are not compiled from C++."""
        return ty

    def get_current_target(self) -> GPUTarget:
        """Return the target that kernels are compiled for.

        While a device map presents the CPU as CUDA, scripts receive a CUDA target. Triton, its
        libraries inside kernels and torch receive the CPU target, so that they take their generic
        paths.
        """
        from ttools.interpreter.backend.device import reported_target

        return reported_target(sys._getframe(1))

    def get_active_torch_device(self) -> Any:
        """Return the device of the tensors for kernels: the CPU, or the device mapped to it."""
        from ttools.interpreter.backend.device import reported_torch_device

        return reported_torch_device()

    def get_current_device(self) -> int:
        """Return the number of this device; launches that run eagerly get another number."""
        return _EAGER_DEVICE if _is_eager.get() else self._device

    def set_current_device(self, device: int) -> None:
        """Do nothing, because there is only one device."""

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the only stream; launches are synchronous."""
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Return (0, 0), because the CPU has no CUDA compute capability."""
        return (0, 0)

    def get_device_interface(self) -> Any:
        """Return the class for events and synchronisation, with the interface of `torch.cuda`."""
        from ttools.interpreter.run.benchmark import CPUDeviceInterface

        return CPUDeviceInterface

    def get_benchmarker(self) -> Any:
        """Return the function that `triton.autotune` uses to time configurations."""
        from ttools.interpreter.run.benchmark import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Return an empty buffer for `clear_cache`, which does not flush the caches.

        A flush would take longer than most kernels.
        """
        import torch

        return torch.empty(0, dtype=torch.int32, device="cpu")

    def clear_cache(self, cache: Any) -> None:
        """Do nothing, so that kernels are timed with warm caches of the CPU."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Return memory for Triton's instrumentation, filled with zeros."""
        import torch

        return torch.zeros(size, dtype=torch.int8, device="cpu")


def _join_run() -> None:
    """Join the run of the parent process, if this process was started during one."""
    if os.environ.get("_TTOOLS_RUN"):
        from ttools.core.process.child_environment import join_run

        join_run()


join_map()
_join_run()
