"""Which bytes of tensors were never written: those of `torch.empty` and its relatives.

While a watch is active, memory that torch hands out uninitialised is filled with a pattern. A word
that still holds the pattern was never written, by whatever means: an operator of any thread, the
autograd engine, NumPy, a C library, a kernel. So nothing but the allocation has to be intercepted,
and operators cost nothing. What copies unwritten elements, as `clone` and `cat` do, copies the
pattern. Other memory handed out before the watch, or by what is not listed in `_FACTORIES`, counts
as initialised.

Must not know kernels. What a kernel finds out more exactly, it writes into the shadows itself.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ttools.core.device_map.memory import on_host
from ttools.core.patches import Patches
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.pattern import PATTERN, SHIFTED, WORD, fill, holds_half, unwritten

if TYPE_CHECKING:
    from ttools.sanitizer.memory.pattern import Bytes

#: Smaller storages may hold the pattern by chance, larger ones would take too long to fill.
_SMALLEST, _LARGEST = 4, 1 << 30
#: Storages from this size on are forgotten as soon as another such one is handed out.
_LARGE = 1 << 20
#: Larger storages that were handed out initialised are not searched for copies: it takes time.
_LARGEST_COPY = 1 << 20

_FACTORIES = ("empty", "empty_like", "empty_strided", "empty_permuted")
_METHODS = ("new_empty", "new_empty_strided")


class _Storage:
    """One storage that was handed out uninitialised.

    Attributes:
        shadow: 1 for each byte that is not known to be written; made when first asked for.
    """

    __slots__ = ("first", "nbytes", "reference", "shadow", "start")

    def __init__(self, reference: Any, start: int, nbytes: int, first: int) -> None:
        self.reference, self.start, self.nbytes = reference, start, nbytes
        self.first = first
        self.shadow: Bytes | None = None

    def refresh(self) -> Bytes:
        """The shadow, less what was written since."""
        own = memory(self.start, self.start + self.nbytes)
        kept = unwritten(own)
        if self.shadow is None:
            self.shadow = _all_written(self.nbytes)
            self.shadow[self.first :] = 1
        elif np.greater(self.shadow, kept).any():
            # What a kernel has copied here may begin in the middle of a word.
            kept |= unwritten(own, SHIFTED)
        np.bitwise_and(self.shadow, kept, out=self.shadow)
        return self.shadow


#: By address: a storage, and a copy of its shadow if it had one.
Knowledge: TypeAlias = "dict[int, tuple[_Storage, Bytes | None]]"


class UninitialisedMemory:
    """Watches what torch hands out uninitialised; a context manager that may be nested.

    `shadow_for` is asked before a launch; what it returns may be written to by the kernel, and is
    kept for the next.
    """

    def __init__(self) -> None:
        self._storages: dict[int, _Storage] = {}
        self._lock = threading.RLock()
        self._limit = 64

    def __enter__(self) -> UninitialisedMemory:
        with _watching_lock:
            _PATCHES.__enter__()
            _watching.append(self)
        return self

    def __exit__(self, *raised: Any) -> None:
        with _watching_lock:
            # The innermost that is this one: it may be entered again.
            del _watching[len(_watching) - 1 - _watching[::-1].index(self)]
            _PATCHES.__exit__(*raised)

    def shadow_for(self, start: int, nbytes: int, tensor: Any = None) -> Bytes | None:
        """Which bytes of a storage were never written.

        Args:
            start: its address.
            nbytes: its size.
            tensor: one that it may belong to, to look there for copies of unwritten elements.

        Returns:
            One byte for each, 1 where it was not written, 0 else; aligned to 8 bytes, and written
            through by kernels that store to the storage. None if all is written or nothing known.
        """
        with self._lock:
            storage = self._find(start)
            if storage is None:
                return _copied(start, nbytes, tensor)
            if storage.nbytes != nbytes:
                return None
            shadow = storage.refresh()
            if shadow.any():
                return shadow
            del self._storages[start]
            return None

    def adopt(self, tensor: Any) -> None:
        """Watches a tensor's memory that another watch filled, also one of another process.

        Nothing happens unless it holds the pattern.
        """
        storage = _plain_storage(tensor)
        if storage is None or not _SMALLEST <= storage.nbytes() <= _LARGEST:
            return
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        if unwritten(memory(start, start + nbytes)).any():
            self._remember(storage, start, nbytes, 0)

    def is_watched(self, start: int) -> bool:
        """Whether a storage was handed out uninitialised and may still be so in part.

        Copies of unwritten elements may be stored there unharmed: they stay unwritten.
        """
        with self._lock:
            return self._find(start) is not None

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
                if shadow is not None and storage.shadow is not None:
                    storage.shadow[:] = shadow
                elif shadow is None:
                    storage.shadow = None

    def _find(self, start: int) -> _Storage | None:
        storage = self._storages.get(start)
        if storage is not None and storage.reference.expired():
            del self._storages[start]
            return None
        return storage

    # ---- allocation
    def _watch(self, tensor: Any, first: int = 0) -> None:
        """Fills what a tensor was given from byte `first` on, and remembers its storage."""
        storage = _plain_storage(tensor)
        if storage is None:
            return
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        if not nbytes - first >= _SMALLEST or nbytes > _LARGEST or start == 0:
            return
        fill(start, nbytes, first)
        self._remember(storage, start, nbytes, first)

    def _remember(self, storage: Any, start: int, nbytes: int, first: int) -> None:
        reference = _weak_reference()(storage)
        with self._lock:
            self._storages[start] = _Storage(reference, start, nbytes, first)
            # What is left of a dead storage may keep the allocator from reusing its memory.
            if nbytes >= _LARGE or len(self._storages) > self._limit:
                self._forget_dead()

    def _forget_dead(self) -> None:
        alive = {k: v for k, v in self._storages.items() if not v.reference.expired()}
        self._storages = alive
        self._limit = max(64, 2 * len(alive))

    def _resized(self, tensor: Any, before: tuple[int, int]) -> None:
        """What a storage gained by growing is uninitialised; the rest is as it was."""
        start, nbytes = before
        storage = _plain_storage(tensor)
        if storage is None or storage.nbytes() <= nbytes:
            return
        with self._lock:
            old = self._storages.pop(start, None)
            self._watch(tensor, nbytes)
            new = self._storages.get(int(storage.data_ptr()))
            if new is not None and old is not None and old.nbytes == nbytes:
                new.first = old.first


@functools.lru_cache(maxsize=1)
def _weak_reference() -> Any:
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef


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


def _all_written(nbytes: int) -> Bytes:
    # Kernels address a shadow by words, as they do the storage.
    return np.zeros((nbytes + WORD - 1) // WORD, np.uint64).view(np.uint8)[:nbytes]


def _copied(start: int, nbytes: int, tensor: Any) -> Bytes | None:
    """The shadow of initialised memory of a tensor that holds copies of unwritten elements."""
    if not WORD <= nbytes <= _LARGEST_COPY:
        return None
    storage = _plain_storage(tensor)
    if storage is None or (storage.data_ptr(), storage.nbytes()) != (start, nbytes):
        return None
    held = memory(start, start + nbytes)
    if not holds_half(held):
        return None
    words = held[: nbytes // WORD * WORD].view(np.uint64)
    for pattern in (PATTERN, SHIFTED):
        if (words == np.frombuffer(pattern, np.uint64)[0]).any():
            shadow = _all_written(nbytes)
            shadow[:] = unwritten(held, pattern)
            return shadow
    return None


# ---- torch's functions


#: Those that watch, the innermost last.
_watching: list[UninitialisedMemory] = []
_watching_lock = threading.Lock()


def _install(patches: Patches) -> None:
    import torch

    for name in _FACTORIES:
        patches.wrap(torch, name, _factory)
    for name in _METHODS:
        patches.wrap(torch.Tensor, name, _factory)
    patches.wrap(torch.Tensor, "resize_", _resize)
    patches.wrap(torch.Tensor, "new", _constructor)
    patches.wrap(torch.Tensor, "__new__", lambda new: staticmethod(_constructor(new)))


#: What is replaced in torch while any of them watches.
_PATCHES = Patches(_install)


def _handed_out(tensor: Any) -> None:
    if _watching:
        _watching[-1]._watch(tensor)


def _factory(function: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    @functools.wraps(function)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not torch.compiler.is_compiling() and kwargs.get("out") is None:
            _handed_out(result)
        return result

    return replaced


def _constructor(function: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.Tensor(2, 3)` hands out uninitialised memory, `torch.Tensor([2, 3])` does not."""
    import torch

    @functools.wraps(function)
    def replaced(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(cls, *args, **kwargs)
        if args and not kwargs and all(type(size) in (int, torch.Size) for size in args):
            _handed_out(result)
        return result

    return replaced


def _resize(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def replaced(self: Any, *args: Any, **kwargs: Any) -> Any:
        storage = _plain_storage(self)
        before = (0, 0) if storage is None else (int(storage.data_ptr()), int(storage.nbytes()))
        result = function(self, *args, **kwargs)
        if _watching:
            _watching[-1]._resized(self, before)
        return result

    return replaced
