"""Which bytes of tensors were never written: of what torch allocates uninitialised.

While a watch is active, memory that torch hands out uninitialised is filled with a word that is
drawn for the storage (`pattern.py`). Bytes that still hold it may be unwritten, by whatever means
others are written: an operator of any thread, the autograd engine, NumPy, a C library, a kernel.
So little but the allocation has to be intercepted. Which of these candidates are certain,
`evidence.py` decides. Copies that operators of torch make of unwritten elements (`clone`, `cat`…)
are followed element by element. Memory handed out before the watch, or by what does not ask torch's
dispatcher (`allocations.py`), counts as initialised.

What a kernel finds out more exactly, it writes into the shadows itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ttools.interpreter.runtime.support.native_offcuts import join_offcuts
from ttools.sanitizer.memory import allocations
from ttools.sanitizer.memory.bystanders import Bystander, Bystanders
from ttools.sanitizer.memory.device_storages import filled_on_device
from ttools.sanitizer.memory.host_storages import (
    filled_elsewhere,
    most_filled,
    plain_storage,
    smallest,
    weak_reference,
)
from ttools.sanitizer.memory.missing import View
from ttools.sanitizer.memory.pattern import (
    HALF,
    Grain,
    fill,
    grain_of,
    new_word,
)
from ttools.sanitizer.memory.storages import BareStorage
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

if TYPE_CHECKING:
    from ttools.sanitizer.memory.missing import Bools
    from ttools.sanitizer.memory.pattern import Bytes

#: Storages of at most this many bytes are always filled, however little memory is free.
_ALWAYS = 1 << 28
#: Storages from this size on are forgotten as soon as another such one is handed out.
_LARGE = 1 << 20

#: By address: a storage, copies of its shadow and content if it had any, and whether it was whole.
Knowledge: TypeAlias = "dict[int, tuple[UnwrittenStorage, Bytes | None, Bytes | None, bool]]"


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
        # The same words in each run: what a defective program computes with them stays the same.
        self._random = Random(0)
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

    def shadow_for(self, start: int, nbytes: int) -> Bytes | None:
        """Return which bytes of a storage were certainly never written.

        Args:
            start: Address of the storage.
            nbytes: Size of the storage.

        Returns:
            One byte for each, 1 where it was not written, 0 else; aligned to 8 bytes, and written
            through by kernels that store to the storage. None if all is written or nothing known.
        """
        with self._lock:
            storage = self._find(start)
            if storage is None or storage.nbytes != nbytes:
                return None
            if not storage.suspects(0, nbytes):
                storage.write_all()
                return None
            # What is shorter than half a word may be a number that the program has put there.
            if nbytes < HALF and storage.shadow is None and storage.grain is not Grain.BYTE:
                return None
            shadow = storage.refresh()
            if shadow.any():
                return shadow
            storage.write_all()
            return None

    def carrier_shadow(self, start: int, nbytes: int) -> Bytes | None:
        """Return the shadow of a storage that may receive copies; None if it is not watched."""
        with self._lock:
            storage = self._find(start)
            if storage is None or storage.nbytes != nbytes:
                return None
            return storage.refresh()

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
        """Watch a tensor's memory that another watch filled, also one of another process.

        Nothing happens unless it holds a word that marks unwritten memory.
        """
        with self._lock:
            if (found := filled_elsewhere(tensor)) is not None:
                self.put(found)

    def is_watched(self, start: int) -> bool:
        """Return whether a storage may be unwritten in part; copies stored there then stay so."""
        with self._lock:
            return self._find(start) is not None

    def find(self, start: int) -> UnwrittenStorage | None:
        """Return what is known of the storage at an address; None if it is not watched."""
        with self._lock:
            return self._find(start)

    def left(self, start: int) -> Bools | None:
        """Return which bytes of a storage are certainly unwritten; None if none is."""
        with self._lock:
            storage = self._find(start)
            if storage is None or not storage.suspects(0, storage.nbytes):
                return None
            return storage.refresh().view(np.bool_)

    def reference_to(self, start: int) -> Any:
        """Tells whether such a storage is freed (`expired`); None if nothing is known of it."""
        with self._lock:
            storage = self._find(start)
            return None if storage is None else storage.reference

    def mark_output(self, start: int) -> None:
        """Remembers a storage of which reads of unwritten elements are reported."""
        with self._lock:
            storage = self._find(start)
            if storage is not None:
                storage.is_output = True

    def knowledge(self) -> Knowledge:
        """Return what is known now, to go back to it with `recall`."""

        def copied(of: Bytes | None) -> Bytes | None:
            return None if of is None else of.copy()

        with self._lock:
            return {
                start: (each, copied(each.shadow), copied(each.content), each.is_whole)
                for start, each in self._storages.items()
            }

    def recall(self, knowledge: Knowledge) -> None:
        """Go back to what was known; the memory itself must be as it was, too."""
        with self._lock:
            for start, (storage, shadow, content, is_whole) in knowledge.items():
                if storage.reference.expired():
                    continue
                if self._storages.setdefault(start, storage) is not storage:
                    continue  # other memory by now
                storage.is_whole = is_whole
                storage.content = None if content is None else content.copy()
                storage.shadow = None
                if shadow is not None:
                    storage.known()[:] = shadow

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
        """Fill the new storage of a tensor of the host from byte `first` on, and remember it.

        Args:
            tensor: A tensor of the storage, or a `BareStorage`.
            first: The bytes before it are as they were.
            pattern: The word to fill it with; a new one by default.
        """
        storage = tensor.untyped_storage()
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        if nbytes - first < smallest(tensor) or start == 0:
            return
        if nbytes > _ALWAYS and nbytes > most_filled():
            self.unfilled = max(self.unfilled, nbytes)
            return
        if nbytes >= _LARGE:
            # The same memory again and again stays in the CPU's caches, and is filled faster.
            join_offcuts(start, nbytes)
        pattern = pattern or self.new_pattern(tensor)
        fill(start, nbytes, first, pattern)
        reference = self._remember(
            storage, start, nbytes, first, pattern, grain_of(tensor)
        ).reference
        if not first and not isinstance(tensor, BareStorage):
            self.bystanders.add(Bystander(reference, start, nbytes, int(tensor.numel()), pattern))

    def _remember(
        self, storage: Any, start: int, nbytes: int, first: int, pattern: bytes, grain: Grain
    ) -> UnwrittenStorage:
        known = UnwrittenStorage(weak_reference()(storage), start, nbytes, first, pattern, grain)
        self.put(known)
        return known

    def put(self, storage: UnwrittenStorage) -> None:
        """Watch a storage."""
        with self._lock:
            self._storages[storage.start] = storage
            # What is left of a dead storage may keep the allocator from reusing its memory.
            if storage.nbytes >= _LARGE or len(self._storages) > self._limit:
                self._forget_dead()

    def take_away(self, start: int) -> None:
        """Watch the storage at an address no longer."""
        with self._lock:
            self._storages.pop(start, None)

    def allocated_on_device(self, tensor: Any) -> None:
        """Fill the new storage of a tensor on a GPU, and remember it."""
        if (storage := filled_on_device(tensor, self.new_pattern)) is not None:
            self.put(storage)

    def _forget_dead(self) -> None:
        alive = {k: v for k, v in self._storages.items() if not v.reference.expired()}
        self._storages = alive
        self._limit = max(64, 2 * len(alive))

    def grown(self, tensor: Any, start: int, nbytes: int) -> None:
        """Take what a tensor's storage gained by growing as uninitialised; the rest is as it was.

        Args:
            tensor: The tensor as it is now.
            start: Address of its storage before.
            nbytes: Size of its storage before.
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
                new.known()[:nbytes] = old.shadow

    # ---- what operators do to elements
    def written(self, tensor: Any) -> None:
        """Note that an operator has written all elements of a tensor."""
        with self._lock:
            known = self._known_of(tensor)
            if known is not None:
                known.write(tensor)

    def written_some(self, tensor: Any, again: Callable[[Any], None]) -> None:
        """Note that an operator has written some elements of a tensor; see `allocations`."""
        known = self._known_of(tensor)
        if known is None or not known.remembers_writes:
            return
        import torch

        marks = torch.ones(tensor.shape, dtype=torch.bool, device="cpu")
        try:
            again(marks)
        except Exception:  # noqa: BLE001 - as if nobody had seen the writer
            return
        with self._lock:
            known.write_some(tensor, ~marks.numpy())

    def _known_of(self, tensor: Any) -> UnwrittenStorage | None:
        """Return what is known of a tensor's storage; None if nothing of it may be unwritten."""
        storage = plain_storage(tensor) if self._storages else None
        if storage is None or not tensor.numel():
            return None
        known = self._find(int(storage.data_ptr()))
        return known if known is not None and known.may_be_unwritten else None

    def assigned(self, tensor: Any, source: Any) -> None:
        """Note that elements of a tensor were copied to another, of any type."""
        if not self._storages:
            return
        marks = self._unwritten_in(source)
        self.written(tensor)
        if marks is not None:
            self._copied_to(tensor, marks)

    def copied(
        self, tensor: Any, sources: Sequence[Any], again: Callable[[Sequence[Any]], Any]
    ) -> None:
        """Follow unwritten elements into a new tensor that holds some elements of others.

        Args:
            tensor: The new one.
            sources: Where its elements come from.
            again: Makes a tensor of others in the place of the sources in the same way.
        """
        found = [self._unwritten_in(source) for source in sources]
        if all(marks is None for marks in found):
            return
        import torch

        marks = [
            torch.zeros(source.shape, dtype=torch.bool, device="cpu")
            if marks is None
            else torch.from_numpy(marks.copy())
            for source, marks in zip(sources, found, strict=True)
        ]
        chosen = again(marks).numpy()
        if chosen.any():
            self._copied_to(tensor, chosen)

    def _copied_to(self, tensor: Any, marks: Bools) -> None:
        """Take marked elements of a tensor as unwritten."""
        storage = plain_storage(tensor)
        if storage is None:
            return
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        with self._lock:
            known = self._find(start)
            if known is None:
                pattern = self.new_pattern(tensor)
                known = self._remember(storage, start, nbytes, 0, pattern, grain_of(tensor))
                known.write_all()
            poisoned = self._poison and tensor.is_floating_point()
            known.copy_to(tensor, marks, self.new_pattern(tensor) if poisoned else b"")

    def computed(self, name: str, sources: Sequence[Any]) -> None:
        """Notes that an operator has computed with unwritten elements."""
        unwritten = (source for source in sources if self._unwritten_in(source) is not None)
        if any(not self._is_output(source) for source in unwritten):
            self._computing[name] = None

    def _is_output(self, tensor: Any) -> bool:
        storage = plain_storage(tensor)
        known = None if storage is None else self._find(int(storage.data_ptr()))
        return known is not None and known.is_output

    def _unwritten_in(self, tensor: Any) -> Bools | None:
        """Return which elements of a tensor are unwritten; None if none is."""
        with self._lock:
            known = self._known_of(tensor)
            if known is None:
                return None
            view = View.of(tensor)
            if view.end > known.nbytes or not known.suspects(view.offset, view.end):
                return None
            marks = view.marked(known.refresh().view(np.bool_))
        return marks if marks.any() else None
