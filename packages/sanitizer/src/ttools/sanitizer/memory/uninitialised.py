"""The bytes of tensors that were never written, in memory that torch allocates uninitialised.

While a watch is active, each uninitialised storage is filled with its own random word
(`pattern.py`). Bytes that still contain this word may be unwritten, regardless of what wrote the
other bytes: an operator in any thread, the autograd engine, NumPy, a C library or a kernel.
Therefore, little has to be intercepted besides allocations. `evidence.py` decides which of these
candidates are certain. Copies of unwritten elements by operators of torch (`clone`, `cat`…) are
followed element by element. Memory allocated before the watch, or without torch's dispatcher
(`allocations.py`), counts as initialised.

Kernels update the shadows of the memory that they access themselves.
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ttools.core.spec import view_spec
from ttools.interpreter.runtime.support.native_aligned_memory import join_remainders
from ttools.sanitizer.memory import allocations
from ttools.sanitizer.memory.allocations import BareStorage
from ttools.sanitizer.memory.device_storages import filled_on_device
from ttools.sanitizer.memory.host_storages import (
    filled_elsewhere,
    most_filled,
    plain_storage,
    smallest,
    weak_reference,
)
from ttools.sanitizer.memory.pattern import (
    HALF,
    WORD,
    Grain,
    fill,
    grain_of,
    new_word,
)
from ttools.sanitizer.memory.unwritten_elements import marked_elements
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

if TYPE_CHECKING:
    from ttools.sanitizer.memory.pattern import Bytes
    from ttools.sanitizer.memory.unwritten_elements import Bools

#: Storages of at most this many bytes are filled even if little memory is free.
_ALWAYS = 1 << 28
#: Records of freed storages of at least this size are dropped as soon as another storage is
#: allocated.
_LARGE = 1 << 20

#: Maps the address of a storage to the storage, copies of its shadow and content if there are any,
#: and `is_whole`.
MemoryState: TypeAlias = "dict[int, tuple[UnwrittenStorage, Bytes | None, Bytes | None, bool]]"


class UninitialisedMemory:
    """Tracks memory that torch allocates uninitialised; a context manager that may be nested.

    `shadow_for` is called before a launch. The kernel may write to the shadow that it returns, and
    the shadow is kept for the next launch.

    Args:
        poison: If True, the memory of floats is filled with NaN.

    Attributes:
        unfilled: Size in bytes of the largest storage that was too large to be filled, or 0.
        untouched: Storages that were passed to no launch.
    """

    def __init__(self, *, poison: bool = False) -> None:
        self.unfilled = 0
        self.untouched = UntouchedStorages()
        self._poison = poison
        # The seed is constant, so that a defective program computes the same results in each run.
        self._random = Random(0)
        #: Names of operators that computed with unwritten elements, in order of first use.
        self._computing: dict[str, None] = {}
        self._storages: dict[int, UnwrittenStorage] = {}
        self._lock = threading.RLock()
        self._limit = 64

    def __enter__(self) -> UninitialisedMemory:
        allocations.watch(self)
        return self

    def __exit__(self, *raised: Any) -> None:
        allocations.unwatch(self)

    def shadow_for(self, start: int, nbytes: int) -> Bytes | None:
        """Return which bytes of a storage were certainly never written.

        Args:
            start: Address of the storage.
            nbytes: Size of the storage.

        Returns:
            An array with one byte for each byte of the storage, which is 1 if the byte was never
            written, else 0. The array is aligned to 8 bytes, and kernels that store to the storage
            update it. None if all bytes are written or nothing is known.
        """
        with self._lock:
            storage = self._find(start)
            if storage is None or storage.nbytes != nbytes:
                return None
            if not storage.suspects(0, nbytes):
                storage.write_all()
                return None
            # If a storage has less than half a word, its contents may be a number that the program
            # has stored.
            if nbytes < HALF and storage.shadow is None and storage.grain is not Grain.BYTE:
                return None
            shadow = storage.refresh()
            if shadow.any():
                return shadow
            storage.write_all()
            return None

    def carrier_shadow(self, start: int, nbytes: int) -> Bytes | None:
        """Return the shadow of a storage to which copies may be stored; None if unwatched."""
        with self._lock:
            storage = self._find(start)
            if storage is None or storage.nbytes != nbytes:
                return None
            return storage.refresh()

    @property
    def warnings(self) -> list[str]:
        """Return a sentence for each kind of memory or operator that is not tracked."""
        sentences = [
            f"torch's `{name}` computed with memory that was never written: its results are "
            "treated as written"
            for name in self._computing
        ]
        if self.unfilled:
            sentences.append(
                f"{self.unfilled:,} bytes of memory, more than a quarter of the free memory, were "
                "not filled: reads of unwritten elements there are not detected"
            )
        return sentences

    def adopt(self, tensor: Any) -> None:
        """Watch a tensor's memory that another watch, perhaps in another process, has filled.

        Nothing happens unless the memory holds a word that marks unwritten memory.
        """
        with self._lock:
            if (storage := filled_elsewhere(tensor)) is not None:
                self.put(storage)

    def is_watched(self, start: int) -> bool:
        """Return whether a storage may have unwritten bytes.

        Copies of unwritten bytes that are stored in such a storage are tracked.
        """
        with self._lock:
            return self._find(start) is not None

    def find(self, start: int) -> UnwrittenStorage | None:
        """Return the record of the storage at an address; None if it is not watched."""
        with self._lock:
            return self._find(start)

    def unwritten_bytes(self, start: int) -> Bools | None:
        """Return which bytes of a storage are certainly unwritten; None if there are none."""
        with self._lock:
            storage = self._find(start)
            if storage is None or not storage.suspects(0, storage.nbytes):
                return None
            return storage.refresh().view(np.bool_)

    def mark_output(self, start: int) -> None:
        """Mark a storage whose unwritten elements are reported when they are read."""
        with self._lock:
            storage = self._find(start)
            if storage is not None:
                storage.is_output = True

    def state(self) -> MemoryState:
        """Return the current state, for `restore`."""

        def copied(of: Bytes | None) -> Bytes | None:
            return None if of is None else of.copy()

        with self._lock:
            return {
                start: (storage, copied(storage.shadow), copied(storage.content), storage.is_whole)
                for start, storage in self._storages.items()
            }

    def restore(self, state: MemoryState) -> None:
        """Return to an earlier state; the caller must also restore the memory itself."""
        with self._lock:
            for start, (storage, shadow, content, is_whole) in state.items():
                if storage.reference.expired():
                    continue
                if self._storages.setdefault(start, storage) is not storage:
                    continue  # the address belongs to another storage now
                storage.is_whole = is_whole
                storage.content = None if content is None else content.copy()
                storage.shadow = None
                if shadow is not None:
                    storage.ensure_shadow()[:] = shadow

    def _find(self, start: int) -> UnwrittenStorage | None:
        storage = self._storages.get(start)
        if storage is not None and storage.reference.expired():
            del self._storages[start]
            return None
        return storage

    # ---- allocation
    def new_pattern(self, tensor: Any) -> bytes:
        """Return a word to mark unwritten bytes of a tensor's elements."""
        is_float = getattr(getattr(tensor, "dtype", None), "is_floating_point", False)
        return new_word(self._random, poison=self._poison and bool(is_float))

    def allocated(self, tensor: Any, first: int = 0, pattern: bytes = b"") -> None:
        """Fill the new storage of a tensor on the host from byte `first` on, and watch it.

        Args:
            tensor: A tensor of the storage, or a `BareStorage`.
            first: Number of bytes at the start of the storage that are not new.
            pattern: The word with which the storage is filled; by default a new word.
        """
        storage = tensor.untyped_storage()
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        if nbytes - first < smallest(tensor) or start == 0:
            return
        if nbytes > _ALWAYS and nbytes > most_filled():
            self.unfilled = max(self.unfilled, nbytes)
            return
        if nbytes >= _LARGE:
            # Memory that is reused stays in the CPU's caches, so it is filled faster.
            join_remainders(start, nbytes)
        pattern = pattern or self.new_pattern(tensor)
        fill(start, nbytes, first, pattern)
        reference = self._remember(
            storage, start, nbytes, first, pattern, grain_of(tensor)
        ).reference
        if not first and not isinstance(tensor, BareStorage):
            self.untouched.add(
                UntouchedStorage(reference, start, nbytes, int(tensor.numel()), pattern)
            )

    def _remember(
        self, storage: Any, start: int, nbytes: int, first: int, pattern: bytes, grain: Grain
    ) -> UnwrittenStorage:
        unwritten = UnwrittenStorage(
            weak_reference()(storage), start, nbytes, first, pattern, grain
        )
        self.put(unwritten)
        return unwritten

    def put(self, storage: UnwrittenStorage) -> None:
        """Watch a storage."""
        with self._lock:
            self._storages[storage.start] = storage
            # The record of a dead storage may keep the allocator from reusing its memory.
            if storage.nbytes >= _LARGE or len(self._storages) > self._limit:
                self._forget_dead()

    def take_away(self, start: int) -> None:
        """Stop watching the storage at an address."""
        with self._lock:
            self._storages.pop(start, None)

    def allocated_on_device(self, tensor: Any) -> None:
        """Fill the new storage of a tensor on a GPU, and watch it."""
        if (storage := filled_on_device(tensor, self.new_pattern)) is not None:
            self.put(storage)

    def _forget_dead(self) -> None:
        alive = {k: v for k, v in self._storages.items() if not v.reference.expired()}
        self._storages = alive
        self._limit = max(64, 2 * len(alive))

    def grown(self, tensor: Any, start: int, nbytes: int) -> None:
        """Treat the part that a tensor's storage gained by growing as uninitialised.

        Args:
            tensor: The tensor after its storage has grown.
            start: Former address of its storage.
            nbytes: Former size of its storage.
        """
        with self._lock:
            old = self._storages.pop(start, None)
            if old is not None and (old.nbytes != nbytes or old.content is not None):
                old = None
            self.allocated(tensor, nbytes, b"" if old is None else old.pattern)
            new = self._storages.get(int(tensor.untyped_storage().data_ptr()))
            if new is None or old is None or not old.may_be_unwritten:
                return
            if old.shadow is None:
                new.first = old.first
            else:
                new.ensure_shadow()[:nbytes] = old.shadow

    # ---- what operators do to elements
    def written(self, tensor: Any) -> None:
        """Record that an operator has written all elements of a tensor."""
        with self._lock:
            storage = self._storage_of(tensor)
            if storage is not None:
                storage.write(tensor)

    def written_some(self, tensor: Any, again: Callable[[Any], None]) -> None:
        """Record that an operator has written some elements of a tensor; see `allocations`."""
        storage = self._storage_of(tensor)
        if storage is None or not storage.remembers_writes:
            return
        import torch

        marks = torch.ones(tensor.shape, dtype=torch.bool, device="cpu")
        try:
            again(marks)
        except Exception:  # noqa: BLE001 - then the writer counts as unobserved
            return
        with self._lock:
            storage.write_some(tensor, ~marks.numpy())

    def _storage_of(self, tensor: Any) -> UnwrittenStorage | None:
        """Return the record of a tensor's storage; None if the whole storage has been written."""
        storage = plain_storage(tensor) if self._storages else None
        if storage is None or not tensor.numel():
            return None
        unwritten = self._find(int(storage.data_ptr()))
        return unwritten if unwritten is not None and unwritten.may_be_unwritten else None

    def assigned(self, tensor: Any, source: Any) -> None:
        """Record that elements of a tensor were copied to another, possibly of another type."""
        if not self._storages:
            return
        marks = self._unwritten_in(source)
        self.written(tensor)
        if marks is not None:
            self._copied_to(tensor, marks)

    def copied(
        self, tensor: Any, sources: Sequence[Any], again: Callable[[Sequence[Any]], Any]
    ) -> None:
        """Mark the unwritten elements of a new tensor that an operator copied from other tensors.

        Args:
            sources: Operands of the operator.
            again: Applies the same operator to other tensors.
        """
        unwritten = [self._unwritten_in(source) for source in sources]
        if all(marks is None for marks in unwritten):
            return
        import torch

        marks = [
            torch.zeros(source.shape, dtype=torch.bool, device="cpu")
            if marks is None
            else torch.from_numpy(marks.copy())
            for source, marks in zip(sources, unwritten, strict=True)
        ]
        chosen = again(marks).numpy()
        if chosen.any():
            self._copied_to(tensor, chosen)

    def _copied_to(self, tensor: Any, marks: Bools) -> None:
        """Treat marked elements of a tensor as unwritten."""
        storage = plain_storage(tensor)
        if storage is None:
            return
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        with self._lock:
            unwritten = self._find(start)
            if unwritten is None:
                pattern = self.new_pattern(tensor)
                unwritten = self._remember(storage, start, nbytes, 0, pattern, grain_of(tensor))
                unwritten.write_all()
            poisoned = self._poison and tensor.is_floating_point()
            unwritten.copy_to(tensor, marks, self.new_pattern(tensor) if poisoned else b"")

    def computed(self, name: str, sources: Sequence[Any]) -> None:
        """Record that an operator has computed with unwritten elements."""
        unwritten = (source for source in sources if self._unwritten_in(source) is not None)
        if any(not self._is_output(source) for source in unwritten):
            self._computing[name] = None

    def _is_output(self, tensor: Any) -> bool:
        storage = plain_storage(tensor)
        unwritten = None if storage is None else self._find(int(storage.data_ptr()))
        return unwritten is not None and unwritten.is_output

    def _unwritten_in(self, tensor: Any) -> Bools | None:
        """Return which elements of a tensor are unwritten; None if all are written."""
        with self._lock:
            unwritten = self._storage_of(tensor)
            if unwritten is None:
                return None
            view = view_spec(tensor)
            if view.span[1] > unwritten.nbytes or not unwritten.suspects(view.offset, view.span[1]):
                return None
            marks = marked_elements(view, unwritten.refresh().view(np.bool_))
        return marks if marks.any() else None


