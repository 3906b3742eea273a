"""What `torch.cuda` tells of the mapped device's memory: that of the process.

Nothing shows whose tensors are the device's, so bytes are the process's resident ones. Counts of
blocks and segments, of which there are none, are zero. Must not know how replacements are
installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ttools.core.device_map.properties import physical_memory

_PROCESS = Path("/proc/self")
_POOLS = ("all", "small_pool", "large_pool")
_COUNTED = ("allocation", "segment", "active", "inactive_split", "inactive_split_bytes")
_BYTES = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
_OVERSIZE = ("oversize_allocations", "oversize_segments")
_EVENTS = (
    *("num_alloc_retries", "num_ooms", "num_sync_all_streams"),
    *("num_device_alloc", "num_device_free", "max_split_size"),
)
_SNAPSHOT = ("segments", "device_traces", "external_annotations")


def _bytes(field: str) -> int:
    """What the kernel says of this process: `VmRSS`, or `VmHWM`, its largest so far; 0 if not."""
    with suppress(OSError):
        found = re.search(rf"^{field}:\s*(\d+) kB", (_PROCESS / "status").read_text("ascii"), re.M)
        return int(found[1]) * 1024 if found else 0
    return 0


def _memory_allocated(device: object = None) -> int:
    return _bytes("VmRSS")


def _max_memory_allocated(device: object = None) -> int:
    return max(_bytes("VmHWM"), _memory_allocated())


def _forget_peak(device: object = None) -> None:
    """The peak is what is there now, where the system lets a process say so."""
    with suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5", "ascii")


def _statistics(device: object = None) -> dict[str, Any]:
    """`torch.cuda.memory_stats_as_nested_dict`, of which torch makes the other forms."""
    now, peak = _memory_allocated(), _max_memory_allocated()
    none = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
    there = {"current": now, "peak": peak, "allocated": peak, "freed": peak - now}
    return {
        **{name: {pool: dict(none) for pool in _POOLS} for name in _COUNTED},
        **{
            name: {pool: dict(there if pool != "small_pool" else none) for pool in _POOLS}
            for name in _BYTES
        },
        **{name: dict(none) for name in _OVERSIZE},
        **dict.fromkeys(_EVENTS, 0),
    }


def _memory_info(device: object = None) -> tuple[int, int]:
    return physical_memory("SC_AVPHYS_PAGES"), physical_memory("SC_PHYS_PAGES")


class _Pool:
    """`torch.cuda.MemPool`: memory is the host's, whatever the pool."""

    id = (0, 0)
    allocator = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        """One of any allocator."""

    def use_count(self) -> int:
        """Its own use."""
        return 1

    def snapshot(self, *args: object) -> list[Any]:
        """No segments."""
        return []


@contextmanager
def _using_pool(*args: object, **kwargs: object) -> Iterator[None]:
    yield


#: What `torch.cuda` has, by name.
OF_CUDA: dict[str, Any] = {
    "MemPool": _Pool,
    "max_memory_allocated": _max_memory_allocated,
    "max_memory_cached": _max_memory_allocated,
    "max_memory_reserved": _max_memory_allocated,
    "mem_get_info": _memory_info,
    "memory_allocated": _memory_allocated,
    "memory_cached": _memory_allocated,
    "memory_reserved": _memory_allocated,
    "memory_stats_as_nested_dict": _statistics,
    # One function for each: Dynamo keeps rules by function.
    "reset_max_memory_allocated": lambda device=None: _forget_peak(),
    "reset_max_memory_cached": lambda device=None: _forget_peak(),
    "reset_peak_memory_stats": _forget_peak,
    "use_mem_pool": _using_pool,
}
#: What torch's Python asks of its C++.
OF_TORCH: dict[str, Callable[..., Any]] = {
    "_cuda_memorySnapshot": lambda *_: {name: [] for name in _SNAPSHOT},
    "_cuda_record_memory_history": lambda *_: None,
    "_cuda_record_memory_history_legacy": lambda *_: None,
}
