"""Storages to which pointers of unknown origin may point, such as pointers loaded from a table.

Programs fill such tables with the results of `Tensor.data_ptr()`. Therefore calls of this method
are observed, and an `AddressBook` keeps the storages of these tensors. Storages whose address was
taken earlier are found by a search of all live objects (`StorageFinder`).
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

from ttools.core.buffers import ArrayBuffer
from ttools.core.device_map.memory import on_host
from ttools.core.ownership import owner_of_class
from ttools.core.patches import Patches
from ttools.core.spec import storage_extent
from ttools.interpreter.run.device_copies import has_device_memory

#: The number of freed storages that are remembered; older ones are forgotten.
_MOST_FREED = 4096


class AddressBook:
    """The live storages whose address a program has taken, and the most recently freed ones.

    A callback for each freed storage would cost as much as a small launch. Instead, freed storages
    are detected later: when storages are looked up, or when another storage has the same address.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._known: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._freed: deque[tuple[int, int]] = deque(maxlen=_MOST_FREED)
        self._most_known = _MOST_FREED

    def note(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        start, size = int(storage.data_ptr()), int(storage.nbytes())
        if not size:
            return
        with self._lock:
            previous = self._known.pop(start, None)
            if previous is not None and previous[1]() is None:
                self._freed.append((start, start + previous[0]))
            elif previous is not None and previous[0] == size:
                self._known[start] = previous
                return
            self._known[start] = (size, weakref.ref(storage))
            if len(self._known) > self._most_known:
                self._forget_freed()

    def _forget_freed(self) -> None:
        """Move the storages that have been freed to the list of freed ones."""
        for start, (size, alive) in list(self._known.items()):
            if alive() is None:
                del self._known[start]
                self._freed.append((start, start + size))
        self._most_known = max(_MOST_FREED, 2 * len(self._known))

    def live(self) -> list[tuple[int, int]]:
        """Return the first address and the end of each live storage."""
        with self._lock:
            rows = list(self._known.items())
        return [(start, start + size) for start, (size, alive) in rows if alive() is not None]

    def on_host(self) -> list[tuple[int, int, Any]]:
        """Return the first address, the end and the object of each live storage in host memory."""
        with self._lock:
            rows = list(self._known.items())
        extents = [(start, start + size, alive()) for start, (size, alive) in rows]
        return [row for row in extents if row[2] is not None and on_host(row[2])]

    def freed(self, address: int) -> str | None:
        """Describe the freed storage at an address; None if there is none."""
        with self._lock:
            self._forget_freed()
            if any(start <= address < end for start, end in self.live()):
                return None
            for start, end in reversed(self._freed):
                if start <= address < end:
                    return f"a tensor of {end - start:,} bytes"
        return None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record every tensor whose `data_ptr()` is called."""
        import torch

        find, note = self._known.get, self.note
        plain = torch.Tensor, torch.nn.Parameter

        def noting(original: Callable[[Any], int]) -> Callable[[Any], int]:
            def data_ptr(tensor: Any) -> int:
                address = original(tensor)
                entry = find(address)
                is_known = entry is not None and entry[1]() is not None
                kind = type(tensor)
                if not is_known and (kind in plain or owner_of_class(kind) == "torch"):
                    note(tensor)
                return address

            return data_ptr

        with Patches() as patches:
            patches.wrap(torch.Tensor, "data_ptr", noting)
            yield


def live_storages() -> Iterator[tuple[int, int, Any]]:
    """Yield the start, the end and the object of each live tensor or array in host memory."""
    torch = sys.modules.get("torch")
    for value in gc.get_objects():
        if torch is not None and issubclass(type(value), torch.Tensor):
            extent = _host_extent(value)
            if extent is not None:
                yield *extent, value
        elif type(value) is ArrayBuffer:
            yield *value.storage_extent(), value


def _host_extent(tensor: Any) -> tuple[int, int] | None:
    """Return the start and end of a tensor's storage, or None if it has no storage on the host."""
    try:
        if has_device_memory() and not on_host(tensor):
            return None
        extent = storage_extent(tensor)
    except (RuntimeError, NotImplementedError):  # sparse or fake tensors, or functorch
        return None
    return extent if extent is not None and extent[0] else None


class StorageFinder:
    """Finds the storages to which pointers of unknown origin point, for one launch.

    All live objects are searched at most once per launch. Since a search takes about 50 ms, the
    first one also begins to record the addresses that the program takes, so that later launches
    rarely need a search.
    """

    def __init__(self) -> None:
        self._found: list[tuple[int, int]] = []
        self._searched = False
        self._lock = threading.Lock()

    def known(self, own: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the storages that are known without a search.

        Args:
            own: Start and end of each storage of the launch's arguments.
        """
        return sorted({*own, *_book.live()})

    def find(self, address: int, size: int) -> tuple[int, int] | None:
        """Return the start and end of the storage that contains `size` bytes at an address."""
        with self._lock:
            if not self._searched:
                self._searched = True
                self._found = _search()
            for start, end in self._found:
                if start <= address and address + size <= end:
                    return start, end
        return None


_book = AddressBook()
_watching = ExitStack()


def _search() -> list[tuple[int, int]]:
    """Return all live storages, and record them for later launches."""
    _watch()
    storages = set()
    for start, end, value in live_storages():
        storages.add((start, end))
        if hasattr(value, "untyped_storage"):
            _book.note(value)
    return sorted(storages)


@lru_cache(maxsize=1)
def _watch() -> None:
    """Record from now on each tensor whose address is taken."""
    _watching.enter_context(_book.watching())
