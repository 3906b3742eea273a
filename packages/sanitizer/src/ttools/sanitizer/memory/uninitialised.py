"""Which bytes of tensors were never written: of what torch allocates uninitialised.

While a watch is active, memory that torch hands out uninitialised is filled with a pattern. A word
that still holds the pattern was never written, by whatever means: an operator of any thread, the
autograd engine, NumPy, a C library, a kernel. So nothing but the allocation has to be intercepted.
What copies unwritten elements, as `clone` and `cat` do, copies the pattern. Memory handed out
before the watch, or by what does not ask torch's dispatcher (`allocations.py`), counts as
initialised.

Must not know kernels. What a kernel finds out more exactly, it writes into the shadows itself.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ttools.core.device_map.memory import on_host
from ttools.interpreter.runtime.snapshot import memory
from ttools.interpreter.runtime.support.native_offcuts import join_offcuts
from ttools.sanitizer.memory import allocations
from ttools.sanitizer.memory.bystanders import Bystander, Bystanders
from ttools.sanitizer.memory.missing import View, may_be_missing, missing_bytes
from ttools.sanitizer.memory.pattern import (
    NAN_PATTERN,
    PATTERN,
    WORD,
    Grain,
    common,
    fill,
    grain_of,
    holds_half,
    unwritten,
    word_of,
)
from ttools.sanitizer.memory.storages import BareStorage
from ttools.sanitizer.memory.unstored import Logged
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage, all_written

if TYPE_CHECKING:
    from ttools.sanitizer.memory.missing import Bools
    from ttools.sanitizer.memory.pattern import Bytes

#: The part of the free memory that one storage may take for it to be filled, and what always is.
_FREE_PART, _ALWAYS = 4, 1 << 28
#: Storages from this size on are forgotten as soon as another such one is handed out.
_LARGE = 1 << 20
#: Larger storages that were handed out initialised are not searched for copies: it takes time.
_LARGEST_COPY = 1 << 20


#: By address: a storage, and a copy of its shadow if it had one.
Knowledge: TypeAlias = "dict[int, tuple[UnwrittenStorage, Bytes | None]]"


class UninitialisedMemory:
    """Watches what torch hands out uninitialised; a context manager that may be nested.

    `shadow_for` is asked before a launch; what it returns may be written to by the kernel, and is
    kept for the next.

    Args:
        poison: fill the memory of floats with NaN.

    Attributes:
        unfilled: bytes of the largest storage that was too large to be filled, or 0.
        bystanders: what no launch was given.
    """

    def __init__(self, *, poison: bool = False) -> None:
        self.unfilled = 0
        self.bystanders = Bystanders()
        self._poison = poison
        #: Operators, in order, that computed with unwritten elements.
        self._computing: dict[str, None] = {}
        self._storages: dict[int, UnwrittenStorage] = {}
        self._lock = threading.RLock()
        self._limit = 64

    def __enter__(self) -> UninitialisedMemory:
        allocations.watch(self)
        return self

    def __exit__(self, *raised: Any) -> None:
        allocations.unwatch(self)

    def shadow_for(self, start: int, nbytes: int, tensor: Any = None) -> Bytes | None:
        """Which bytes of a storage were never written.

        Args:
            start: its address.
            tensor: one that it may belong to, to look there for copies of unwritten elements.

        Returns:
            One byte for each, 1 where it was not written, 0 else; aligned to 8 bytes, and written
            through by kernels that store to the storage. None if all is written or nothing known.
        """
        with self._lock:
            storage = self._find(start)
            if storage is None:
                return _copied(start, nbytes, tensor, self._pattern_for(tensor))
            if storage.nbytes != nbytes:
                return None
            shadow = storage.refresh(tensor)
            if shadow.any():
                return shadow
            del self._storages[start]
            return None

    @property
    def warnings(self) -> list[str]:
        """What the user should know of what is not followed, a sentence each."""
        sentences = [
            f"torch's `{name}` computed with memory that was never written: what came of it counts "
            "as written"
            for name in self._computing
        ]
        if self.unfilled:
            sentences.append(
                f"memory of {self.unfilled:,} bytes, more than a quarter of what was free, was not "
                "filled: reads of what was never written there are not found"
            )
        return sentences

    def adopt(self, tensor: Any) -> None:
        """Watches a tensor's memory that another watch filled, also one of another process.

        Nothing happens unless it holds the pattern.
        """
        storage = _plain_storage(tensor)
        if storage is None or storage.nbytes() < _smallest(tensor):
            return
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        for pattern in dict.fromkeys([PATTERN, self._pattern_for(tensor)]):
            grain = grain_of(tensor)
            if unwritten(memory(start, start + nbytes), pattern, grain).any():
                self._remember(storage, start, nbytes, 0, pattern, grain)

    def is_watched(self, start: int) -> bool:
        """Whether a storage was handed out uninitialised and may still be so in part.

        Copies of unwritten elements may be stored there unharmed: they stay unwritten.
        """
        with self._lock:
            return self._find(start) is not None

    def pattern_at(self, start: int) -> bytes | None:
        """What marks the unwritten bytes of a storage, if it may have any."""
        with self._lock:
            storage = self._find(start)
            return None if storage is None else storage.pattern

    def grain_at(self, start: int) -> Grain:
        """How much of it tells."""
        with self._lock:
            storage = self._find(start)
            return Grain.WORD if storage is None else storage.grain

    def reference_to(self, start: int) -> Any:
        """Tells whether such a storage is freed (`expired`); None if nothing is known of it."""
        with self._lock:
            storage = self._find(start)
            return None if storage is None else storage.reference

    def mark_whole(self, start: int) -> None:
        """Remembers that all of a storage was found written; unwritten copies may still come."""
        with self._lock:
            storage = self._find(start)
            if storage is not None:
                storage.is_whole = True

    def learn(self, start: int, covered: Bools, left: Bools) -> None:
        """Takes over which of the bytes `covered`, unwritten before a launch, it has left so."""
        with self._lock:
            storage = self._find(start)
            if storage is not None and storage.nbytes == len(covered):
                storage.known()[covered] = left[covered]
                known = storage.logged
                covered = covered if known is None else covered | known.covered
                storage.logged = Logged(covered=covered, left=left)

    def forget_logged(self, start: int | None) -> None:
        """No log tells what is stored now to a storage, or to any if None."""
        with self._lock:
            for each in [start] if start is not None else list(self._storages):
                storage = self._find(each)
                if storage is not None:
                    storage.logged = None

    def logged_at(self, start: int) -> Logged | None:
        """What logs of launches tell of a storage; None if nothing."""
        with self._lock:
            storage = self._find(start)
            return None if storage is None else storage.logged

    def mark_output(self, start: int) -> None:
        """Remembers a storage of which reads of unwritten elements are reported."""
        with self._lock:
            storage = self._find(start)
            if storage is not None:
                storage.is_output = True

    def was_whole(self, start: int) -> bool:
        """Whether all of a storage was found written before."""
        with self._lock:
            storage = self._find(start)
            return storage is not None and storage.is_whole

    def knowledge(self) -> Knowledge:
        """What is known now, to go back to it with `recall`."""
        with self._lock:
            return {
                start: (storage, None if storage.shadow is None else storage.shadow.copy())
                for start, storage in self._storages.items()
            }

    def recall(self, knowledge: Knowledge) -> None:
        """Goes back to what was known; the memory itself must be as it was, too."""
        with self._lock:
            for start, (storage, shadow) in knowledge.items():
                if storage.reference.expired():
                    continue
                if self._storages.setdefault(start, storage) is not storage:
                    continue  # other memory by now
                storage.is_whole, storage.logged = False, None
                if shadow is not None and storage.shadow is not None:
                    storage.shadow[:] = shadow
                elif shadow is None:
                    storage.shadow = None

    def _find(self, start: int) -> UnwrittenStorage | None:
        storage = self._storages.get(start)
        if storage is not None and storage.reference.expired():
            del self._storages[start]
            return None
        return storage

    # ---- allocation
    def _pattern_for(self, tensor: Any) -> bytes:
        """What marks unwritten bytes of a tensor's elements."""
        is_float = self._poison and getattr(
            getattr(tensor, "dtype", None), "is_floating_point", False
        )
        return NAN_PATTERN if is_float else PATTERN

    def allocated(self, tensor: Any, first: int = 0) -> None:
        """Fills the new storage of a tensor of the host from byte `first` on, and remembers it."""
        storage = tensor.untyped_storage()
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        if nbytes - first < _smallest(tensor) or start == 0:
            return
        if nbytes > _ALWAYS and nbytes > _most_filled():
            self.unfilled = max(self.unfilled, nbytes)
            return
        if nbytes >= _LARGE:
            # The same memory again and again stays in the CPU's caches, and is filled faster.
            join_offcuts(start, nbytes)
        pattern = self._pattern_for(tensor)
        fill(start, nbytes, first, pattern)
        reference = self._remember(storage, start, nbytes, first, pattern, grain_of(tensor))
        if not first and not isinstance(tensor, BareStorage):
            self.bystanders.add(Bystander(reference, start, nbytes, int(tensor.numel()), pattern))

    def _remember(
        self, storage: Any, start: int, nbytes: int, first: int, pattern: bytes, grain: Grain
    ) -> Any:
        reference = _weak_reference()(storage)
        with self._lock:
            self._storages[start] = UnwrittenStorage(
                reference, start, nbytes, first, pattern, grain
            )
            # What is left of a dead storage may keep the allocator from reusing its memory.
            if nbytes >= _LARGE or len(self._storages) > self._limit:
                self._forget_dead()
        return reference

    def _forget_dead(self) -> None:
        alive = {k: v for k, v in self._storages.items() if not v.reference.expired()}
        self._storages = alive
        self._limit = max(64, 2 * len(alive))

    def grown(self, tensor: Any, start: int, nbytes: int) -> None:
        """What a tensor's storage gained by growing is uninitialised; the rest is as it was.

        Args:
            tensor: as it is now.
            start: its address before.
            nbytes: its size before.
        """
        with self._lock:
            old = self._storages.pop(start, None)
            self.allocated(tensor, nbytes)
            new = self._storages.get(int(tensor.untyped_storage().data_ptr()))
            if new is not None and old is not None and old.nbytes == nbytes:
                new.first = old.first

    # ---- what operators make of unwritten elements
    def copied(self, tensor: Any, sources: Sequence[Any]) -> None:
        """Watches a new tensor that may hold copies of unwritten elements."""
        if any(self._unwritten_in(source) is not None for source in sources):
            self.adopt(tensor)

    def converted(self, tensor: Any, source: Any) -> None:
        """Takes elements as unwritten that are unwritten ones in another type.

        They are filled with the pattern anew, which is as good as any value.
        """
        marks = self._unwritten_in(source)
        storage = _plain_storage(tensor)
        if marks is None or storage is None or tensor.element_size() < 2:
            return
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        own, view = memory(start, start + nbytes), View.of(tensor)
        watched = self.pattern_at(start)
        pattern = watched or self._pattern_for(tensor)
        elements = view.elements(own)
        elements[np.broadcast_to(marks, view.shape)] = np.frombuffer(
            (pattern * 2)[: view.item], np.uint8
        )
        if watched is None:
            self.adopt(tensor)

    def computed(self, name: str, sources: Sequence[Any]) -> None:
        """Notes that an operator has computed with unwritten elements."""
        unwritten = (source for source in sources if self._unwritten_in(source) is not None)
        if any(not self._is_output(source) for source in unwritten):
            self._computing[name] = None

    def _is_output(self, tensor: Any) -> bool:
        storage = _plain_storage(tensor)
        known = None if storage is None else self._find(int(storage.data_ptr()))
        return known is not None and known.is_output

    def _unwritten_in(self, tensor: Any) -> Bools | None:
        """Which elements of a tensor are unwritten; None if none is."""
        storage = _plain_storage(tensor) if self._storages else None
        if storage is None or not tensor.numel():
            return None
        start, view = int(storage.data_ptr()), View.of(tensor)
        pattern = self.pattern_at(start)
        if pattern is None or view.end > storage.nbytes():
            return None
        own = memory(start, start + view.end)
        if not may_be_missing(own[view.offset & ~1 :], pattern, view.grain):
            return None
        grain = common(self.grain_at(start), view.grain)
        cells, logged = missing_bytes(own, view.item, pattern, grain), self.logged_at(start)
        if logged is not None:
            cells &= ~logged.covered[: view.end] | logged.left[: view.end]
        marks = view.marked(cells)
        return marks if marks.any() else None


