"""Sharing of a storage on a GPU with other processes of this machine through CUDA IPC.

The receiving process opens the driver's memory handle, copies the bytes on the GPU and closes the
handle at once. Therefore kernels that it runs cannot access the original.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ttools.core.errors import TtoolsError

#: Fewer bytes are sent without a handle.
_LEAST = 1 << 20
_HANDLE_BYTES = 64
_LAZY_PEER_ACCESS = 1


class CannotShareError(TtoolsError):
    """The driver cannot share memory between processes here, as in some containers."""


class _Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * _HANDLE_BYTES),)


@dataclass(frozen=True)
class GpuContents:
    """A range of GPU memory that other processes of this machine can copy until it is freed.

    Attributes:
        handle: The driver's IPC handle of the allocation.
        offset: Offset of the range in the allocation, in bytes.
        size: Size of the range in bytes.
    """

    handle: bytes
    offset: int
    size: int

    def tensor(self) -> Any:
        """Return a copy of the range as a tensor with one element per byte.

        Raises:
            CannotShareError: The driver does not provide the memory.
        """
        import torch

        own = torch.empty(self.size, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()  # ensures that this thread has a context
        start = ctypes.c_uint64()
        handle = _Handle.from_buffer_copy(self.handle)
        _do("cuIpcOpenMemHandle_v2", ctypes.byref(start), handle, _LAZY_PEER_ACCESS)
        try:
            source = ctypes.c_uint64(start.value + self.offset)
            target = ctypes.c_uint64(own.data_ptr())
            _do("cuMemcpyDtoD_v2", target, source, ctypes.c_size_t(self.size))
            _do("cuCtxSynchronize")
        finally:
            _do("cuIpcCloseMemHandle", start)
        return own


def gpu_contents_of(tensor: Any) -> GpuContents | None:
    """Share the bytes of a one-dimensional byte tensor on a GPU, after all pending work.

    Returns:
        None if the tensor is small or the driver cannot share its memory, for example because an
        allocator has mapped the memory itself.
    """
    import torch

    if tensor.numel() < _LEAST:
        return None
    handle, start, size = _Handle(), ctypes.c_uint64(), ctypes.c_size_t()
    address = ctypes.c_uint64(tensor.data_ptr())
    try:
        with torch.cuda.device(tensor.device):
            torch.cuda.synchronize()
            _do("cuMemGetAddressRange_v2", ctypes.byref(start), ctypes.byref(size), address)
            _do("cuIpcGetMemHandle", ctypes.byref(handle), start)
    except (CannotShareError, RuntimeError):
        return None
    return GpuContents(bytes(handle), address.value - start.value, tensor.numel())


def _do(name: str, *arguments: Any) -> None:
    """Call a function of the driver.

    Raises:
        CannotShareError: The call fails, or the driver lacks the function.
    """
    try:
        error = _function(name)(*arguments)
    except (OSError, AttributeError) as missing:
        raise CannotShareError(f"no {name}: {missing}") from missing
    if error:
        raise CannotShareError(f"{name}: CUDA error {error}")


@cache
def _function(name: str) -> Callable[..., int]:
    function: Callable[..., int] = getattr(ctypes.CDLL("libcuda.so.1"), name)
    return function
