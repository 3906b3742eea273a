"""Observes the memory that torch allocates uninitialised, in torch's dispatcher.

Every allocation of a tensor that is not filled calls one of a few operators of torch's dispatcher.
While a watcher is registered, the kernels of these operators are replaced by functions that call
the originals and report the result. torch's functions therefore remain the same objects for
TorchScript, `torch.compile`, pickle and `is`, and temporaries and results of composed operators are
observed like those of `torch.empty`. Among the operators that fill the memory that they allocate,
those that copy elements, multiply matrices or reduce are observed. Among operators that fill
existing memory, the most frequent ones are observed. Other operators are not observed, because they
accept numbers instead of tensors, and a replaced kernel receives these as plain numbers.

For two kinds of objects, Python methods must be replaced: storages that are created without a
tensor, and subclasses of `torch.Tensor`.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, Protocol

from ttools.core import kernel_overrides
from ttools.core.patches import Patches
from ttools.interpreter.run.device_copies import has_device_memory

_ALLOCATING = ("empty.memory_format", "empty_strided")
_GROWING = "resize_"
#: Operators that copy some elements of their operands, and the positions of these operands.
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
#: Operators that write some elements of their first operand, and the position of the new values.
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
    """Receives events about memory, from any thread."""

    def allocated(self, tensor: Any, first: int = 0) -> None:
        """Handle the creation of a storage on the host that is uninitialised from byte `first` on.

        Args:
            tensor: A tensor of the storage, or a `BareStorage` if there is none.
            first: Offset of the first uninitialised byte; nonzero if the storage has grown.
        """

    def allocated_on_device(self, tensor: Any) -> None:
        """Handle the allocation of an uninitialised storage for a tensor on a GPU."""

    def grown(self, tensor: Any, start: int, nbytes: int) -> None:
        """Handle the growth of a storage or `BareStorage` that had `nbytes` bytes at `start`."""

    def copied(
        self, tensor: Any, sources: Sequence[Any], again: Callable[[Sequence[Any]], Any]
    ) -> None:
        """Handle the creation of a tensor whose elements are elements of other tensors.

        Args:
            sources: The tensors from which the elements come.
            again: Applies the same operator to other tensors in place of the sources.
        """

    def assigned(self, tensor: Any, source: Any) -> None:
        """Handle a copy of a tensor's elements to another tensor, possibly of another type."""

    def written(self, tensor: Any) -> None:
        """Handle an operator that has written all elements of a tensor."""

    def written_some(self, tensor: Any, again: Callable[[Any], None]) -> None:
        """Handle an operator that has written some elements of a tensor.

        Args:
            tensor: The tensor that was written.
            again: Writes zeros to the same elements of a given boolean tensor.
        """

    def computed(self, name: str, sources: Sequence[Any]) -> None:
        """Handle an operator that has computed with all elements of some tensors."""


_watchers: list[Watcher] = []
_lock = threading.Lock()
_library: Any = None


def _replaced_methods(patches: Patches) -> None:
    let_subclasses_be_made(patches)
    see_storages(
        patches,
        lambda storage: _notify(lambda watcher: watcher.allocated(storage)),
        lambda *of: _notify(lambda watcher: watcher.grown(*of)),
    )


_methods = Patches(_replaced_methods)


def watch(watcher: Watcher) -> None:
    """Report allocations to this watcher, and no longer to earlier ones, until `unwatch`."""
    global _library
    with _lock:
        if not _watchers:
            _library = _replaced_kernels()
            kernel_overrides.count_change()
            _methods.__enter__()
        _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    """Undo the last `watch` of this watcher."""
    global _library
    with _lock:
        del _watchers[len(_watchers) - 1 - _watchers[::-1].index(watcher)]
        if not _watchers:
            _methods.__exit__()
            _library._destroy()
            _library = None
            kernel_overrides.count_change()


def _replaced_kernels() -> Any:
    """Return the library that holds the replaced kernels; destroying it restores the originals."""
    import torch

    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        # torch warns once per process about an overridden kernel.
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
        _notify(lambda watcher: watcher.allocated_on_device(tensor))
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

        _notify(lambda watcher: watcher.copied(result, list(_tensors(operands)), again))
        return result

    return copy


