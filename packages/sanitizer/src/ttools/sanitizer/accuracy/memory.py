"""Shadows of elements in memory, kept from a store to later loads, even in other launches.

An element keeps its shadow while its bytes are those that the kernel stored. If torch or a kernel
that was not followed has changed them, the shadow restarts from the value in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.accuracy.shadow import NOTHING, Numbers, Shadow, exact_type
from ttools.sanitizer.accuracy.sources import Array

Addresses = NDArray[np.int64]
#: Maximum total size of the rows of a storage, in bytes.
_LARGEST = 1 << 28
#: Maximum total size of the storages, other than those of the launch, whose shadows are kept.
_MOST_KEPT = 1 << 28
#: Relative difference up to which two exact values count as the same.
_SAME = 2.0**-40
#: Minimum number of elements for which space is reserved.
_FEW = 256


@dataclass
class _Screened:
    """The exact values of all elements of a storage, from launches that were screened.

    Attributes:
        exact: Exact value of each element; NaN for elements without one.
        words: The bits of each element; if memory contains others, the exact value is not valid.
        launch: Number of the launch that last stored to the storage.
        before: The exact values from before the present launch, if it may load them.
        is_absorbed: True if the shadows of the storage include these exact values.
    """

    exact: Array
    words: Any
    launch: int = 0
    before: Array | None = None
    is_absorbed: bool = False


class StorageShadow:
    """The shadows of the elements of a storage to which a kernel has stored.

    Args:
        start: Address of the storage.
        end: Address after the last byte of the storage.
        dtype: NumPy type of the elements.

    Attributes:
        elements: For each shadow that is kept, the index of its element.
        exact: Exact values of these elements.
        rows: The rows, as in `Shadow`.
        launch: Number of the launch that last stored each element.
        store: For each element, the number of the source of its last store.
        is_full: True if some shadows were dropped because the storage has too many elements.
    """

    def __init__(self, start: int, end: int, dtype: np.dtype[Any]) -> None:
        self.start, self.end, self.dtype = start, end, dtype
        self._word = np.dtype(f"u{dtype.itemsize}")
        self._size = (end - start) // dtype.itemsize
        self.count = 0
        self.is_full = False
        self.elements = np.zeros(0, np.int64)
        self._bits = np.zeros(0, self._word)
        self.exact: Array = np.zeros(0, exact_type(dtype))
        self.rows: Array = np.zeros((0, 0))
        self.origin: Numbers = np.zeros(0, np.int32)
        self.cancelled: Numbers = np.zeros(0, np.int32)
        self.launch: Numbers = np.zeros(0, np.int32)
        self.store: Numbers = np.zeros(0, np.int32)
        self._screened: _Screened | None = None

    @cached_property
    def _slot(self) -> Numbers:
        """The number of each element's shadow, or -1; most storages are only screened."""
        return np.full(self._size, -1, np.int32)

    # ---- exact values that a rewritten kernel loads and stores
    def take_over(self, other: StorageShadow) -> bool:
        """Use the arrays of exact values of a storage that no longer exists, if they fit.

        New arrays of large outputs would take longer than the launch.
        """
        own = other._screened
        if own is None or (other._size, other.dtype) != (self._size, self.dtype):
            return False
        own.exact.fill(np.nan)
        self._screened = _Screened(own.exact, own.words)
        return True

    def begin_screening(self, *, settled_error: float, is_loaded: bool) -> Array:
        """Return the exact value of each element, which the launch may change.

        Args:
            settled_error: Relative error up to which an element counts as an input; 0 for none.
            is_loaded: True if the launch may load from the storage.

        Returns:
            NaN stands for an element without a shadow.
        """
        own = self._screened
        if own is None:
            size = self._size
            own = _Screened(np.full(size, np.nan), np.zeros(size, self._word))
            self._screened = own
        words, exact = self._words(), own.exact
        own.before = None
        if not _are_equal(own.words, words):
            exact[own.words != words] = np.nan
            own.words[:] = words
        if self.count:
            newer = np.flatnonzero(self.launch[: self.count] > own.launch)
            newer = newer[self._bits[newer] == words[self.elements[newer]]]
            exact[self.elements[newer]] = self.exact[newer]
        if is_loaded and self.has_screened():
            if settled_error:
                with np.errstate(all="ignore"):
                    error = np.abs(words.view(self.dtype).astype(np.float64) - exact)
                    exact[error <= settled_error * np.abs(exact)] = np.nan
            own.before = exact.copy()
        return exact

    def has_screened(self) -> bool:
        """Return whether any element has an exact value that `begin_screening` has returned."""
        own = self._screened
        return own is not None and not bool(np.isnan(own.exact).all())

    def end_screening(self, launch: int) -> None:
        """Keep the exact values that a launch has stored to the result of `begin_screening`."""
        own = self._screened
        assert own is not None
        own.words[:] = self._words()
        own.launch, own.is_absorbed = launch, False

    def drop_screening(self) -> None:
        """Restore the exact values from before a launch, or drop all if it loads none of them."""
        own = self._screened
        if own is not None and own.before is not None:
            own.exact[:] = own.before
        else:
            self._screened = None

    def is_stored_by(self, launch: int) -> bool:
        """Return whether a launch that was screened has stored to the storage."""
        return self._screened is not None and self._screened.launch == launch

    def absorb(self) -> None:
        """Make the exact values of screened launches available to launches that are followed."""
        own = self._screened
        if own is None or own.is_absorbed:
            return
        own.is_absorbed = True
        index = np.flatnonzero(~np.isnan(own.exact))
        slots = self._slot[index]
        # Shadows with rows say more than exact values alone.
        has_shadow = (
            (slots >= 0) & (self._bits[slots] == own.words[index]) if self.count else slots >= 0
        )
        if has_shadow.any():
            difference = np.abs(self.exact[slots] - own.exact[index])
            has_shadow &= difference <= _SAME * np.abs(own.exact[index])
        new = index[~has_shadow]
        self._put(new, own.words[new], Shadow(own.exact[new]), own.launch, NOTHING)

    def load(
        self, addresses: Addresses, values: Any = None
    ) -> tuple[NDArray[np.bool_], Shadow] | None:
        """Return which lanes have a shadow, and a shadow that is valid in these lanes.

        Args:
            addresses: Addresses of the lanes, inside the storage.
            values: The values that the lanes have read; by default the present contents of memory.
        """
        index = (addresses - self.start) // self.dtype.itemsize
        slots = self._slot[index]
        has_shadow = slots >= 0
        if not has_shadow.any():
            return None
        slots = np.where(has_shadow, slots, 0)
        words = self._words()[index] if values is None else values.view(self._word)
        has_shadow &= self._bits[slots] == words
        shadow = Shadow(
            self.exact[slots],
            self.rows[:, slots] if len(self.rows) else None,
            self.origin[slots],
            None,
            None,
            self.cancelled[slots],
        )
        return has_shadow, shadow

    def settled(self, addresses: Addresses, launch: int, error: float) -> NDArray[np.bool_]:
        """Return which lanes an earlier launch has stored as accurately as their type allows.

        Args:
            addresses: Addresses of the lanes, which all have shadows.
            launch: Number of the current launch.
            error: The relative error that the type allows.
        """
        slots = self._slot[(addresses - self.start) // self.dtype.itemsize]
        exact = self.exact[slots]
        difference = np.abs(self._bits[slots].view(self.dtype).astype(np.float64) - exact)
        is_accurate = difference <= error * np.abs(exact)
        is_settled: NDArray[np.bool_] = is_accurate & (self.launch[slots] != launch)
        return is_settled

    def store_lanes(self, addresses: Addresses, shadow: Shadow, launch: int, source: int) -> None:
        """Record the shadows of elements that have just been stored.

        Args:
            addresses: One-dimensional addresses of the active lanes, inside the storage.
            shadow: Shadow of these lanes.
            launch: Number of the launch.
            source: Number of the source of the store.
        """
        index = (addresses - self.start) // self.dtype.itemsize
        self._put(index, self._words()[index], shadow, launch, source)

    def _put(self, index: Addresses, words: Any, shadow: Shadow, launch: int, source: int) -> None:
        """Record the shadows of the elements with the given indices, which have the given bits."""
        new = np.unique(index[self._slot[index] < 0])
        rows = 0 if shadow.rows is None else len(shadow.rows)
        if not self._reserve(self.count + len(new), max(rows, len(self.rows))):
            if self._keep_only(launch):
                self._put(index, words, shadow, launch, source)
                return
            self.is_full = True
            self._slot[index] = -1
            return
        self._slot[new] = np.arange(self.count, self.count + len(new))
        self.elements[self.count : self.count + len(new)] = new
        self.count += len(new)
        slots = self._slot[index]
        self._bits[slots] = words
        self.exact[slots] = shadow.exact
        if len(self.rows):
            self.rows[:, slots] = 0.0
            if shadow.rows is not None:
                self.rows[:rows, slots] = shadow.rows
        self.origin[slots] = NOTHING if shadow.origin is None else shadow.origin
        self.cancelled[slots] = NOTHING if shadow.cancelled is None else shadow.cancelled
        self.launch[slots], self.store[slots] = launch, source

    def _keep_only(self, launch: int) -> bool:
        """Drop the shadows that other launches have stored; return whether there are any."""
        keep = np.flatnonzero(self.launch[: self.count] == launch)
        if len(keep) == self.count:
            return False
        self.count = len(keep)
        own = (self.elements, self._bits, self.exact, self.origin, self.cancelled)
        for array in (*own, self.launch, self.store):
            array[: self.count] = array[keep]
        self.rows[:, : self.count] = self.rows[:, keep]
        self._slot[:] = -1
        self._slot[self.elements[: self.count]] = np.arange(self.count)
        return True

    def replace_by_exact(self, launch: int) -> None:
        """Replace what a launch has stored by the exact values, rounded to the type.

        Exact values that are not finite are left out. The shadows remain valid.
        """
        own = np.flatnonzero(self.launch[: self.count] == launch)
        own = own[np.isfinite(self.exact[own])]
        with np.errstate(over="ignore"):
            rounded = self.exact[own].astype(self.dtype).view(self._word)
        self._words()[self.elements[own]] = rounded
        self._bits[own] = rounded

    def actual(self) -> Any:
        """Return the stored values of all elements with shadows, in the type of the storage."""
        return self._bits[: self.count].view(self.dtype)

    def contents(self) -> Any:
        """Return the present values of all elements."""
        return self._words().view(self.dtype)

    def _words(self) -> Any:
        size = self._size * self.dtype.itemsize
        return memory(self.start, self.start + size).view(self._word)

    def _reserve(self, count: int, rows: int) -> bool:
        have = len(self.exact)
        if count > have:
            have = min(max(2 * have, count, _FEW), self._size)
        if have * rows * 8 > _LARGEST:
            return False
        if have > len(self.exact):
            self.elements = _extended(self.elements, have)
            self._bits = _extended(self._bits, have)
            self.exact = _extended(self.exact, have)
            self.origin = _extended(self.origin, have)
            self.cancelled = _extended(self.cancelled, have)
            self.launch = _extended(self.launch, have)
            self.store = _extended(self.store, have)
        if have > self.rows.shape[1] or rows > len(self.rows):
            wider = np.zeros((rows, have))
            wider[: len(self.rows), : self.rows.shape[1]] = self.rows
            self.rows = wider
        return True


class ShadowMemory:
    """The shadows of all memory of a run."""

    def __init__(self) -> None:
        self._storages: dict[tuple[int, int], dict[np.dtype[Any], StorageShadow]] = {}
        self._ranges: list[tuple[int, int]] = []
        self._live: set[tuple[int, int]] = set()
        self._unused: list[StorageShadow] = []

    def begin(
        self,
        ranges: Iterable[tuple[int, int]],
        live: Callable[[], Iterable[tuple[int, int]]] | None = None,
    ) -> None:
        """Begin a launch, whose arguments have the given storages.

        Args:
            ranges: First address and end address of each storage.
            live: Returns the storages that still exist; None if they are not known.
        """
        self._ranges = sorted(set(ranges))
        self._unused.clear()
        # Storages may be unknown, for example copies of GPU memory, so only those are dropped that
        # existed according to `live` at an earlier launch.
        present = set() if live is None else set(live())
        freed = self._live - present
        self._live = present
        total = 0
        for own in reversed(list(self._storages)):
            if own in self._ranges:
                continue
            total += own[1] - own[0]
            is_reused = any(a < own[1] and own[0] < b for a, b in self._ranges)
            if (
                is_reused or own in freed or total > _MOST_KEPT
            ):  # other memory lies there now, or there is too much
                self._unused += self._storages.pop(own).values()

    def find(self, addresses: Addresses, dtype: np.dtype[Any]) -> StorageShadow | None:
        """Return the shadow of the storage that contains all addresses; None if there is none."""
        if not addresses.size or dtype.itemsize > 8:
            return None
        low, high = int(addresses.min()), int(addresses.max())
        for start, end in self._ranges:
            if start <= low and high + dtype.itemsize <= end:
                if ((addresses - start) % dtype.itemsize).any():
                    return None
                return self.of((start, end), dtype)
        return None

    def of(self, extent: tuple[int, int], dtype: np.dtype[Any]) -> StorageShadow:
        """Return the shadow of a storage of the current launch."""
        own = self._storages.setdefault(extent, {})
        if dtype not in own:
            shadow = own[dtype] = StorageShadow(*extent, dtype)
            self._unused = [unused for unused in self._unused if not shadow.take_over(unused)]
        return own[dtype]

    def may_know(self, extent: tuple[int, int], dtype: np.dtype[Any]) -> bool:
        """Return whether elements of a storage may have shadows."""
        own = self._storages.get(extent, {}).get(dtype)
        return own is not None and (own.count > 0 or own.has_screened())

    def storages(self) -> Iterator[StorageShadow]:
        """Yield the shadows of the storages of the current launch."""
        for extent in self._ranges:
            yield from self._storages.get(extent, {}).values()


def _are_equal(first: Any, second: Any) -> bool:
    """Return whether two contiguous arrays are equal, comparing eight bytes at a time."""
    whole = first.nbytes // 8 * 8 // first.itemsize
    parts = (array[:whole].view(np.uint64) for array in (first, second))
    return np.array_equal(*parts) and np.array_equal(first[whole:], second[whole:])


def _extended(array: Any, count: int) -> Any:
    """Return the array with zeros appended, so that it has `count` elements."""
    return np.concatenate([array, np.zeros(count - len(array), array.dtype)])
