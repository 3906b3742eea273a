"""The device that the plugin's driver reports: its target, its properties, its loaded kernels.

Tutorials and libraries divide by the properties of the device or derive grids from them, so none is
zero. If a device map names a GPU, the properties are those of this GPU. Otherwise they are invented
values, except for the number of processors, which is this machine's.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from triton.backends.compiler import GPUTarget

from ttools.core.environment import processors
from ttools.core.ownership import owner_of_frame
from ttools.interpreter.frontend.options import BACKEND_NAME

#: The reported size of a warp, for programs that compute with it; this engine has no warps.
WARP_SIZE = 32

_REGISTERS_PER_THREAD = 32
_MAX_THREADS = 1024

CPU_TARGET = GPUTarget(BACKEND_NAME, 0, WARP_SIZE)


@dataclass(eq=False)
class LoadedKernel:
    """The compiled kernel that Triton holds as `CompiledKernel.function` and `.module`.

    Attributes:
        variants: The native code for this kernel, see `run/variants.py`; the launcher sets it at
            the first launch.
    """

    name: str
    ttir: str
    variants: Any = field(default=None, repr=False)


class _Device:
    """The object that Triton's drivers provide as `utils`."""

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        """Return the properties of the device under the names of Triton's nvidia driver.

        For a mapped device they agree with those that `torch.cuda` reports.
        """
        if _is_mapped():
            return _mapped_properties()
        return {
            "max_shared_mem": 232448,
            "max_num_regs": 65536,
            "multiprocessor_count": processors(),
            "warpSize": WARP_SIZE,
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 64,
        }

    def load_binary(
        self, name: str, binary: bytes, shared: int, device: int
    ) -> tuple[LoadedKernel, LoadedKernel, int, int, int]:
        """Create a kernel from the bytes that the last stage of the compiler returned.

        Returns:
            Module and function (one object), registers, spills and threads of a block.
        """
        kernel = LoadedKernel(name, binary.decode())
        return kernel, kernel, _REGISTERS_PER_THREAD, 0, _MAX_THREADS

    def unload_module(self, module: LoadedKernel) -> None:
        """Free the kernel's native code, even if the program keeps a reference to the kernel."""
        module.variants = None

    def set_printf_fifo_size(self, size: int) -> None:
        """Do nothing: prints are not buffered."""

    def get_current_device(self) -> int:
        return 0


DEVICE = _Device()


def _mapped_properties() -> dict[str, int]:
    from ttools.core.device_map.properties import device_properties

    mapped = device_properties()
    return {
        "max_shared_mem": mapped.shared_memory_per_block_optin,
        "max_num_regs": mapped.regs_per_multiprocessor,
        "multiprocessor_count": mapped.multi_processor_count,
        "warpSize": mapped.warp_size,
        "sm_clock_rate": mapped.clock_rate,
        "mem_clock_rate": mapped.memory_clock_rate,
        "mem_bus_width": mapped.memory_bus_width,
    }


def reported_target(asking: FrameType) -> GPUTarget:
    """Return the target to report to the code that requests it.

    Args:
        asking: The frame of that code.
    """
    if not _is_mapped() or owner_of_frame(asking) in ("triton", "torch", "ttools"):
        return CPU_TARGET
    from ttools.core.device_map.properties import capability

    major, minor = capability()
    return GPUTarget("cuda", 10 * major + minor, WARP_SIZE)


def reported_torch_device() -> Any:
    """Return the torch device on which scripts should create the tensors for kernels."""
    import torch

    if not _is_mapped():
        return torch.device("cpu")
    from ttools.core.device_map.mapping import reported_device

    return reported_device()


def _is_mapped() -> bool:
    """Return whether a device map presents the CPU as CUDA.

    The module of device maps is not imported for this: if nothing has imported it yet, no map is
    active.
    """
    device_map = sys.modules.get("ttools.core.device_map.mapping")
    return device_map is not None and bool(device_map.is_active())