@dataclass(slots=True, eq=False)  # made for each allocation; frozen dataclasses take longer
class UntouchedStorage:
    """A storage that was allocated uninitialised and not passed to a launch.

    Attributes:
        reference: A weak reference; its `expired` returns whether the storage was freed.
        start: Address of the storage.
        nbytes: Size of the storage.
        count: Number of elements for which it was allocated.
        pattern: The word with which it was filled.
    """

    reference: Any
    start: int
    nbytes: int
    count: int
    pattern: bytes

    @property
    def is_left(self) -> bool:
        """Return whether the storage is alive and its first word is unchanged."""
        if self.reference.expired():
            return False
        return ctypes.string_at(self.start, WORD) == self.pattern


class UntouchedStorages:
    """Storages that were allocated uninitialised, not passed to a launch, and not written.

    If the host reads a tensor in such a storage, and a launch has an output with as many elements,
    the program has probably read the wrong tensor: for example, a tensor instead of the copy that
    `contiguous()` made of it, or the wrong one of several buffers.
    """

    def __init__(self) -> None:
        self._storages: dict[int, UntouchedStorage] = {}
        self._by_count: defaultdict[int, dict[int, UntouchedStorage]] = defaultdict(dict)
        self._limit = 64
        self._lock = threading.Lock()

    def add(self, storage: UntouchedStorage) -> None:
        if storage.nbytes < WORD:
            return
        with self._lock:
            self._drop(storage.start)
            self._storages[storage.start] = storage
            self._by_count[storage.count][storage.start] = storage
            if len(self._storages) > self._limit:
                for other in list(self._storages.values()):
                    if not other.is_left:
                        self._drop(other.start)
                self._limit = max(64, 2 * len(self._storages))

    def remove(self, starts: Iterable[int]) -> None:
        """Remove the storages at these addresses, because they were passed to a launch."""
        if self._storages:
            with self._lock:
                for start in starts:
                    self._drop(start)

    def of(self, count: int) -> list[UntouchedStorage]:
        """Return the storages that were allocated for `count` elements."""
        if count not in self._by_count:
            return []
        with self._lock:
            for storage in list(self._by_count.get(count, {}).values()):
                if not storage.is_left:
                    self._drop(storage.start)
            return list(self._by_count.get(count, {}).values())

    def _drop(self, start: int) -> None:
        storage = self._storages.pop(start, None)
        if storage is not None:
            same = self._by_count[storage.count]
            del same[start]
            if not same:
                del self._by_count[storage.count]
