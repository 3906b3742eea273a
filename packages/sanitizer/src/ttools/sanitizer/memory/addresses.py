"""The memory that a run knows of: arguments, and tensors whose address was taken.

Pointers that kernels load from memory are checked against it: a table of addresses is made with
`Tensor.data_ptr()`, which is watched while a run is active.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ttools.core.device_map.memory import on_host
from ttools.core.ownership import owner_of_class
from ttools.core.patches import Patches
from ttools.interpreter.abi.region import Region

#: Freed storages remembered, the latest ones.
_MOST_FREED = 4096
#: An address this near to known memory is described by the distance, in bytes.
_NEAR = 1 << 20


class AddressBook:
    """Storages whose address a program has taken, as long as they live, and the last freed ones.

    No callback reports that a storage is freed, which would cost as much as a small launch: it is
    seen when its memory is looked at, or is another's.
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
            known = self._known.pop(start, None)
            if known is not None and known[1]() is None:
                self._freed.append((start, start + known[0]))
            elif known is not None and known[0] == size:
                self._known[start] = known
                return
            self._known[start] = (size, weakref.ref(storage))
            if len(self._known) > self._most_known:
                self._forget_freed()

    def _forget_freed(self) -> None:
        """Keeps storages that live, and of the others the latest."""
        for start, (size, alive) in list(self._known.items()):
            if alive() is None:
                del self._known[start]
                self._freed.append((start, start + size))
        self._most_known = max(_MOST_FREED, 2 * len(self._known))

    def live(self) -> list[tuple[int, int]]:
        """First address and end of each live storage."""
        with self._lock:
            rows = list(self._known.items())
        return [(start, start + size) for start, (size, alive) in rows if alive() is not None]

    def on_host(self) -> list[tuple[int, int, Any]]:
        """First address and end of each live storage in the host's memory, and the storage."""
        with self._lock:
            rows = list(self._known.items())
        held = [(start, start + size, alive()) for start, (size, alive) in rows]
        return [row for row in held if row[2] is not None and on_host(row[2])]

    def freed(self, address: int) -> str | None:
        """What was at an address that is freed now."""
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
        """Notes every tensor whose `data_ptr()` is called."""
        import torch

        find, note = self._known.get, self.note

        def noting(original: Callable[[Any], int]) -> Callable[[Any], int]:
            def data_ptr(tensor: Any) -> int:
                address = original(tensor)
                known = find(address)
                is_known = known is not None and known[1]() is not None
                if not is_known and owner_of_class(type(tensor)) == "torch":
                    note(tensor)
                return address

            return data_ptr

        with Patches() as patches:
            patches.wrap(torch.Tensor, "data_ptr", noting)
            yield


class Addresses:
    """What is known of addresses during one launch."""

    def __init__(self, regions: Sequence[Region], book: AddressBook) -> None:
        self._regions = regions
        self._book = book

    def allocations(self) -> list[tuple[int, int]]:
        """All memory that a pointer of unknown origin may lead to."""
        own = [region.storage for region in self._regions if region.storage[1]]
        return sorted({*own, *self._book.live()})

    def on_host(self) -> list[tuple[int, int]]:
        """All memory of the host that the launch may lead to, in ranges that do not overlap."""
        own = [region.storage for region in self._regions if region.storage[1] < 1 << 63]
        ranges = sorted({*own, *((start, end) for start, end, _ in self._book.on_host())})
        united: list[tuple[int, int]] = []
        for start, end in ranges:
            if united and start < united[-1][1]:
                united[-1] = united[-1][0], max(end, united[-1][1])
            elif start < end:
                united.append((start, end))
        return united

    def owner(self, address: int, *, through: int = -1) -> int | None:
        """The parameter in whose storage an address lies.

        Args:
            through: the parameter that an access derives from, or -1; it comes before others that
                share its storage.
        """
        if through >= 0 and self._holds(through, address):
            return through
        return next((n for n in range(len(self._regions)) if self._holds(n, address)), None)

    def nearest(self, address: int, parameters: Sequence[int]) -> int | None:
        """The parameter whose storage is nearest to an address; None if none is near."""

        def distance(parameter: int) -> int:
            start, end = self._regions[parameter].storage
            return max(start - address, address - end, 0)

        best = min(parameters, key=distance, default=None)
        return best if best is not None and distance(best) < _NEAR else None

    def _holds(self, parameter: int, address: int) -> bool:
        start, end = self._regions[parameter].storage
        return start <= address < end

    def around(self, address: int) -> tuple[int, int] | None:
        """First address and end of the storage that an address lies in, if it is known."""
        known = [(low, high) for low, high in self.allocations() if low <= address < high < 1 << 63]
        return min(known, key=lambda each: each[1] - each[0], default=None)

    def start(self, parameter: int) -> int:
        """The first address of the storage of a parameter."""
        return self._regions[parameter].storage[0]

    def freed(self, address: int) -> str | None:
        return self._book.freed(address)

    def near(self, address: int) -> str | None:
        """How far an address lies behind or before known memory."""
        best: tuple[int, str] | None = None
        for start, end in self.allocations():
            behind = address >= end
            distance = address - end if behind else start - address
            if 0 <= distance < _NEAR and (best is None or distance < best[0]):
                where = f"{distance:,} bytes {'past' if behind else 'before'}"
                where = "at" if behind and not distance else where
                edge = "end" if behind else "beginning"
                text = f"is {where} the {edge} of a tensor of {end - start:,} bytes"
                best = distance, text
        return best[1] if best else None
