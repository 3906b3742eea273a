"""Memory of tensors that neither a kernel nor an operator of torch has filled.

Whatever fills it computes outside of both: C that is given an address, NumPy on memory whose
address it has, operators that run while torch's modes are off. The contents of each storage that an
operator or a launch was seen to make or change are known by a digest, and compared where the
storage is used again. Memory that is not of torch's making is known from its first use on only.
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
        devices: types of the devices whose memory is the host's; None if that of all is, as where
            the CPU stands in for a GPU.

    Attributes:
        found: where the memory of a tensor was met that something unknown has filled, how many
            elements it has, and whether they are floats.
    """

    def __init__(self, devices: Container[str] | None = None) -> None:
        self._devices = devices
        self.found: list[tuple[str, int, bool]] = []
        self._known: dict[StorageWeakRef, bytes] = {}

    def use(self, where: str, tensors: Iterable[Any]) -> None:
        """Looks at tensors that are about to be used.

        Args:
            where: by what, as a sentence names it.
            tensors: others than ordinary ones are passed over.
        """
        for each in tensors:
            storage = self._storage(each)
            if storage is None:
                continue
            key, digest = _key(storage), _digest(storage)
            if self._known.setdefault(key, digest) != digest:
                self._known[key] = digest
                is_float = each.is_floating_point() or each.is_complex()
                self.found.append((where, each.numel(), is_float))

    def change(self, tensors: Iterable[Any]) -> None:
        """Takes what is in tensors now for what a kernel or an operator has left there."""
        for each in tensors:
            storage = self._storage(each)
            if storage is not None:
                self._known[_key(storage)] = _digest(storage)

    def change_all(self) -> None:
        """The same for all tensors, of which any may have been written to."""
        self._known.clear()

    def _storage(self, tensor: Any) -> Any:
        """The storage of a tensor in the host's memory; None for all that are no ordinary ones."""
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            return None
        if self._devices is not None and tensor.device.type not in self._devices:
            return None
        try:
            storage = tensor.untyped_storage()
            return storage if storage.nbytes() and storage.data_ptr() else None
        except (RuntimeError, NotImplementedError):  # of a tensor without memory
            return None


def written_by(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments of an operator that it writes to."""
    found: list[Any] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            if argument.name in kwargs:
                found.append(kwargs[argument.name])
            elif position < len(args):
                found.append(args[position])
    return found


def _key(storage: Any) -> StorageWeakRef:
    """Stands for a storage, and keeps its place from being another's, but not its memory."""
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]


def _digest(storage: Any) -> bytes:
    return hashlib.blake2b(ctypes.string_at(storage.data_ptr(), storage.nbytes())).digest()
