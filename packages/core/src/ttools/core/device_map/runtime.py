"""Replacements for parts of the CUDA runtime, NCCL and torch's CUDA library.

`mapping.py` installs them. Because there is only one device, functions that distribute tensors
among devices only copy them. Process groups that request NCCL, which needs GPUs, get Gloo instead.
Collectives on tensors of the mapped device call the CPU's collectives (`operators/kernels.py`), so
the same Gloo group is the backend for both devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

from ttools.core.device_map.properties import DeviceProperties

#: The NCCL version that matches the reported CUDA version.
_NCCL_VERSION = (2, 26, 2)


def _succeed(*args: object, **kwargs: object) -> int:
    return 0


#: Replaces the result of `torch.cuda.cudart()`; all calls succeed without doing anything.
CUDART = SimpleNamespace(
    cudaError=SimpleNamespace(success=0),
    cudaGetErrorString=lambda code: "no error" if code == 0 else f"error {code}",
    cudaHostRegister=_succeed,
    cudaHostUnregister=_succeed,
    cudaMemGetInfo=lambda device=0: __import__("torch").cuda.mem_get_info(device),
    cudaProfilerStart=_succeed,
    cudaProfilerStop=_succeed,
    cudaStreamCreate=_succeed,
    cudaStreamDestroy=_succeed,
)


class _Plans:
    """Replaces `torch.backends.cuda.cufft_plan_cache` for one or all devices; is always empty."""

    size = 0
    max_size = 0

    def __getitem__(self, device: object) -> _Plans:
        return self

    def clear(self) -> None:
        """Do nothing."""


def runtime_replacements(torch: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, attribute, value) for replacements of functions that only CUDA builds have."""
    yield torch.cuda, "_cudart", CUDART
    yield torch.cuda, "_CudaDeviceProperties", DeviceProperties
    yield torch.cuda, "_sleep", lambda cycles: None
    yield torch.cuda.nccl, "version", lambda: _NCCL_VERSION
    for name, function in _COPIES.items():
        yield torch._C, name, function
    yield torch.backends.cuda, "cufft_plan_cache", _Plans()


# ---- distribution among devices


def _broadcast(tensor: Any, devices: Sequence[int]) -> list[Any]:
    return [tensor.to("cuda", copy=number > 0) for number, _ in enumerate(devices)]


def _copy_to_each(tensor: Any, out: Sequence[Any]) -> list[Any]:
    return [target.copy_(tensor) for target in out]


def _broadcast_coalesced(tensors: Sequence[Any], devices: Sequence[int], size: int) -> list[Any]:
    copies = [_broadcast(tensor, devices) for tensor in tensors]
    return [list(on_device) for on_device in zip(*copies, strict=True)] or [[] for _ in devices]


def _parts(tensor: Any, number: int, sizes: Sequence[int] | None, dim: int) -> Any:
    return tensor.chunk(number, dim) if sizes is None else tensor.split(list(sizes), dim)


def _scatter(
    tensor: Any, devices: Sequence[int], sizes: Sequence[int] | None, dim: int, streams: object
) -> list[Any]:
    return [part.to("cuda") for part in _parts(tensor, len(devices), sizes, dim)]


def _scatter_out(tensor: Any, out: Sequence[Any], dim: int, streams: object) -> list[Any]:
    parts = _parts(tensor, len(out), [target.shape[dim] for target in out], dim)
    return [target.copy_(part) for target, part in zip(out, parts, strict=True)]


def _gather(tensors: Sequence[Any], dim: int, destination: int | None) -> Any:
    import torch

    joined = torch.cat(list(tensors), dim)
    return joined.cpu() if destination == -1 else joined


def _gather_out(tensors: Sequence[Any], out: Any, dim: int) -> Any:
    return out.copy_(_gather(tensors, dim, 0))


_COPIES: dict[str, Callable[..., Any]] = {
    "_broadcast": _broadcast,
    "_broadcast_out": _copy_to_each,
    "_broadcast_coalesced": _broadcast_coalesced,
    "_scatter": _scatter,
    "_scatter_out": _scatter_out,
    "_gather": _gather,
    "_gather_out": _gather_out,
}


#: The default timeout that torch documents for NCCL.
_TIMEOUT = timedelta(minutes=10)


def group_replacements(torch: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, attribute, value) for replacements that turn NCCL groups into Gloo groups."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return
    c10d = torch.distributed.distributed_c10d
    group = _stand_in(c10d.ProcessGroupGloo)
    nccl = c10d.Backend.NCCL
    devices = {**c10d.Backend.backend_capability, nccl: ["cpu", "cuda"]}
    yield c10d, "_NCCL_AVAILABLE", True
    yield c10d, "ProcessGroupNCCL", group
    yield torch.distributed, "ProcessGroupNCCL", group
    yield c10d.Backend, "backend_capability", devices
    yield c10d, "default_pg_nccl_timeout", _TIMEOUT
    # `DistributedDataParallel` calls this method from the second training step on. The original
    # method requires times of CUDA events.
    yield torch.distributed.Logger, "set_runtime_stats_and_log", lambda self: None


def _stand_in(gloo: Any) -> type:
    class Options:
        """Options that scripts and torch set; only the timeout has an effect."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream

    class ProcessGroupNCCL(gloo):  # type: ignore[misc]
        """A Gloo group with the constructor and the attributes of an NCCL group."""

        uid = -1

        def __init__(self, store: Any, rank: int, size: int, options: Any) -> None:
            super().__init__(store, rank, size, timeout=options._timeout)
            self.options.global_ranks_in_group = options.global_ranks_in_group
            self.options.group_name = options.group_name

    vars_of: Any = ProcessGroupNCCL
    vars_of.Options = Options
    return ProcessGroupNCCL
