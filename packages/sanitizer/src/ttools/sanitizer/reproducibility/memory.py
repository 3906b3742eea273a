"""Hashes of the elements in memory that kernels have stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.eager.groups import positions
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.reproducibility.hashes import Hashed

Addresses = NDArray[np.int64]
#: Used instead of the number of the program that has stored an element, if several programs have.
SEVERAL = -2
_WORDS = (1, 2, 4, 8)


class StoredHashes:
    """The hashes of the elements of a storage.

    Args:
        start: Address of the storage.
        end: Address after the last byte of the storage.
        size: Bytes of an element.

    Attributes:
        values: The hash of each element.
        launch: Number of the launch that stored each element last; 0 for none.
        program: Number of the program that stored each element, if a launch has stored it;
            `SEVERAL` for atomics.
        is_empty: True if no element has been stored.
    """

    def __init__(self, start: int, end: int, size: int) -> None:
        self.start, self.end, self.size = start, end, size
        count = (end - start) // size
        self.values = np.zeros(count, np.uint64)
        self.launch = np.zeros(count, np.int32)
        self.program = np.zeros(count, np.int64)
        self.is_empty = True
        self._bits = np.zeros(count, f"u{size}")

    def index(self, addresses: Addresses) -> Any:
        """Return the numbers of the elements at the given addresses."""
        return (addresses - self.start) // self.size

    def span(self, addresses: Addresses) -> Any:
        """Return the numbers of the elements at the given addresses, as a slice if possible."""
        return positions(addresses, self.start, self.size)

    def is_stored(self, index: Any) -> NDArray[np.bool_]:
        """Return which elements still have the bytes that a kernel has stored."""
        return np.asarray((self.launch[index] > 0) & (self._bits[index] == self.bits()[index]))

    def has_bits(self, index: Any, elements: Any) -> NDArray[np.bool_]:
        """Return which given earlier contents of elements are those that a kernel has stored."""
        bits = np.ascontiguousarray(elements).view(self._bits.dtype)
        return np.asarray((self.launch[index] > 0) & (self._bits[index] == bits))

    def store(self, index: Any, values: Hashed, launch: int, program: Any) -> None:
        """Record elements that have just been stored."""
        self.is_empty = False
        self.values[index], self.launch[index], self.program[index] = values, launch, program
        self._bits[index] = self.bits()[index]

    def bits(self) -> Any:
        """Return the elements of the storage as unsigned integers."""
        end = self.start + len(self._bits) * self.size
        return memory(self.start, end).view(f"u{self.size}")


class HashMemory:
    """The hashes in all memory of a run."""

    def __init__(self) -> None:
        self._storages: dict[tuple[int, int], dict[int, StoredHashes]] = {}
        self._ranges: list[tuple[int, int]] = []

    def begin(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Begin a launch, whose arguments have the given storages."""
        self._ranges = sorted(set(ranges))
        for own in list(self._storages):
            if own not in self._ranges and any(a < own[1] and own[0] < b for a, b in self._ranges):
                del self._storages[own]  # other memory lies there now

    def find(self, addresses: Addresses, size: int) -> StoredHashes | None:
        """Return the hashes of the storage that contains all addresses; None if there is none.

        Args:
            addresses: Addresses of elements; there must be at least one.
            size: Size of an element in bytes.
        """
        low, high = int(addresses.min()), int(addresses.max())
        for start, end in self._ranges:
            if start <= low and high + size <= end and size in _WORDS:
                if ((addresses - start) % size).any():
                    return None
                own = self._storages.setdefault((start, end), {})
                if size not in own:
                    own[size] = StoredHashes(start, end, size)
                return own[size]
        return None

    def has_other_size(self, stored: StoredHashes) -> bool:
        """Return whether kernels have also stored elements of another size to the same storage."""
        sizes = self._storages.get((stored.start, stored.end), {})
        return any(one is not stored and not one.is_empty for one in sizes.values())

    def storages(self) -> Iterator[StoredHashes]:
        """Yield the hashes of the storages of the current launch."""
        for extent in self._ranges:
            yield from self._storages.get(extent, {}).values()

    def copy(self) -> HashMemory:
        """Return a copy of the hashes, so that they can be restored later."""
        return deepcopy(self)

    def covering(self, start: int, end: int, size: int) -> StoredHashes | None:
        """Return the hashes of the storage that contains a range of addresses."""
        for (low, high), own in self._storages.items():
            if low <= start and end <= high and size in own:
                return own[size]
        return None
