"""Replacements of the functions of `torch.cuda` for a mapped device.

A table contains the replacements by name: streams and events (`streams.py`), device properties,
memory and random state. The memory of the device's tensors cannot be distinguished from other
memory of the process, so memory statistics report the resident memory of the process. Counts of
blocks and segments are zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ttools.core.device_map.graphs.capture import refuse_waiting
from ttools.core.device_map.graphs.graph import CUDAGraph, graph_pool_handle, is_capturing
from ttools.core.device_map.properties import capability, device_properties, physical_memory
from ttools.core.device_map.streams import (
    DEFAULT_STREAM,
    AcceleratorEvent,
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    set_stream,
)
from ttools.core.errors import UnsupportedError

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
    """Return a field of `/proc/self/status` in bytes, such as `VmRSS`; 0 if it is missing."""
    with suppress(OSError):
        match = re.search(rf"^{field}:\s*(\d+) kB", (_PROCESS / "status").read_text("ascii"), re.M)
        return int(match[1]) * 1024 if match else 0
    return 0


def _memory_allocated(device: object = None) -> int:
    return _bytes("VmRSS")


def _max_memory_allocated(device: object = None) -> int:
    return max(_bytes("VmHWM"), _memory_allocated())


def _forget_peak(device: object = None) -> None:
    """Reset the peak of resident memory, where the system allows that."""
    with suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5", "ascii")


def _statistics(device: object = None) -> dict[str, Any]:
    """Implement `torch.cuda.memory_stats_as_nested_dict`; torch derives other forms from it."""
    current, peak = _memory_allocated(), _max_memory_allocated()
    zero = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
    resident = {"current": current, "peak": peak, "allocated": peak, "freed": peak - current}
    return {
        **{name: {pool: dict(zero) for pool in _POOLS} for name in _COUNTED},
        **{
            name: {pool: dict(resident if pool != "small_pool" else zero) for pool in _POOLS}
            for name in _BYTES
        },
        **{name: dict(zero) for name in _OVERSIZE},
        **dict.fromkeys(_EVENTS, 0),
    }


def _memory_info(device: object = None) -> tuple[int, int]:
    return physical_memory("SC_AVPHYS_PAGES"), physical_memory("SC_PHYS_PAGES")


class _Pool:
    """Replaces `torch.cuda.MemPool`; all pools use host memory."""

    id = (0, 0)
    allocator = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Accept any arguments."""

    def use_count(self) -> int:
        """Return 1."""
        return 1

    def snapshot(self, *args: object) -> list[Any]:
        """Return no segments."""
        return []


@contextmanager
def _using_pool(*args: object, **kwargs: object) -> Iterator[None]:
    yield


#: Replacements for memory functions of `torch.cuda`, by name.
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
    # These functions must be distinct objects, because Dynamo looks up its rules by function
    # object.
    "reset_max_memory_allocated": lambda device=None: _forget_peak(),
    "reset_max_memory_cached": lambda device=None: _forget_peak(),
    "reset_peak_memory_stats": _forget_peak,
    "use_mem_pool": _using_pool,
}
#: Replacements for functions of `torch._C`, by name.
OF_TORCH: dict[str, Callable[..., Any]] = {
    "_cuda_memorySnapshot": lambda *_: {name: [] for name in _SNAPSHOT},
    "_cuda_record_memory_history": lambda *_: None,
    "_cuda_record_memory_history_legacy": lambda *_: None,
}


CUDA_VERSION = "12.8"


class _Selection:
    """Replaces `torch.cuda.device(…)` with a context manager that changes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


@contextmanager
def _range(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


def _empty_strided(size: Any, stride: Any, dtype: Any) -> Any:
    import torch

    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _answer(value: Any) -> Callable[..., Any]:
    """Return a function that ignores its arguments and returns `value`."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        return value

    return answer


def _synchronize(device: object = None) -> None:
    """Return immediately, or raise CUDA's error if a graph is being captured."""
    refuse_waiting()


def _properties_field(field: str) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return getattr(device_properties(), field)

    return answer


# These queries do not count as use of the device, because a script may make them and then continue
# on the CPU.
_QUERIES: dict[str, Any] = {
    "is_available": _answer(True),
    "is_initialized": _answer(True),
    "is_bf16_supported": _answer(True),
    "is_tf32_supported": _answer(True),
    "_is_in_bad_fork": _answer(False),
    "device_count": _answer(1),
    "current_device": _answer(0),
    "get_arch_list": lambda: ["sm_{}{}".format(*capability())],
    "get_device_capability": capability,
    "get_device_name": _properties_field("name"),
    "get_device_properties": device_properties,
    "is_current_stream_capturing": is_capturing,
    "can_device_access_peer": _answer(False),
}

_NOTHING_TO_DO = (
    "empty_cache",
    "init",
    "ipc_collect",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "set_sync_debug_mode",
)

