"""Sees the memory that torch allocates uninitialised, beneath everything that a program can name.

Every allocation of a tensor that does not fill it comes to a few operators of torch's dispatcher.
While somebody watches, their kernels are replaced by ones that call them and tell of the result.
So functions of torch are what they were to TorchScript, `torch.compile`, pickles and `is`, and the
temporaries and results of composed operators are seen as well as `torch.empty`. Not seen are
results of operators that fill what they allocate themselves, and storages made without a tensor.

Must not know what is done with the memory.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, Protocol

_ALLOCATING = ("empty.memory_format", "empty_strided")
_GROWING = "resize_"


class Watcher(Protocol):
    """Who is told of memory; from any thread."""

    def allocated(self, storage: Any, first: int = 0) -> None:
        """A storage of the host was made, uninitialised from byte `first` on."""

    def grown(self, storage: Any, start: int, nbytes: int) -> None:
        """A storage that had `nbytes` at address `start` became larger."""


_watchers: list[Watcher] = []
_lock = threading.Lock()
_library: Any = None


def watch(watcher: Watcher) -> None:
    """Tells a watcher of all that is allocated, and no other one, until it or another comes."""
    global _library
    with _lock:
        if not _watchers:
            _library = _replaced_kernels()
        _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    """Takes the last `watch` of this watcher back."""
    global _library
    with _lock:
        del _watchers[len(_watchers) - 1 - _watchers[::-1].index(watcher)]
        if not _watchers:
            _library._destroy()
            _library = None


def _replaced_kernels() -> Any:
    """The library that holds the replacements; they are gone when it is destroyed."""
    import torch

    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        # Of an overridden kernel, once in a process.
        warnings.simplefilter("ignore", UserWarning)
        for name in _ALLOCATING:
            _replace(library, name, _allocating)
        _replace(library, _GROWING, _growing)
    return library


def _replace(library: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    import torch

    kernel = torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed
    library.impl(name, make(kernel), "CPU", with_keyset=True, allow_override=True)


def _allocating(kernel: Any) -> Callable[..., Any]:
    import torch

    def allocate(keys: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = kernel(keys, *args, **kwargs)
        if _watchers:
            with torch._C.DisableTorchFunction():
                _watchers[-1].allocated(tensor.untyped_storage())
        return tensor

    return allocate


def _growing(kernel: Any) -> Callable[..., Any]:
    import torch

    def resize(keys: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            storage = tensor.untyped_storage()
            start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        kernel(keys, tensor, *args, **kwargs)
        if _watchers:
            with torch._C.DisableTorchFunction():
                storage = tensor.untyped_storage()
                if storage.nbytes() > nbytes:
                    _watchers[-1].grown(storage, start, nbytes)
        return tensor

    return resize
