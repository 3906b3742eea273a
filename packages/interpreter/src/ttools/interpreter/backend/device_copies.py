"""Host copies of GPU memory for one launch on the CPU.

Each storage is copied once, so that strides, offsets and aliases stay as they are; after the
launch only the words that changed are copied back. Must not know what a kernel computes.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from ttools.interpreter.emit.module import MemoryEffects

_ALIGNMENT = 512  # of torch's CUDA allocator; kernels are specialised on that of 16
_WORD = 8


@lru_cache(maxsize=1)
def has_device_memory() -> bool:
    """Whether arguments may live on a GPU; asks torch's C++ side, which no device map changes."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    count = getattr(torch._C, "_cuda_getDeviceCount", None)
    return count is not None and int(count()) > 0


class _HostView:
    """Stands for a GPU tensor as a pointer argument."""

    def __init__(self, address: int, extent: tuple[int, int]) -> None:
        self._address = address
        self._extent = extent

    def data_ptr(self) -> int:
        return self._address

    def storage_extent(self) -> tuple[int, int]:
        return self._extent


class _StorageCopy:
    """One GPU storage, its host copy, and the parameters that point into it."""

    def __init__(self, storage: Any) -> None:
        import torch

        self.parameters: set[int] = set()
        self._size = storage.nbytes()
        self._device = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        room = torch.empty(self._size + _ALIGNMENT + _WORD, dtype=torch.uint8)
        start = (storage.data_ptr() - room.data_ptr()) % _ALIGNMENT
        self._host = room[start : start + self._size]
        self._host.copy_(self._device)
        self._before: Any = None

    @property
    def extent(self) -> tuple[int, int]:
        start = self._host.data_ptr()
        return start, start + self._size

    def keep(self) -> None:
        """Remembers the contents, to find later what changed."""
        self._before = self._host.clone()

    def write_back(self) -> None:
        import torch

        words = self._size // _WORD * _WORD
        for start, end, dtype in ((0, words, torch.int64), (words, self._size, torch.uint8)):
            before = self._before[start:end].view(dtype)
            after = self._host[start:end].view(dtype)
            changed = before != after
            if changed.all():
                self._device[start:end].view(dtype).copy_(after)
            elif changed.any():
                target = self._device[start:end].view(dtype)
                target[changed.to(target.device)] = after[changed].to(target.device)


class HostCopies:
    """The host copies that one launch works on."""

    def __init__(self) -> None:
        self._copies: dict[tuple[Any, int], _StorageCopy] = {}

    def replace(self, values: Sequence[Any], pointers: Collection[int]) -> list[Any]:
        """The launch's values with every GPU tensor replaced by its host copy."""
        return [self._host(i, v) if i in pointers else v for i, v in enumerate(values)]

    def _host(self, parameter: int, value: Any) -> Any:
        tensor: Any = value if hasattr(value, "untyped_storage") else getattr(value, "base", None)
        if not hasattr(tensor, "untyped_storage"):
            return value
        storage = tensor.untyped_storage()
        if storage.device.type == "cpu" or not storage.nbytes():
            return value
        key = (storage.device, storage.data_ptr())
        copy = self._copies.get(key)
        if copy is None:
            copy = self._copies[key] = _StorageCopy(storage)
        copy.parameters.add(parameter)
        offset = tensor.data_ptr() - storage.data_ptr()
        return _HostView(copy.extent[0] + offset, copy.extent)

    def keep(self, effects: MemoryEffects) -> None:
        """Prepares `write_back`; call before the launch."""
        for copy in self._written(effects):
            copy.keep()

    def write_back(self, effects: MemoryEffects) -> None:
        """Copies what the launch changed back to the GPU."""
        for copy in self._written(effects):
            copy.write_back()

    def _written(self, effects: MemoryEffects) -> list[_StorageCopy]:
        every = list(self._copies.values())
        if effects.unknown_writes:
            return every
        return [copy for copy in every if copy.parameters & effects.written]