_DEVICE: dict[str, Any] = {
    "CUDAGraph": CUDAGraph,
    "Event": Event,
    "ExternalStream": ExternalStream,
    "Stream": Stream,
    "StreamContext": StreamContext,
    "_DeviceGuard": _Selection,
    "_exchange_device": _answer(0),
    "_maybe_exchange_device": _answer(0),
    "current_blas_handle": _answer(0),
    "current_solver_handle": _answer(0),
    "current_stream": current_stream,
    "default_stream": _answer(DEFAULT_STREAM),
    "device": _Selection,
    "device_of": _Selection,
    "get_allocator_backend": _answer("native"),
    "get_per_process_memory_fraction": _answer(1.0),
    "get_sync_debug_mode": _answer(0),
    "get_stream_from_external": lambda pointer, device=None: ExternalStream(pointer),
    "graph_pool_handle": graph_pool_handle,
    "host_memory_stats": lambda: dict[str, int](),
    "host_memory_stats_as_nested_dict": lambda: dict[str, int](),
    "set_stream": set_stream,
    "stream": StreamContext,
    "synchronize": _synchronize,
    "utilization": _answer(0),
    # These functions must be distinct objects, because Dynamo looks up its rules by function
    # object.
    **{name: _answer(None) for name in _NOTHING_TO_DO},
    **OF_CUDA,
}

_NVTX: dict[str, Any] = {
    "mark": _answer(None),
    "range": _range,
    "range_end": _answer(None),
    "range_pop": _answer(0),
    "range_push": _answer(0),
    "range_start": _answer(0),
}

_ACCELERATOR: dict[str, Any] = {
    "current_device_idx": _answer(0),
    "current_device_index": _answer(0),
    "current_stream": current_stream,
    "device_count": _answer(1),
    "is_available": _answer(True),
    "set_device_idx": _answer(None),
    "set_device_index": _answer(None),
    "set_stream": set_stream,
    "synchronize": _synchronize,
}
#: Replacements for functions that both `torch.accelerator` and `torch.cuda` have.
_MEMORY = (
    *("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved"),
    *("empty_cache", "reset_accumulated_memory_stats", "reset_peak_memory_stats"),
)


def _accelerator(cuda: ModuleType) -> dict[str, Any]:
    return {
        **_ACCELERATOR,
        **{name: _DEVICE[name] for name in _MEMORY},
        "empty_host_cache": _answer(None),
        "get_memory_info": _DEVICE["mem_get_info"],
        "memory_stats": lambda device=None: cuda.memory_stats(),
    }


def replacements(
    torch: ModuleType, used: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, attribute, value) for everything in `torch.cuda` that is replaced.

    Args:
        used: Wraps a function so that calling it counts as use of a device.
    """
    from ttools.core.device_map.generators import default_generator, of_cuda

    cuda = torch.cuda
    functions = {**_QUERIES, **of_cuda()}
    for name, value in _DEVICE.items():
        functions[name] = value if isinstance(value, type) else used(value)
    # Most functions are also attributes of the submodule that defines them.
    for owner in (cuda, cuda.memory, cuda.random, cuda.streams, cuda.graphs):
        yield from ((owner, name, f) for name, f in functions.items() if hasattr(owner, name))
    yield from ((cuda.nvtx, name, f) for name, f in _NVTX.items() if hasattr(cuda.nvtx, name))
    # `torch.cuda.graph` creates this stream on first use and then captures on it by default.
    yield cuda.graphs.graph, "default_capture_stream", None
    yield torch._C, "_host_emptyCache", _answer(None)
    for name in ("start", "stop"):
        yield cuda.profiler, name, _answer(None)
    yield cuda.profiler, "profile", _range
    yield torch, "Event", AcceleratorEvent
    yield cuda, "default_generators", (default_generator(),)
    # torch checks this flag before it saves the random state, for example in activation
    # checkpointing.
    yield cuda, "_initialized", True
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        for owner in (accelerator, getattr(accelerator, "memory", None)):
            for name, function in _accelerator(cuda).items():
                if hasattr(owner, name):
                    yield owner, name, function
        yield accelerator, "current_accelerator", _answer(torch.device("cuda"))
    for name, function in OF_TORCH.items():
        yield torch._C, name, used(function)
    # Code of TorchInductor uses these two functions. If more names were defined, torch would assume
    # that it was built for CUDA.
    yield torch._C, "_cuda_getCurrentRawStream", used(_answer(DEFAULT_STREAM.cuda_stream))
    yield torch._C._dynamo.guards, "_empty_strided_cuda", _empty_strided
    yield torch._C, "__getattr__", _absent
    yield torch.version, "cuda", CUDA_VERSION


class _AbsentError(UnsupportedError, AttributeError):
    """Raised for functions that only CUDA builds of torch have, so that `hasattr` returns False."""


def _absent(name: str) -> Any:
    """Raise a clear error for CUDA functions that this build of `torch._C` lacks."""
    if name.startswith("_cuda_"):
        raise _AbsentError(
            f"`torch._C.{name}`, a function of CUDA builds of torch, on a mapped device"
        )
    raise AttributeError(f"module 'torch._C' has no attribute '{name}'")


def dynamo_replacements(devices: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, attribute, value) for functions that Dynamo copied from `torch.cuda`."""
    import torch

    interface = devices.CudaInterface
    for name in list(vars(interface)):
        function_name = name if hasattr(torch.cuda, name) else f"_{name}"
        if not name.startswith("_") and hasattr(torch.cuda, function_name):
            yield interface, name, staticmethod(_asking(torch.cuda, function_name))
    yield interface, "get_raw_stream", staticmethod(_answer(DEFAULT_STREAM.cuda_stream))
    properties = staticmethod(_asking(torch.cuda, "get_device_properties"))
    yield interface.Worker, "get_device_properties", properties


def _asking(owner: Any, name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: getattr(owner, name)(*args, **kwargs)
