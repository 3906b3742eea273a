"""Memory before a launch, so that the launch can be made again as if for the first time.

Owns which storages belong to it, on the host and on a GPU, and what is known of unwritten memory
in them. Must not know who runs the launch again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ttools.interpreter.facts import storage_extent
from ttools.interpreter.snapshot import Snapshot
from ttools.sanitizer.uninitialised import Knowledge, UninitialisedMemory


class LaunchState:
    """The storages of all tensors among a launch's arguments, and which bytes nobody has written.

    Args:
        arguments: of the launch, also those that are no tensors.
        memory: what knows of unwritten bytes.
    """

    def __init__(self, arguments: Iterable[Any], memory: UninitialisedMemory) -> None:
        tensors = list(_tensors(arguments))
        ranges = {extent for each in tensors for extent in _host_range(each)}
        self._ranges = sorted(ranges)
        self._device = [_bytes_of(storage) for storage in _device_storages(tensors)]
        self._memory = memory
        self._owners: list[Any] = []
        self._save()

    def _save(self) -> None:
        self._snapshots = [Snapshot(self._ranges)]
        self._copies = [storage.clone() for storage in self._device]
        self._knowledge: Knowledge = self._memory.knowledge()

    def add(self, storages: Iterable[tuple[int, int, Any]]) -> None:
        """Saves more memory as it is now, unless it is saved already.

        Args:
            storages: first address, end, and what keeps the memory alive.
        """
        new = {(start, end): owner for start, end, owner in storages}
        for known in self._ranges:
            new.pop(known, None)
        if new:
            self._ranges += new
            self._owners += new.values()
            self._snapshots.append(Snapshot(new))

    def again(self) -> LaunchState:
        """The same memory as it is now."""
        state: LaunchState = object.__new__(LaunchState)
        state._ranges, state._device = list(self._ranges), self._device
        state._memory, state._owners = self._memory, list(self._owners)
        state._save()
        return state

    def restore(self) -> None:
        """Puts everything back."""
        for snapshot in self._snapshots:
            snapshot.restore()
        for storage, copy in zip(self._device, self._copies, strict=True):
            storage.copy_(copy)
        self._memory.recall(self._knowledge)


def _tensors(values: Iterable[Any]) -> Iterable[Any]:
    """All tensors, also those in tuples and behind descriptors and wrappers."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif hasattr(value, "untyped_storage") or hasattr(value, "storage_extent"):
            yield value
        elif hasattr(value, "base"):
            yield from _tensors([value.base])


def _host_range(tensor: Any) -> Iterable[tuple[int, int]]:
    if _on_device(tensor):
        return
    extent = storage_extent(tensor)
    if extent is not None and extent[0] < extent[1]:
        yield extent


def _device_storages(tensors: Iterable[Any]) -> Iterable[Any]:
    storages = {s.data_ptr(): s for s in (t.untyped_storage() for t in filter(_on_device, tensors))}
    return storages.values()


def _on_device(tensor: Any) -> bool:
    # Of the storage: a device map changes what tensors say.
    return hasattr(tensor, "untyped_storage") and tensor.untyped_storage().device.type != "cpu"


def _bytes_of(storage: Any) -> Any:
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
