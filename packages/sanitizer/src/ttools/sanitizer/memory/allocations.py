"""Sees the memory that torch allocates uninitialised, beneath everything that a program can name.

Every allocation of a tensor that does not fill it comes to a few operators of torch's dispatcher.
While somebody watches, their kernels are replaced by ones that call them and tell of the result.
So functions of torch are what they were to TorchScript, `torch.compile`, pickles and `is`, and the
temporaries and results of composed operators are seen as well as `torch.empty`. Of operators that
fill what they allocate themselves, those are seen that copy elements, products of matrices and
reductions; of operators that fill memory which is there already, the most frequent ones. Others
take numbers in the place of tensors, which a replaced kernel gets as plain ones. Storages that are
made without a tensor come to no operator (`storages.py`).

A tensor that Python has seen stays a `torch.Tensor`, of which torch's constructor makes none of a
subclass (`subclasses.py`).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from ttools.core import replaced_kernels
from ttools.core.patches import Patches
from ttools.interpreter.run.device_copies import has_device_memory
from ttools.sanitizer.memory.storages import see_storages
from ttools.sanitizer.memory.subclasses import let_subclasses_be_made

_ALLOCATING = ("empty.memory_format", "empty_strided")
_GROWING = "resize_"
#: Operators that copy some elements of operands, and the positions of those.
_COPYING = {
    **dict.fromkeys(("cat", "index.Tensor", "index_select", "gather", "tril", "triu"), (0,)),
    **dict.fromkeys(("flip", "masked_select"), (0,)),
    "where.self": (1, 2),
}
_ASSIGNING = "copy_"
#: Operators that write all elements of their first operand.
_FILLING = (
    *("fill_.Scalar", "zero_", "normal_", "uniform_", "random_", "random_.from", "random_.to"),
    *("exponential_", "bernoulli_.float"),
)
#: Operators that write some elements of their first operand, and where the new values stand.
_FILLING_SOME = {
    **dict.fromkeys(("_index_put_impl_", "masked_fill_.Scalar", "masked_fill_.Tensor"), 1),
    **dict.fromkeys(("index_fill_.int_Scalar", "index_copy_", "scatter_.src", "scatter_.value"), 2),
}
_COMPUTING = (
    *("mm", "bmm", "addmm", "baddbmm", "mv", "dot"),
    *("sum.dim_IntList", "mean.dim", "prod", "prod.dim_int", "cumsum", "linalg_vector_norm"),
    *("amax", "amin", "max", "min", "max.dim", "min.dim", "argmax", "argmin"),
    *("var.correction", "std.correction", "_softmax", "_log_softmax"),
)


class Watcher(Protocol):
    """Receives what happens to memory; from any thread."""

    def allocated(self, tensor: Any, first: int = 0) -> None:
        """A storage was made on the host, uninitialised from byte `first` on.

        Args:
            tensor: has it; in its place a `BareStorage` if no tensor does.
            first: 0 unless it grew.
        """

    def allocated_on_device(self, tensor: Any) -> None:
        """The storage of a tensor was made on a GPU, uninitialised."""

    def grown(self, tensor: Any, start: int, nbytes: int) -> None:
        """The storage of a tensor, or a bare one, had `nbytes` at `start` and became larger."""

    def copied(
        self, tensor: Any, sources: Sequence[Any], again: Callable[[Sequence[Any]], Any]
    ) -> None:
        """A tensor was made whose elements are some of those of others.

        Args:
            tensor: The new tensor.
            sources: Where its elements come from.
            again: Makes a tensor of others in the place of the sources in the same way.
        """

    def assigned(self, tensor: Any, source: Any) -> None:
        """Elements of a tensor were copied to another, perhaps of another type."""

    def written(self, tensor: Any) -> None:
        """An operator has written all elements of a tensor."""

    def written_some(self, tensor: Any, again: Callable[[Any], None]) -> None:
        """An operator has written some elements of a tensor.

        Args:
            tensor: The tensor.
            again: Writes zeros to the same elements of another tensor, of booleans.
        """

    def computed(self, name: str, sources: Sequence[Any]) -> None:
        """An operator has computed with all elements of some tensors."""


_watchers: list[Watcher] = []
_lock = threading.Lock()
_library: Any = None


def _replaced_methods(patches: Patches) -> None:
    let_subclasses_be_made(patches)
    see_storages(
        patches,
        lambda storage: _tell(lambda watcher: watcher.allocated(storage)),
        lambda *of: _tell(lambda watcher: watcher.grown(*of)),
    )


_methods = Patches(_replaced_methods)


def watch(watcher: Watcher) -> None:
    """Tells a watcher of all that is allocated, and no other one, until it or another comes."""
    global _library
    with _lock:
        if not _watchers:
            _library = _replaced_kernels()
            replaced_kernels.have_changed()
            _methods.__enter__()
        _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    """Takes the last `watch` of this watcher back."""
    global _library
    with _lock:
        del _watchers[len(_watchers) - 1 - _watchers[::-1].index(watcher)]
        if not _watchers:
            _methods.__exit__()
            _library._destroy()
            _library = None
            replaced_kernels.have_changed()


def _replaced_kernels() -> Any:
    """The library that holds the replacements; they are gone when it is destroyed."""
    import torch

    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        # Of an overridden kernel, once in a process.
        warnings.simplefilter("ignore", UserWarning)
        for name in _ALLOCATING:
            _replace(library, name, _allocating)
            if has_device_memory():
                _replace(library, name, _allocating_on_device, "CUDA")
        _replace(library, _GROWING, _growing)
        _replace(library, _ASSIGNING, _assigning)
        for name in _FILLING:
            _replace(library, name, _filling)
        for name, at in _FILLING_SOME.items():
            _replace(library, name, partial(_filling_some, at))
        for name, positions in _COPYING.items():
            _replace(library, name, partial(_copying, positions))
        for name in _COMPUTING:
            _replace(library, name, partial(_computing, name.partition(".")[0].lstrip("_")))
    return library


def _replace(
    library: Any, name: str, make: Callable[[Any], Callable[..., Any]], key: str = "CPU"
) -> None:
    import torch

    kernel = torch.library.get_kernel(f"aten::{name}", key).call_boxed
    library.impl(name, make(kernel), key, with_keyset=True, allow_override=True)


def _allocating(kernel: Any) -> Callable[..., Any]:
    import torch

    def allocate(keys: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = kernel(keys, *args, **kwargs)
        if _watchers:
            with torch._C.DisableTorchFunction():
                _watchers[-1].allocated(tensor)
        return tensor

    return allocate


def _allocating_on_device(kernel: Any) -> Callable[..., Any]:
    def allocate(keys: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = kernel(keys, *args, **kwargs)
        _tell(lambda watcher: watcher.allocated_on_device(tensor))
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
                    _watchers[-1].grown(tensor, start, nbytes)
        return tensor

    return resize


def _copying(positions: Sequence[int], kernel: Any) -> Callable[..., Any]:
    def copy(keys: Any, *args: Any, **kwargs: Any) -> Any:
        result = kernel(keys, *args, **kwargs)
        operands = [args[n] for n in positions]

        def again(sources: Sequence[Any]) -> Any:
            left, others = iter(sources), list(args)
            for n in positions:
                several = isinstance(args[n], (list, tuple))
                others[n] = [next(left) for _ in args[n]] if several else next(left)
            return kernel(keys, *others, **kwargs)

        _tell(lambda watcher: watcher.copied(result, list(_tensors(operands)), again))
        return result

    return copy


def _assigning(kernel: Any) -> Callable[..., Any]:
    import torch

    def copy_(keys: Any, target: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(source, torch.Tensor):
            # The dispatcher hands numbers that stand for tensors to Python as what they are.
            source = torch.tensor(source, dtype=target.dtype, device="cpu")
        kernel(keys, target, source, *args, **kwargs)
        _tell(lambda watcher: watcher.assigned(target, source))
        return target

    return copy_


def _filling(kernel: Any) -> Callable[..., Any]:
    def fill(keys: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        kernel(keys, tensor, *args, **kwargs)
        _tell(lambda watcher: watcher.written(tensor))
        return tensor

    return fill


def _filling_some(at: int, kernel: Any) -> Callable[..., Any]:
    import torch

    def fill(keys: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        kernel(keys, tensor, *args, **kwargs)

        def again(marks: Any) -> None:
            others, value = list(args), args[at]
            is_tensor = isinstance(value, torch.Tensor)
            others[at] = (
                torch.zeros(value.shape, dtype=marks.dtype, device="cpu") if is_tensor else False
            )
            kernel(keys, marks, *others, **kwargs)

        _tell(lambda watcher: watcher.written_some(tensor, again))
        return tensor

    return fill


def _computing(name: str, kernel: Any) -> Callable[..., Any]:
    def compute(keys: Any, *args: Any, **kwargs: Any) -> Any:
        _tell(lambda watcher: watcher.computed(name, list(_tensors(args))))
        return kernel(keys, *args, **kwargs)

    return compute


def _tell(what: Callable[[Watcher], None]) -> None:
    import torch

    if _watchers:
        with torch._C.DisableTorchFunction():
            what(_watchers[-1])


def _tensors(values: Sequence[Any]) -> Iterator[Any]:
    """The tensors among arguments, also those in lists."""
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
