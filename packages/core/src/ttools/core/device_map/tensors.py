"""Tensors under a device map: where calls say they shall be, and where they say they are.

Every function and method of torch that takes a device, as tables, and how its device is replaced.
`mapping.py` says what scripts see and puts these replacements in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Protocol

# Functions of torch with a keyword `device`.
_FACTORIES = (
    *("arange", "bartlett_window", "blackman_window", "empty", "empty_permuted", "empty_quantized"),
    *("empty_strided", "eye", "from_file", "full", "hamming_window", "hann_window"),
    *("kaiser_window", "linspace", "logspace", "normal", "ones", "rand", "randint", "randn"),
    *("randperm", "range", "scalar_tensor", "sparse_bsc_tensor", "sparse_bsr_tensor"),
    *("sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor"),
    *("tensor", "tril_indices", "triu_indices", "zeros"),
    *("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like"),
    "zeros_like",
)
# These may give back the memory that they are given.
_CONVERSIONS = ("as_tensor", "asarray")
_METHOD_FACTORIES = (
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
)
# Functions whose first argument names a kind of device.
_DEVICE_TYPE_FUNCTIONS = (
    *("get_autocast_dtype", "is_autocast_enabled", "set_autocast_dtype", "set_autocast_enabled"),
    "is_autocast_available",
)
# Those that mean CUDA when they are called with so many arguments only.
_CUDA_BY_DEFAULT = {"is_autocast_enabled": 0, "set_autocast_enabled": 1}
_CUDA_PREFIX = "torch.cuda."


class Usage(Protocol):
    """What a device map reports and records."""

    def use(self) -> None:
        """The script asks for a CUDA device."""

    @property
    def used(self) -> bool:
        """Whether the script has asked for a CUDA device."""


class _Devices:
    """Which devices are mapped, and which storages count as theirs."""

    def __init__(self, torch: ModuleType, usage: Usage) -> None:
        self.torch = torch
        self.usage = usage
        self.cpu = torch.device("cpu")
        self.cuda = torch.device("cuda", 0)

    def is_mapped(self, device: Any) -> bool:
        """Whether `device` names a CUDA device; a bare number does."""
        if isinstance(device, str):
            mapped = device.partition(":")[0] == "cuda"
        elif isinstance(device, self.torch.device):
            mapped = device.type == "cuda"
        else:
            mapped = isinstance(device, int) and not isinstance(device, bool)
        if mapped:
            self.usage.use()
        return mapped

    def home(self, tensor: Any) -> str | None:
        """`cuda` or `cpu` as noted on the storage, None if nothing is."""
        storage = self._storage(tensor)
        return getattr(storage, "_ttools_home", None)

    def settle(self, tensor: Any, home: str) -> Any:
        """Notes on the storage of `tensor` where it counts as being; returns `tensor`."""
        storage = self._storage(tensor)
        if storage is not None:
            storage._ttools_home = home
        return tensor

    def moved(self, source: Any, result: Any, home: str) -> Any:
        """What moving `source` gives, when converting it gave `result`."""
        if self.home(source) == home and result is source:
            return result
        before, after = self._storage(source), self._storage(result)
        if before is not None and after is not None and before.data_ptr() == after.data_ptr():
            if self.home(source) == home:
                return result
            result = result.clone()
        return self.settle(result, home)

    def _storage(self, tensor: Any) -> Any:
        try:
            return tensor.untyped_storage()
        except (AttributeError, NotImplementedError, RuntimeError):
            return None  # sparse and wrapper tensors have none


def tensor_replacements(torch: ModuleType, usage: Usage) -> Iterator[tuple[Any, str, Any]]:
    """Every (owner, attribute, value) that maps tensors of CUDA devices to the CPU."""
    devices = _Devices(torch, usage)
    factories = [(torch, name) for name in _FACTORIES]
    factories += [(torch.fft, "fftfreq"), (torch.fft, "rfftfreq")]
    factories += [(torch.nested, "nested_tensor"), (torch.nested, "as_nested_tensor")]
    factories += [(torch.Tensor, name) for name in _METHOD_FACTORIES]
    for owner, name in factories:
        if hasattr(owner, name):
            yield owner, name, _factory(devices, getattr(owner, name))
    for name in _CONVERSIONS:
        yield torch, name, _conversion(devices, getattr(torch, name))
    yield from _methods(devices)
    yield from _placements(devices)
    for name in _DEVICE_TYPE_FUNCTIONS:
        if hasattr(torch, name):
            yield torch, name, _on_device_type(getattr(torch, name), _CUDA_BY_DEFAULT.get(name))
    # Older names for CUDA's, that newer versions of torch may drop.
    for verb in ("get", "set"):
        current = f"{verb}_autocast_dtype"
        if hasattr(torch, f"{verb}_autocast_gpu_dtype") and hasattr(torch, current):
            function = functools.partial(getattr(torch, current), "cpu")
            yield torch, f"{verb}_autocast_gpu_dtype", function


# --- making tensors ---------------------------------------------------------------------------


def _factory(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def factory(*args: Any, **kwargs: Any) -> Any:
        # There is no pinned memory without a device that would read it.
        kwargs.pop("pin_memory", None)
        device = kwargs.get("device")
        if device is None or not devices.is_mapped(device):
            return original(*args, **kwargs)
        kwargs["device"] = devices.cpu
        return devices.settle(original(*args, **kwargs), "cuda")

    return factory


def _conversion(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def convert(data: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or not devices.is_mapped(device):
            return original(data, *args, **kwargs)
        kwargs["device"] = devices.cpu
        result = original(data, *args, **kwargs)
        if devices.home(result) == "cuda":
            return result
        # The memory may be the caller's: an array's, or a CPU tensor's.
        return devices.settle(result.clone(), "cuda")

    return convert


# --- moving tensors, and what they say of themselves ------------------------------------------


def _methods(devices: _Devices) -> Iterator[tuple[Any, str, Any]]:
    tensor = devices.torch.Tensor
    yield tensor, "to", _to(devices, tensor.to)
    yield tensor, "cuda", _cuda(devices, tensor.to)
    yield tensor, "cpu", _cpu(devices, tensor.cpu)
    yield tensor, "type", _type(devices, tensor.type)
    yield tensor, "pin_memory", lambda self, device=None: self.clone()
    yield tensor, "is_pinned", lambda self, device=None: False
    yield tensor, "record_stream", lambda self, stream: None
    yield tensor, "is_cuda", _reported(devices, tensor.is_cuda, True)
    yield tensor, "device", _reported(devices, tensor.device, devices.cuda)
    yield tensor, "get_device", _get_device(devices, tensor.get_device)


def _reported(devices: _Devices, original: Any, mapped: Any) -> property:
    where = devices.torch._C.TensorBase.device

    def report(self: Any) -> Any:
        if devices.usage.used and where.__get__(self) == devices.cpu:
            return mapped
        return original.__get__(self)

    return property(report)


def _get_device(devices: _Devices, original: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(original)
    def get_device(self: Any) -> int:
        return 0 if self.is_cuda else original(self)

    return get_device


def _cuda(devices: _Devices, to: Callable[..., Any]) -> Callable[..., Any]:
    def cuda(
        self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Any:
        devices.usage.use()
        options = {} if memory_format is None else {"memory_format": memory_format}
        return devices.moved(self, to(self, devices.cpu, **options), "cuda")

    return cuda


def _cpu(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def cpu(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        return devices.moved(self, result, "cpu") if devices.usage.used else result

    return cpu


def _to(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    torch = devices.torch

    @functools.wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        target = args[0] if args else kwargs.get("other", kwargs.get("device"))
        positional, named = list(args), dict(kwargs)
        if isinstance(target, torch.Tensor):
            home = devices.home(target)
        elif target is None or isinstance(target, torch.dtype):
            home = None
        elif devices.is_mapped(target):
            home = "cuda"
            if positional:
                positional[0] = devices.cpu
            else:
                named["device"] = devices.cpu
        else:
            home = str(target).partition(":")[0]
        result = original(self, *positional, **named)
        if home == "cuda" or (home == "cpu" and devices.usage.used):
            return devices.moved(self, result, home)
        return result

    return to


def _type(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def convert(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(dtype, str) and dtype.startswith(_CUDA_PREFIX):
            dtype = "torch." + dtype.removeprefix(_CUDA_PREFIX)
            devices.usage.use()
            return devices.moved(self, original(self, dtype, *args, **kwargs), "cuda")
        return original(self, dtype, *args, **kwargs)

    return convert


# --- everything else that names a device ------------------------------------------------------


def _placements(devices: _Devices) -> Iterator[tuple[Any, str, Any]]:
    torch = devices.torch
    context = torch.utils._device.DeviceContext
    # Behind `with torch.device("cuda")` and `torch.set_default_device`.
    yield context, "__init__", _with_device(devices, context.__init__, 1)
    autocast = torch.amp.autocast
    yield autocast, "__init__", _autocast(devices, autocast.__init__)
    yield torch.cuda.amp.autocast, "__init__", _cuda_autocast(devices, autocast.__init__)
    yield torch.nn.Module, "to", _module_to(devices, torch.nn.Module.to)
    # With a tensor's device, by the workers of a DataLoader.
    shared = _with_device(devices, torch.UntypedStorage._new_shared.__func__, 2)
    yield torch.UntypedStorage, "_new_shared", classmethod(shared)
    yield torch, "load", _load(devices, torch.load)
    yield torch, "set_default_tensor_type", _default_type(devices, torch.set_default_tensor_type)
    yield torch, "Generator", _generator(devices)
    yield torch, "compile", _compile


def _with_device(
    devices: _Devices, original: Callable[..., Any], position: int
) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        words = list(args)
        if len(words) > position and devices.is_mapped(words[position]):
            words[position] = devices.cpu
        elif devices.is_mapped(kwargs.get("device")):
            kwargs["device"] = devices.cpu
        return original(*words, **kwargs)

    return function


def _module_to(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A bare number is read before any tensor's `to` sees it.
        words = [devices.cuda if type(word) is int else word for word in args]
        named = {name: devices.cuda if type(word) is int else word for name, word in kwargs.items()}
        return original(self, *words, **named)

    return to


def _autocast(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def initialise(
        self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        if devices.is_mapped(device_type):
            # CUDA's default; the CPU's own is bfloat16.
            device_type, dtype = "cpu", dtype or devices.torch.float16
        original(self, device_type, dtype, *args, **kwargs)

    return initialise


def _cuda_autocast(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    torch = devices.torch

    def initialise(
        self: Any, enabled: bool = True, dtype: Any = torch.float16, cache_enabled: bool = True
    ) -> None:
        devices.usage.use()
        original(self, "cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    return initialise


def _on_device_type(
    original: Callable[..., Any], cuda_by_default: int | None
) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        words = ["cpu" if word == "cuda" else word for word in args]
        named = {name: "cpu" if word == "cuda" else word for name, word in kwargs.items()}
        if len(words) + len(named) == cuda_by_default:
            words.insert(0, "cpu")
        return original(*words, **named)

    return function


def _load(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        # Without one, a file saved from a GPU would ask for it.
        if map_location is None or devices.is_mapped(map_location):
            map_location = devices.cpu
        return original(f, map_location, *args, **kwargs)

    return load


def _default_type(devices: _Devices, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def set_default(kind: Any) -> Any:
        if isinstance(kind, str) and kind.startswith(_CUDA_PREFIX):
            devices.usage.use()
            kind = "torch." + kind.removeprefix(_CUDA_PREFIX)
        return original(kind)

    return set_default


def _generator(devices: _Devices) -> type:
    original = devices.torch.Generator

    class _AnyGenerator(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original)

    class Generator(original, metaclass=_AnyGenerator):  # type: ignore[misc, valid-type]
        """A generator whose device may be a mapped one."""

        def __new__(cls, device: Any = None) -> Any:
            mapped = device is not None and devices.is_mapped(device)
            return original.__new__(cls, devices.cpu if mapped or device is None else device)

    return Generator


def _compile(model: Any = None, **options: Any) -> Any:
    """`torch.compile` that compiles nothing; also as `@torch.compile(...)`."""
    return (lambda function: function) if model is None else model
