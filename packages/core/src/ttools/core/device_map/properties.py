"""The properties of the mapped CUDA device.

The name, the memory and the number of processors are those of this machine, unless a map sets the
number of processors. All other properties are constants of a real GPU, because scripts compute with
them.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from ttools.core.device_map.map_option import CAPABILITY, DeviceMap
from ttools.core.environment import processors
from ttools.core.gpus.devices import DEVICES, device_of
from ttools.core.gpus.launch_rules import ANY_CUDA, GpuLimits, limits_of
from ttools.core.gpus.targets import ARCHITECTURES, MAX_THREADS, read_target

#: The device whose constants are used if no known device has the requested capability.
_A100 = DEVICES["a100"]
_described = [DeviceMap()]


def describe(device_map: DeviceMap) -> None:
    """Set the properties that a map requests, until `forget` is called."""
    _described.append(device_map)


def forget() -> None:
    """Undo the latest `describe`."""
    _described.pop()


def described() -> DeviceMap:
    """Return the requested properties of the device."""
    return _described[-1]


def capability(device: object = None) -> tuple[int, int]:
    """Return the compute capability of the only device."""
    return _described[-1].capability or CAPABILITY


def launch_limits() -> GpuLimits:
    """Return the launch limits of the device.

    Unless the map requests a capability, these are limits that no GPU exceeds, because the script
    may be written for any GPU.
    """
    requested = described().capability
    name = None if requested is None else "sm_{}{}".format(*requested)
    return limits_of(read_target(name)) if name in ARCHITECTURES else ANY_CUDA


@dataclass(frozen=True, kw_only=True)
class DeviceProperties:
    """The result of `torch.cuda.get_device_properties`; memory in bytes, clocks in kHz.

    Name, processors and memory are those of this machine. All other properties are those of a GPU
    with the same capability, or of an A100 if no such GPU is known.
    """

    name: str
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    major: int
    minor: int
    warp_size: int = 32
    max_threads_per_block: int = MAX_THREADS
    shared_memory_per_block: int = 49152
    clock_rate: int = 1_410_000
    memory_clock_rate: int = 1_215_000
    memory_bus_width: int = 5120
    is_integrated: int = 1
    is_multi_gpu_board: int = 0
    gcnArchName: str = ""  # noqa: N815 - torch's name
    uuid: str = "00000000-0000-0000-0000-000000000000"
    pci_bus_id: int = 0
    pci_device_id: int = 0
    pci_domain_id: int = 0


def device_properties(device: object = None) -> DeviceProperties:
    """Return the properties of the only device."""
    major, minor = capability()
    gpu = device_of(f"sm_{major}{minor}") or _A100
    limits = gpu.target.limits
    assert limits is not None
    return DeviceProperties(
        name=f"{platform.processor() or platform.machine()} CPU (ttools)",
        total_memory=physical_memory("SC_PHYS_PAGES"),
        multi_processor_count=described().sms or processors(),
        major=major,
        minor=minor,
        max_threads_per_multi_processor=limits.simds * limits.warps * gpu.target.threads,
        regs_per_multiprocessor=limits.simds * limits.registers,
        shared_memory_per_block_optin=limits.shared_per_block,
        shared_memory_per_multiprocessor=limits.shared,
        L2_cache_size=gpu.cache or 0,
    )


def physical_memory(pages: str) -> int:
    """Return bytes of this machine's memory.

    Args:
        pages: A name for `os.sysconf`, such as `SC_PHYS_PAGES`.
    """
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages)
