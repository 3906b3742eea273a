"""Sharing of a storage's bytes with other processes of this machine through an anonymous file.

The process that has the storage writes the file (`memfd_create`) once, and other processes map it.
This avoids sending the bytes through a pipe.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from typing import Any

#: If there are fewer bytes than this, sending them is faster than creating a file for them.
_LEAST = 1 << 20


class Contents:
    """Bytes in an anonymous file, which exists as long as this object.

    Pickling writes only the path of the file. Therefore an object can be unpickled only by
    processes of this machine, and only while the original object exists; for other machines, use
    `bytes(contents)`.

    Args:
        descriptor: File descriptor, which is closed with this object.
        size: Size in bytes, at least one.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self._size = descriptor, size
        weakref.finalize(self, os.close, descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (_path(self._descriptor), self._size)

    def __bytes__(self) -> bytes:
        return os.pread(self._descriptor, self._size, 0)

    def grow(self) -> None:
        """Extend the new file to its full size, and check that other processes can open it.

        Raises:
            OSError: There is not enough memory, or other processes could not open the file.
        """
        os.ftruncate(self._descriptor, self._size)
        os.close(os.open(_path(self._descriptor), os.O_RDONLY))

    def shared_map(self) -> mmap.mmap:
        """Map the file; changes are visible to all processes that map it."""
        return mmap.mmap(self._descriptor, self._size)

    def tensor(self) -> Any:
        """Return a private copy of the bytes as a tensor with one element per byte."""
        import torch

        private_map = mmap.mmap(self._descriptor, self._size, access=mmap.ACCESS_COPY)
        return torch.frombuffer(private_map, dtype=torch.uint8)


def contents_of(tensor: Any) -> Contents | bytes:
    """Return the current bytes of a one-dimensional byte tensor on any device.

    Small tensors are returned as `bytes`; all tensors are if the system has no anonymous files.
    """
    import torch

    size = tensor.numel()
    if size >= _LEAST and hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            contents = Contents(os.memfd_create("ttools", os.MFD_CLOEXEC), size)
            contents.grow()
            torch.frombuffer(contents.shared_map(), dtype=torch.uint8).copy_(tensor)
            return contents
    return bytes(tensor.cpu().numpy().tobytes())


def _path(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _opened(path: str, size: int) -> Contents:
    return Contents(os.open(path, os.O_RDONLY | os.O_CLOEXEC), size)