def _assigning(kernel: Any) -> Callable[..., Any]:
    import torch

    def copy_(keys: Any, target: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(source, torch.Tensor):
            # The dispatcher passes scalar tensors that wrap a number as plain numbers.
            source = torch.tensor(source, dtype=target.dtype, device="cpu")
        kernel(keys, target, source, *args, **kwargs)
        _notify(lambda watcher: watcher.assigned(target, source))
        return target

    return copy_


def _filling(kernel: Any) -> Callable[..., Any]:
    def fill(keys: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        kernel(keys, tensor, *args, **kwargs)
        _notify(lambda watcher: watcher.written(tensor))
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

        _notify(lambda watcher: watcher.written_some(tensor, again))
        return tensor

    return fill


def _computing(name: str, kernel: Any) -> Callable[..., Any]:
    def compute(keys: Any, *args: Any, **kwargs: Any) -> Any:
        _notify(lambda watcher: watcher.computed(name, list(_tensors(args))))
        return kernel(keys, *args, **kwargs)

    return compute


def _notify(what: Callable[[Watcher], None]) -> None:
    import torch

    if _watchers:
        with torch._C.DisableTorchFunction():
            what(_watchers[-1])


def _tensors(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the tensors among the arguments, including those in lists."""
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


@dataclass(frozen=True, slots=True)
class BareStorage:
    """A storage without a tensor, with the interface that watchers need.

    Attributes:
        storage: An untyped storage on the host.
    """

    storage: Any

    def untyped_storage(self) -> Any:
        """Return the storage, as a tensor's method of this name does."""
        return self.storage


def see_storages(
    patches: Patches,
    made: Callable[[BareStorage], None],
    grown: Callable[[BareStorage, int, int], None],
) -> None:
    """Report storages that are created, or grow, without a tensor.

    `torch.UntypedStorage(8)` and its `resize_` call no operator and leave memory uninitialised. So
    do typed storages, which wrap untyped ones.

    Args:
        patches: The patches that undo the replacement.
        made: Called with each new storage.
        grown: Called with a storage that has grown, its former address and its former size in
            bytes.
    """
    import torch

    def construct(inherited: Any) -> Any:
        def constructed(cls: Any, *args: Any, **kwargs: Any) -> Any:
            storage = inherited(cls, *args, **kwargs)
            size = args[0] if args else kwargs.get("size")  # or the bytes themselves
            if isinstance(size, Integral) and _address(storage) is not None:
                made(BareStorage(storage))
            return storage

        return staticmethod(constructed)

    def resize(inherited: Any) -> Any:
        def resize_(self: Any, size: int) -> Any:
            start, nbytes = _address(self), self.nbytes()
            result = inherited(self, size)
            if start is not None and self.nbytes() > nbytes:
                grown(BareStorage(self), start, int(nbytes))
            return result

        return resize_

    patches.wrap(torch.UntypedStorage, "__new__", construct)
    patches.wrap(torch.UntypedStorage, "resize_", resize)


def _address(storage: Any) -> int | None:
    """Return the address of a storage on the host; None for fake storages and those elsewhere."""
    try:
        return int(storage.data_ptr()) if storage.device.type == "cpu" else None
    except RuntimeError:
        return None


#: Part of torch's error for a tensor that Python has already seen.
_SEEN = "already associated to a python object"
_FILE = "<constructor of a subclass of torch.Tensor>"


def let_subclasses_be_made(patches: Patches) -> None:
    """Give subclasses of `torch.Tensor` a constructor that works for observed allocations.

    For `class Tile(torch.Tensor)` and `Tile(3)`, torch allocates a tensor and creates an object of
    `Tile` for it. If a Python function has observed the allocation, an object of another type
    already exists, and torch raises an error. Existing and future subclasses without a constructor
    of their own therefore get one that creates a second tensor over the same memory.
    `torch.Tensor.__new__` stays unchanged because Dynamo knows it by identity; called with a
    subclass and sizes, it still fails.
    """
    import torch

    constructed = staticmethod(_constructed(torch.Tensor.__new__))
    for subclass in _subclasses(torch.Tensor):
        _give(patches, subclass, constructed)
    inherited = torch.Tensor.__init_subclass__

    def defined(cls: Any, /, **kwargs: Any) -> None:
        inherited(**kwargs)
        _give(patches, cls, constructed)

    patches.replace(torch.Tensor, "__init_subclass__", classmethod(defined))


def _subclasses(base: type) -> Iterator[type]:
    direct: list[type] = type.__subclasses__(base)
    for subclass in direct:
        yield subclass
        yield from _subclasses(subclass)


def _give(patches: Patches, subclass: Any, constructed: Any) -> None:
    import torch

    if subclass.__new__ is torch.Tensor.__new__:
        patches.replace(subclass, "__new__", constructed)


def _constructed(construct: Any) -> Any:
    import torch

    def constructed(cls: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return construct(cls, *args, **kwargs)
        except RuntimeError as error:
            if _SEEN not in str(error):
                raise
        return torch.Tensor._make_subclass(cls, construct(torch.Tensor, *args, **kwargs))

    # Dynamo is configured to skip files of ttools, but it must trace this function.
    constructed.__code__ = constructed.__code__.replace(co_filename=_FILE)
    return constructed
