"""The contents of memory before a launch, from which the launch can be repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ttools.core.device_map.memory import on_host
from ttools.core.spec import storage_extent, whole_storage
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.sanitizer.memory.device_storages import DeviceStorage
from ttools.sanitizer.memory.host_storages import start_of
from ttools.sanitizer.memory.uninitialised import MemoryState, UninitialisedMemory
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

_WORD = 8
#: Up to this many storages are copied one by one, which runs at the speed of the memory.
_FEW = 4


class SavedMemory:
    """The storages of a launch's tensor arguments, and which of their bytes were never written.

    Args:
        arguments: The arguments, including those that are not tensors.
        memory: The record of unwritten bytes.
    """

    def __init__(self, arguments: Iterable[Any], memory: UninitialisedMemory) -> None:
        tensors = list(tensors_among(arguments))
        extents = {storage_extent(item) for item in tensors if not _on_device(item)}
        self._ranges = sorted(item for item in extents if item is not None and item[0] < item[1])
        on_device = (item.untyped_storage() for item in filter(_on_device, tensors))
        storages = {storage.data_ptr(): storage for storage in on_device}
        self._device = [whole_storage(storage) for storage in storages.values()]
        self._memory = memory
        self._owners: list[Any] = []
        self._save()

    def _save(self) -> None:
        self._snapshots = [Snapshot(self._ranges)]
        self._saved = [storage.clone() for storage in self._device]
        self._copies = _together(self._saved, self._device)
        self._some: dict[frozenset[int], Sequence[tuple[list[Any], list[Any]]]] = {}
        self._state: MemoryState = self._memory.state()

    def add(self, storages: Iterable[tuple[int, int, Any]]) -> None:
        """Save the present contents of more memory, unless it is already saved.

        Args:
            storages: Start and end of each storage, and an object that keeps its memory alive.
        """
        new = {(start, end): owner for start, end, owner in storages}
        for saved in self._ranges:
            new.pop(saved, None)
        if new:
            self._ranges += new
            self._owners += new.values()
            self._snapshots.append(Snapshot(new))

    def again(self) -> SavedMemory:
        """Save the present contents of the same memory."""
        state: SavedMemory = object.__new__(SavedMemory)
        state._ranges, state._device = list(self._ranges), self._device
        state._memory, state._owners = self._memory, list(self._owners)
        state._save()
        return state

    def changed(self) -> frozenset[int]:
        """Return the addresses of GPU storages whose bytes have changed since they were saved."""
        import torch

        pairs = zip(self._device, self._saved, strict=True)
        return frozenset(now.data_ptr() for now, saved in pairs if not torch.equal(now, saved))

    def restore(self, only: frozenset[int] | None = None) -> None:
        """Restore the saved memory.

        Args:
            only: Addresses of the GPU storages to restore; by default all. Host memory is always
                restored.
        """
        for snapshot in self._snapshots:
            snapshot.restore()
        for targets, sources in self._copies if only is None else self._copies_of(only):
            _copy(targets, sources)
        self._memory.restore(self._state)

    def _copies_of(self, only: frozenset[int]) -> Sequence[tuple[list[Any], list[Any]]]:
        if only not in self._some:
            pairs = zip(self._saved, self._device, strict=True)
            chosen = [(saved, now) for saved, now in pairs if now.data_ptr() in only]
            self._some[only] = _together([s for s, _ in chosen], [now for _, now in chosen])
        return self._some[only]


def tensors_among(values: Iterable[Any]) -> Iterable[Any]:
    """Yield all tensors, including those in tuples and behind descriptors and wrappers."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors_among(value)
        elif hasattr(value, "untyped_storage") or hasattr(value, "storage_extent"):
            yield value
        elif hasattr(value, "base"):
            yield from tensors_among([value.base])


class _NeverExpires:
    """A reference to a storage that stays alive as long as a launch."""

    def expired(self) -> bool:
        return False


@contextmanager
def lent_to_host(
    memory: UninitialisedMemory, arguments: Sequence[Any], values: Sequence[Any]
) -> Iterator[None]:
    """Treat bytes of a launch's host copies as unwritten where the copied memory was unwritten.

    Args:
        memory: The record of unwritten memory.
        arguments: The arguments as the program passed them.
        values: The arguments with host copies instead of GPU memory.
    """
    lent: list[tuple[DeviceStorage, UnwrittenStorage]] = []
    for argument, value in zip(arguments, values, strict=True):
        tensor = next(iter(tensors_among([argument])), None)
        start = None if argument is value or tensor is None else start_of(tensor)
        own = None if start is None else memory.find(start)
        extent = storage_extent(value) if isinstance(own, DeviceStorage) else None
        if not isinstance(own, DeviceStorage) or extent is None or not own.may_be_unwritten:
            continue
        if extent[1] - extent[0] != own.nbytes or any(own is storage for storage, _ in lent):
            continue
        copy = UnwrittenStorage(_NeverExpires(), extent[0], own.nbytes, 0, own.pattern, own.grain)
        copy.take_over(own)
        memory.put(copy)
        lent.append((own, copy))
    try:
        yield
    finally:
        for own, copy in lent:
            own.take_over(copy)
            memory.take_away(copy.start)


def _on_device(tensor: Any) -> bool:
    return hasattr(tensor, "untyped_storage") and not on_host(tensor)


def _together(sources: Sequence[Any], targets: Sequence[Any]) -> list[tuple[list[Any], list[Any]]]:
    """Group targets and sources by device, so that one kernel copies each group.

    The tensors are viewed as 64-bit words where possible.
    """
    import torch

    groups: dict[tuple[Any, bool], tuple[list[Any], list[Any]]] = {}
    for source, target in zip(sources, targets, strict=True):
        whole = target.numel() % _WORD == 0 and target.data_ptr() % _WORD == 0
        into, outof = groups.setdefault((target.device, whole), ([], []))
        into.append(target.view(torch.int64) if whole else target)
        outof.append(source.view(torch.int64) if whole else source)
    return list(groups.values())


def _copy(targets: list[Any], sources: list[Any]) -> None:
    import torch

    if len(targets) > _FEW:
        torch._foreach_copy_(targets, sources)
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)
