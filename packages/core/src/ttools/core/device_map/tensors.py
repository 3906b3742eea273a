"""What torch's Python does with devices by itself, past the dispatcher.

Pinned memory, storages in files and between processes, and older names of tensors of
CUDA devices: all that a backend does not reach. `mapping.py` puts these replacements in place.
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
    """Every (owner, attribute, value) that maps what tensors and storages do in Python."""
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
    # Ranges for NVIDIA's profilers, which are not there to see them.
    yield torch.autograd.profiler.emit_nvtx, "__enter__", lambda self: self
    yield torch.autograd.profiler.emit_nvtx, "__exit__", lambda self, *exc: False
    # With a tensor's device, by the workers of a DataLoader.
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
    """Libraries call torch's own kernel past theirs by the keys of no backend.

    That kernel is a composite, which may call CUDA's functions directly.
    """
    from ttools.core.device_map.operators.recorded import computed_on_cpu
    from ttools.core.device_map.operators.registry import is_computed

    # `CompositeExplicitAutograd` is an alias, which leaves the set empty.
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
    """A function of torch's C++ that makes tensors of a device without asking for it first."""

    @functools.wraps(original)
    def make(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is not None and torch.device(device).type == "cuda":
            torch.cuda._lazy_init()
        return original(*args, device=device, **kwargs)

    return make


def _is_own(tensor: Any) -> bool:
    """Whether a tensor has memory of its own, and is not made of others by a library's class."""
    torch = sys.modules["torch"]
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def _pin_memory(self: Any, device: Any = None) -> Any:
    """A copy: memory that a GPU would read is as any."""
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
    """The profiler without events of a GPU, which it would miss at every operator."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("use_device") == "cuda":
            kwargs["use_device"] = None
            kwargs["use_cpu"] = True  # A profile of nothing is refused.
        kwargs.pop("use_cuda", None)
        original(self, *args, **kwargs)

    return init


def _decoded(original: Callable[..., Any], made: Callable[[str], Any]) -> Callable[..., Any]:
    """What a profile's event is called, also by a name that torch has freed meanwhile.

    It notes where the names of functions are, and calls operators by functions that it makes.
    """

    def decoded(self: Any) -> Any:
        try:
            return original(self)
        except UnicodeDecodeError as error:
            return made(error.object.decode("utf-8", "replace"))

    return decoded


# ---- storages


def _on_cuda(torch: ModuleType, storage: Any) -> Any:
    """A storage of the mapped device with the memory of a CPU storage."""
    from ttools.core.device_map.aliases import to_cuda

    whole = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
    return to_cuda(whole).untyped_storage()


def _resize(original: Callable[..., Any], bytes_of: Callable[[Any], int]) -> Callable[..., Any]:
    """Storages of the device keep their memory, and say that they are as large as they are to be.

    Sharded modules let go of storages between uses, and take as many bytes again.
    """

    def resize(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return original(self, size)
        there = bytes_of(self)
        if size > there:
            raise UnsupportedError(
                f"a storage of {there} bytes on a mapped device made larger, {size} bytes",
                help="make a new tensor and copy",
            )
        self._ttools_size = int(size), there
        return self

    return resize


def _size(original: Callable[..., int]) -> Callable[..., int]:
    def size_of(self: Any) -> int:
        there = original(self)
        said, at_that_time = getattr(self, "_ttools_size", (there, there))
        return said if at_that_time == there else there

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
    """What `torch.load` makes of a storage that was saved on a CUDA device; None for others."""
    return _storage_on_cuda(storage) if location.partition(":")[0] == "cuda" else None


def rebuilt(host: Any, kind: type, requires_grad: bool) -> Any:
    """A tensor of another process on the mapped device, sent as one on the CPU."""
    from ttools.core.device_map.aliases import to_cuda
    from ttools.core.device_map.backend import install

    install()
    tensor = to_cuda(host).requires_grad_(requires_grad)
    return tensor if type(tensor) is kind else kind(tensor, requires_grad)


def _shared(tensor: Any) -> Any:
    """A CPU tensor with the memory of a mapped one, which other processes can share from now on.

    Memory that was not made to be shared cannot become so: the tensor gets other memory, of which
    views that were made before know nothing.
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
    """How a tensor is sent to another process: the memory of a mapped one can be shared."""

    def reduced(tensor: Any) -> Any:
        if tensor.is_cuda and on_host(tensor) and not tensor.is_sparse:
            return rebuilt, (_shared(tensor), type(tensor), tensor.requires_grad)
        return reduce(tensor)

    return reduced