@functools.lru_cache(maxsize=1)
def _weak_reference() -> Any:
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef


def _smallest(tensor: Any) -> int:
    """How many bytes a storage has at least: a byte may hold the pattern by chance."""
    return 1 if grain_of(tensor) is Grain.BYTE else 2


def _plain_storage(tensor: Any) -> Any:
    """The storage of an ordinary tensor in the host's memory; None for any other."""
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_quantized:
        return None
    try:
        storage = tensor.untyped_storage()
        return storage if on_host(storage) else None
    except (NotImplementedError, RuntimeError):
        return None  # sparse tensors and wrappers have none


def _most_filled() -> int:
    """How large a storage may be for all its pages to be used, which torch alone would not do."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _FREE_PART


def _copied(start: int, nbytes: int, tensor: Any, pattern: bytes) -> Bytes | None:
    """The shadow of initialised memory of a tensor that holds copies of unwritten elements."""
    if not WORD <= nbytes <= _LARGEST_COPY:
        return None
    storage = _plain_storage(tensor)
    if storage is None or (storage.data_ptr(), storage.nbytes()) != (start, nbytes):
        return None
    held = memory(start, start + nbytes)
    if not holds_half(held, pattern):
        return None
    words = held[: nbytes // WORD * WORD].view(np.uint64)
    if not (words == word_of(pattern)).any():
        return None
    shadow = all_written(nbytes)
    shadow[:] = unwritten(held, pattern)
    return shadow
