"""The bytes of a storage, where any process of this machine can read them without a pipe between.

Owns memory that is a file without a name: written once by the process that has the storage, mapped
by the others. Must not know whose storage it is nor who reads.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from typing import Any

#: Fewer bytes are sent faster than a file is made of them.
_LEAST = 1 << 20


class Contents:
    """Bytes in a file in memory, as long as this object lives.

    Pickled, it is the way to the file, so it is for processes of this machine, and for as long as
    the object that was pickled lives; see `__bytes__` for all others.

    Args:
        descriptor: of the file; closed with this object.
        size: in bytes, at least one.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self._size = descriptor, size
        weakref.finalize(self, os.close, descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (_path(self._descriptor), self._size)

    def __bytes__(self) -> bytes:
        return os.pread(self._descriptor, self._size, 0)

    def grow(self) -> None:
        """Gives the file its size.

        Raises:
            OSError: there is no room, or other processes could not open it.
        """
        os.ftruncate(self._descriptor, self._size)
        os.close(os.open(_path(self._descriptor), os.O_RDONLY))

    def room(self) -> mmap.mmap:
        """The file itself; what is written there is everybody's."""
        return mmap.mmap(self._descriptor, self._size)

    def tensor(self) -> Any:
        """The bytes, one for each element; changing them changes no other's."""
        import torch

        room = mmap.mmap(self._descriptor, self._size, access=mmap.ACCESS_COPY)
        return torch.frombuffer(room, dtype=torch.uint8)


def contents_of(tensor: Any) -> Contents | bytes:
    """The bytes of a one-dimensional tensor of bytes, on any device, as they are now.

    Few of them, and all where files in memory cannot be had, travel as they are.
    """
    import torch

    size = tensor.numel()
    if size >= _LEAST and hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            found = Contents(os.memfd_create("ttools", os.MFD_CLOEXEC), size)
            found.grow()
            torch.frombuffer(found.room(), dtype=torch.uint8).copy_(tensor)
            return found
    return bytes(tensor.cpu().numpy().tobytes())


def _path(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _opened(path: str, size: int) -> Contents:
    return Contents(os.open(path, os.O_RDONLY | os.O_CLOEXEC), size)
