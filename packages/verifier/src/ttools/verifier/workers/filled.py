"""Detects memory of tensors that neither a kernel nor a torch operator has filled.

Such memory was filled by other code: C code that received an address, NumPy on memory whose
address it has, or operators that run while torch's modes are disabled. The class stores a digest
of each storage that an operator or a launch made or changed. Where the storage is used again, the
digest is compared with its contents. Memory that torch did not allocate is observed from its first
use on.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Container, Iterable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class Filled:
    """Follows the contents of storages on the host.

    Args:
        devices: Device types whose memory is host memory; None if the memory of all devices is,
            for example where the CPU stands in for a GPU.

    Attributes:
        found: Tensors in memory that unknown code has filled: the place of use, the number of
            elements, and whether they are floats.
    """

    def __init__(self, devices: Container[str] | None = None) -> None:
        self._devices = devices
        self.found: list[tuple[str, int, bool]] = []
        self._known: dict[StorageWeakRef, bytes] = {}

    def use(self, where: str, tensors: Iterable[Any]) -> None:
        """Check the memory of tensors that are about to be used.

        Args:
            where: Description of the use, as the beginning of a sentence ("`kernel` gets").
            tensors: Tensors to check; values that are not strided host tensors are skipped.
        """
        for tensor in tensors:
            storage = self._storage(tensor)
            if storage is None:
                continue
            key, digest = _key(storage), _digest(storage)
            if self._known.setdefault(key, digest) != digest:
                self._known[key] = digest
                is_float = tensor.is_floating_point() or tensor.is_complex()
                self.found.append((where, tensor.numel(), is_float))

    def change(self, tensors: Iterable[Any]) -> None:
        """Record the present contents of tensors as those that a kernel or operator wrote."""
        for tensor in tensors:
            storage = self._storage(tensor)
            if storage is not None:
                self._known[_key(storage)] = _digest(storage)

    def change_all(self) -> None:
        """Forget all contents, because any tensor may have been written to."""
        self._known.clear()

    def _storage(self, tensor: Any) -> Any:
        """Return the storage of a strided tensor in host memory; None for other values."""
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            return None
        if self._devices is not None and tensor.device.type not in self._devices:
            return None
        try:
            storage = tensor.untyped_storage()
            return storage if storage.nbytes() and storage.data_ptr() else None
        except (RuntimeError, NotImplementedError):  # a tensor without memory
            return None


def written_by(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return the arguments of an operator that it writes to."""
    written: list[Any] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            if argument.name in kwargs:
                written.append(kwargs[argument.name])
            elif position < len(args):
                written.append(args[position])
    return written


def _key(storage: Any) -> StorageWeakRef:
    """Return a weak reference to a storage, which keeps its identity but not its memory."""
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]


def _digest(storage: Any) -> bytes:
    return hashlib.blake2b(ctypes.string_at(storage.data_ptr(), storage.nbytes())).digest()
