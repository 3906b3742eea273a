"""The properties of the CUDA device that the CPU stands in for.

Its name and memory are this machine's, and its processors unless a map says how many; the rest is
what scripts divide by. Must not know which functions of torch give them.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from ttools.core.device_map.request import CAPABILITY, DeviceMap
from ttools.core.environment import processors
from ttools.core.gpus.devices import DEVICES, device_of
from ttools.core.gpus.launch_rules import ANY_CUDA, GpuLimits, limits_of
from ttools.core.gpus.targets import ARCHITECTURES, MAX_THREADS, read_target

#: What scripts divide by is this one's, if no other has the capability that is asked for.
_A100 = DEVICES["a100"]
_described = [DeviceMap()]


def describe(device_map: DeviceMap) -> None:
    """Has the device be as a map asks for, until `forget`."""
    _described.append(device_map)


def forget() -> None:
    """Ends what `describe` began last."""
    _described.pop()


def described() -> DeviceMap:
    """What the device is asked to be."""
    return _described[-1]


def capability(device: object = None) -> tuple[int, int]:
    """The compute capability of the only device."""
    return _described[-1].capability


def launch_limits() -> GpuLimits:
    """The limits of launches on the device.

    Those that no GPU exceeds, unless the map says which capability the device has: a script that
    does not say it may be for any GPU.
    """
    asked = described()
    name = "sm_{}{}".format(*asked.capability)
    if asked.capability == CAPABILITY or name not in ARCHITECTURES:
        return ANY_CUDA
    return limits_of(read_target(name))


@dataclass(frozen=True, kw_only=True)
class DeviceProperties:
    """What `torch.cuda.get_device_properties` gives; memory in bytes, clocks in kHz.

    Only the name, the processors and the memory are this machine's; the rest is what scripts
    divide by, with the values of a GPU of the capability, of an A100 where none is known.
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
    """The properties of the only device."""
    asked = described()
    major, minor = asked.capability
    gpu = device_of(f"sm_{major}{minor}") or _A100
    limits = gpu.target.limits
    assert limits is not None
    return DeviceProperties(
        name=f"{platform.processor() or platform.machine()} CPU (ttools)",
        total_memory=physical_memory("SC_PHYS_PAGES"),
        multi_processor_count=asked.sms or processors(),
        major=major,
        minor=minor,
        max_threads_per_multi_processor=limits.simds * limits.warps * gpu.target.threads,
        regs_per_multiprocessor=limits.simds * limits.registers,
        shared_memory_per_block_optin=limits.shared_per_block,
        shared_memory_per_multiprocessor=limits.shared,
        L2_cache_size=gpu.cache or 0,
    )


def physical_memory(pages: str) -> int:
    """Bytes of this machine, by the name of their number of pages."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages)
