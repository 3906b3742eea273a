"""Replacements of torch's Python functions that handle devices without calling the dispatcher.

A backend cannot change the behaviour of these functions. They concern pinned memory, storages in
files, storages that are sent to other processes, and legacy tensor types. `mapping.py` installs the
replacements.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ttools.core.device_map.memory import is_pinned, on_host, pinned_copy
from ttools.core.errors import UnsupportedError

_CUDA_PREFIX = "torch.cuda."
_KINDS = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")

Replacement = tuple[Any, str, Any]


def tensor_replacements(torch: ModuleType) -> Iterator[Replacement]:
    """Yield (owner, attribute, value) for methods of tensors and storages in Python."""
    from ttools.core.device_map.generators import Generator

    tensor, storage = torch.Tensor, torch.UntypedStorage
    yield tensor, "pin_memory", _pin_memory
    yield tensor, "is_pinned", _is_pinned
    yield tensor, "record_stream", lambda self, stream: None
    yield tensor, "type", _type(tensor.type)
    overload = torch._ops.OpOverload
    yield overload, "redispatch", _redispatch(torch, overload.redispatch)
    yield torch, "Generator", Generator
    yield torch, "set_default_tensor_type", _default_type(torch, torch.set_default_tensor_type)
    profile = torch.autograd.profiler.profile
    yield profile, "__init__", _without_device(profile.__init__)
    event = torch._C._autograd._KinetoEvent
    yield event, "name", _decoded(event.name, lambda text: text)
    yield event, "stack", _decoded(event.stack, lambda text: [text])
    nested = torch._C._nested
    yield nested, "nested_tensor", _naming_a_device(torch, nested.nested_tensor)
    # NVTX ranges have no effect without NVIDIA's profilers.
    yield torch.autograd.profiler.emit_nvtx, "__enter__", lambda self: self
    yield torch.autograd.profiler.emit_nvtx, "__exit__", lambda self, *exc: False
    # Workers of a DataLoader call this method with the device of a tensor.
    yield storage, "_new_shared", classmethod(_new_shared(torch, storage._new_shared.__func__))
    yield storage, "__new__", _new_storage(torch, storage.__new__)
    yield storage, "resize_", _resize(storage.resize_, storage.nbytes)
    for name in ("size", "nbytes"):
        yield storage, name, _size(getattr(storage, name))
    yield storage, "cuda", lambda self, device=None, non_blocking=False: _storage_on_cuda(self)
    for kind in _KINDS:
        yield torch.cuda, f"{kind}Tensor", _legacy_type(torch, kind)


# ---- operators


def _redispatch(torch: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `redispatch` that computes composite operators on the CPU.

    A library that has replaced an operator calls torch's original kernel by `redispatch` with a key
    set that contains no backend. This original kernel is a composite, which may call CUDA functions
    directly.
    """
    from ttools.core.device_map.operators.recorded import computed_on_cpu
    from ttools.core.device_map.operators.registry import is_computed

    # Such a key set is empty, because the key `CompositeExplicitAutograd` is only an alias.
    no_backend = torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
    computed = functools.cache(computed_on_cpu)

    def redispatch(self: Any, keys: Any, /, *args: Any, **kwargs: Any) -> Any:
        if keys == no_backend and is_computed(self._schema):
            leaves = torch.utils._pytree.tree_leaves((args, kwargs))
            if any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in leaves):
                return computed(self.name())(*args, **kwargs)
        return original(self, keys, *args, **kwargs)

    return redispatch


# ---- tensors


