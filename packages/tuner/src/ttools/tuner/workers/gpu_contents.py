"""The bytes of a storage on a GPU, where another process of this machine copies them from.

Owns the driver's handles to memory of another process (CUDA IPC): the other process copies the
bytes on the GPU and lets go at once, so nothing that it runs can reach the original. Must not know
whose storage it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ttools.core.errors import TtoolsError

#: Fewer bytes are sent as they are.
_LEAST = 1 << 20
_HANDLE_BYTES = 64
_LAZY_PEER_ACCESS = 1


class CannotShareError(TtoolsError):
    """Memory of another process cannot be reached here, as in some containers."""


class _Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * _HANDLE_BYTES),)


@dataclass(frozen=True)
class GpuContents:
    """Bytes on a GPU, for processes of this machine, as long as the original is not freed.

    Attributes:
        handle: the driver's, of the allocation that they are part of.
        offset: where in it they begin.
        size: in bytes.
    """

    handle: bytes
    offset: int
    size: int

    def tensor(self) -> Any:
        """A copy, one element for each byte.

        Raises:
            CannotShareError: the driver does not give the memory.
        """
        import torch

        own = torch.empty(self.size, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()  # so that this thread has a context
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
    """The bytes of a one-dimensional tensor of bytes on a GPU, once all work on them is done.

    Returns:
        None for few of them, and where they cannot be shared, as memory that an allocator has
        mapped itself.
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
    """Calls a function of the driver.

    Raises:
        CannotShareError: it fails, or there is none.
    """
    try:
        error = _function(name)(*arguments)
    except (OSError, AttributeError) as missing:
        raise CannotShareError(f"no {name}: {missing}") from missing
    if error:
        raise CannotShareError(f"{name}: CUDA error {error}")


@cache
def _function(name: str) -> Callable[..., int]:
    found: Callable[..., int] = getattr(ctypes.CDLL("libcuda.so.1"), name)
    return found
