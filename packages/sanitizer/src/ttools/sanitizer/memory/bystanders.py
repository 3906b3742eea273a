"""Memory beside that of a launch: handed out uninitialised, given to no launch, and not written.

Where the host reads such a tensor, of as many elements as an output has, the output was another
one than meant: a copy that `contiguous()` made, or one of several buffers. Must not know who reads.
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ttools.sanitizer.memory.pattern import WORD


@dataclass(slots=True, eq=False)  # one is made for each allocation: frozen ones take longer
class Bystander:
    """A storage.

    Attributes:
        reference: tells whether it is freed (`expired`).
        start: its address.
        count: of the elements that it was made for.
        pattern: which it was filled with.
    """

    reference: Any
    start: int
    nbytes: int
    count: int
    pattern: bytes

    @property
    def is_left(self) -> bool:
        """Whether it is there, and its first word is as it was; it is not looked at further."""
        if self.reference.expired():
            return False
        return ctypes.string_at(self.start, WORD) == self.pattern


class Bystanders:
    """Those of a run. A launch looks at those only that have as many elements as its output."""

    def __init__(self) -> None:
        self._storages: dict[int, Bystander] = {}
        self._by_count: defaultdict[int, dict[int, Bystander]] = defaultdict(dict)
        self._limit = 64
        self._lock = threading.Lock()

    def add(self, storage: Bystander) -> None:
        if storage.nbytes < WORD:
            return
        with self._lock:
            self._drop(storage.start)
            self._storages[storage.start] = storage
            self._by_count[storage.count][storage.start] = storage
            if len(self._storages) > self._limit:
                for each in list(self._storages.values()):
                    if not each.is_left:
                        self._drop(each.start)
                self._limit = max(64, 2 * len(self._storages))

    def handed(self, starts: Iterable[int]) -> None:
        """A launch was given the storages at these addresses: they are none of later ones."""
        if self._storages:
            with self._lock:
                for start in starts:
                    self._drop(start)

    def of(self, count: int) -> list[Bystander]:
        """Those that were made for so many elements."""
        if count not in self._by_count:
            return []
        with self._lock:
            found = list(self._by_count.get(count, {}).values())
            for each in found:
                if not each.is_left:
                    self._drop(each.start)
            return list(self._by_count.get(count, {}).values())

    def _drop(self, start: int) -> None:
        known = self._storages.pop(start, None)
        if known is not None:
            same = self._by_count[known.count]
            del same[start]
            if not same:
                del self._by_count[known.count]