def _naming_a_device(torch: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a C++ function that creates tensors on a device but does not itself initialise CUDA."""

    @functools.wraps(original)
    def make(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is not None and torch.device(device).type == "cuda":
            torch.cuda._lazy_init()
        return original(*args, device=device, **kwargs)

    return make


def _is_own(tensor: Any) -> bool:
    """Return whether a tensor has memory; wrapper subclasses of libraries have none."""
    torch = sys.modules["torch"]
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def _pin_memory(self: Any, device: Any = None) -> Any:
    """Return a copy that is marked as pinned; here, any host memory serves as pinned memory."""
    if not _is_own(self):
        sys.modules["torch"].cuda._lazy_init()
        return self if self.is_pinned() else _operator("_pin_memory")(self)
    if self.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    return self if _is_pinned(self) else pinned_copy(self)


def _is_pinned(self: Any, device: Any = None) -> Any:
    if not _is_own(self):
        sys.modules["torch"].cuda._lazy_init()
        return _operator("is_pinned")(self)
    return is_pinned(self)


def _operator(name: str) -> Any:
    return getattr(sys.modules["torch"].ops.aten, name).default


def _type(original: Callable[..., Any]) -> Callable[..., Any]:
    def convert(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        name = getattr(dtype, "legacy_name", dtype)
        if isinstance(name, str) and name.startswith(_CUDA_PREFIX):
            host = getattr(sys.modules["torch"], name.removeprefix(_CUDA_PREFIX))
            return self.to("cuda", host.dtype)
        return original(self, dtype, *args, **kwargs)

    return convert


def _legacy_type(torch: ModuleType, kind: str) -> type:
    host = getattr(torch, f"{kind}Tensor")

    class _Legacy(type):
        legacy_name = f"{_CUDA_PREFIX}{kind}Tensor"
        dtype = host.dtype

        def __instancecheck__(cls, instance: object) -> bool:
            mapped = getattr(instance, "is_cuda", False)
            return mapped and getattr(instance, "dtype", None) == host.dtype

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return host(*args, **kwargs).cuda()

    return _Legacy(f"{kind}Tensor", (), {"__module__": "torch.cuda"})


def _default_type(torch: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    chosen = False

    def set_default(kind: Any) -> Any:
        nonlocal chosen
        name = getattr(kind, "legacy_name", kind)
        if isinstance(name, str) and name.startswith(_CUDA_PREFIX):
            torch.set_default_device("cuda")
            kind = "torch." + name.removeprefix(_CUDA_PREFIX)
            chosen = True
        elif chosen:
            torch.set_default_device(None)
            chosen = False
        return original(kind)

    return set_default


def _without_device(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the profiler's constructor so that it requests no GPU events, which do not exist."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("use_device") == "cuda":
            kwargs["use_device"] = None
            kwargs["use_cpu"] = True  # torch must profile the CPU, the GPU or both
        kwargs.pop("use_cuda", None)
        original(self, *args, **kwargs)

    return init


def _decoded(original: Callable[..., Any], made: Callable[[str], Any]) -> Callable[..., Any]:
    """Wrap accessors of profiler events so that names which torch has freed raise no exception.

    torch stores pointers to function names. Some operators are called by functions that torch
    creates temporarily; the name of such a function is freed together with the function.
    """

    def decoded(self: Any) -> Any:
        try:
            return original(self)
        except UnicodeDecodeError as error:
            return made(error.object.decode("utf-8", "replace"))

    return decoded


# ---- storages


def _on_cuda(torch: ModuleType, storage: Any) -> Any:
    """Return a storage of the mapped device that shares the memory of a CPU storage."""
    from ttools.core.device_map.aliases import to_cuda

    whole = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
    return to_cuda(whole).untyped_storage()


def _resize(original: Callable[..., Any], bytes_of: Callable[[Any], int]) -> Callable[..., Any]:
    """Return a `resize_` that keeps a device storage's memory but reports the new size.

    Sharded modules free storages between uses and then request the same size again.
    """

    def resize(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return original(self, size)
        available = bytes_of(self)
        if size > available:
            raise UnsupportedError(
                f"enlarging a storage on a mapped device from {available} to {size} bytes",
                help="create a new tensor and copy the data",
            )
        self._ttools_size = int(size), available
        return self

    return resize


def _size(original: Callable[..., int]) -> Callable[..., int]:
    def size_of(self: Any) -> int:
        available = original(self)
        reported, when_set = getattr(self, "_ttools_size", (available, available))
        return reported if when_set == available else available

    return size_of


def _storage_on_cuda(storage: Any) -> Any:
    import torch

    return storage if storage.device.type == "cuda" else _on_cuda(torch, storage.clone())


def _new_storage(torch: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is not None and torch.device(device).type == "cuda":
            return _on_cuda(torch, original(cls, *args, **kwargs))
        return original(cls, *args, device=device, **kwargs)

    return new


def _new_shared(torch: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    def new_shared(cls: Any, size: int, *, device: Any = "cpu") -> Any:
        if torch.device(device).type == "cuda":
            return _on_cuda(torch, cls(size))
        return original(cls, size, device=device)

    return new_shared


def from_file(storage: Any, location: str) -> Any:
    """Load a storage that was saved on a CUDA device; return None for other storages."""
    return _storage_on_cuda(storage) if location.partition(":")[0] == "cuda" else None


def rebuilt(host: Any, kind: type, requires_grad: bool) -> Any:
    """Return a mapped tensor for a tensor that another process has sent as a CPU tensor."""
    from ttools.core.device_map.aliases import to_cuda
    from ttools.core.device_map.backend import install

    install()
    tensor = to_cuda(host).requires_grad_(requires_grad)
    return tensor if type(tensor) is kind else kind(tensor, requires_grad)


def _shared(tensor: Any) -> Any:
    """Return a CPU tensor that shares memory with a mapped one and can be sent to other processes.

    Existing memory cannot become shared, so the mapped tensor is moved to new memory. Views that
    were created earlier keep the old memory.
    """
    from ttools.core.device_map.aliases import to_cuda, to_host
    from ttools.core.device_map.operators.sizes import set_storage

    place = tensor.storage_offset(), list(tensor.shape), list(tensor.stride())
    storage = tensor.untyped_storage()
    whole = getattr(tensor, "_ttools_shared", None)
    if whole is None or whole.data_ptr() != storage.data_ptr():
        bytes_of = set_storage(
            tensor.new_empty(0, dtype=sys.modules["torch"].uint8),
            storage,
            0,
            [storage.nbytes()],
            [1],
        )
        whole = to_host(bytes_of).clone().share_memory_()
        set_storage(tensor, to_cuda(whole).untyped_storage(), *place)
        tensor._ttools_shared = whole
    host = whole.new_empty(0, dtype=tensor.dtype)
    return set_storage(host, whole.untyped_storage(), *place)


def sending(reduce: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap the pickle reducer of tensors so that mapped tensors are sent through shared memory."""

    def reduced(tensor: Any) -> Any:
        if tensor.is_cuda and on_host(tensor) and not tensor.is_sparse:
            return rebuilt, (_shared(tensor), type(tensor), tensor.requires_grad)
        return reduce(tensor)

    return reduced
