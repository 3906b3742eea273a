"""Serialization of an autotuned launch, so that another process can repeat it.

Functions of the kernel, arguments, hooks, configurations and the source lines that Triton reads are
sent by value. Memory is sent once per storage, so that aliases are preserved. Functions of modules
that the other process can import are sent by name.
"""

from __future__ import annotations

import io
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.machinery import PathFinder
from types import CodeType, FunctionType
from typing import Any
from uuid import uuid4

import cloudpickle
import numpy as np
from msgspec import structs

from ttools.core import triton_versions
from ttools.core.device_map.memory import on_host
from ttools.core.errors import TtoolsError
from ttools.core.spec import TensorSpec, memory_spec, tensor_on, whole_storage
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.tuner.measure.pointer_tables import pointees_of
from ttools.tuner.measure.timing import timing_of
from ttools.tuner.workers.fake_tensor import FakeTensor
from ttools.tuner.workers.references import reduced_by_name, reduced_or_replaced
from ttools.tuner.workers.shared_gpu_storage import GpuContents, gpu_contents_of
from ttools.tuner.workers.shared_storage import Contents, contents_of

_WARMUP = "warmup"
#: Alignment of CPU memory that torch allocates, in bytes.
_ALIGNED = 64


class CannotSendError(TtoolsError):
    """Part of a launch cannot be recreated in another process."""


@dataclass(frozen=True, kw_only=True)
class SerializedCall:
    """A launch that another process can repeat.

    Attributes:
        payload: Pickled `CallParts`, in which numbers stand for storages.
        path: `sys.path` of the script, for modules that are sent by name.
        folder: Current folder of the script, for relative paths.
        lines: Source lines by file, as they were when the kernels were defined.
        addresses: Elements of storages that are addresses of other storages. Each entry consists of
            the number of the storage, the offset of the element in it, the number of the storage to
            which the element points, and the offset in that storage. Offsets are in bytes.
        name: Identifier that is unique among launches.
    """

    payload: bytes
    memory: Sequence[SavedStorage]
    path: Sequence[str]
    folder: str
    lines: Mapping[str, Sequence[str]]
    addresses: Sequence[tuple[int, int, int, int]] = ()
    name: str = field(default_factory=lambda: uuid4().hex)

    def without_contents(self) -> SerializedCall:
        """Return the same launch without memory contents, which is sufficient to compile it."""
        empty = tuple(replace(saved, content=None) for saved in self.memory)
        return replace(self, memory=empty)

    def for_other_machines(self) -> SerializedCall:
        """Return the same launch with the contents of all its memory included."""
        whole = (
            replace(saved, content=bytes(saved.content))
            if isinstance(saved.content, Contents)
            else saved
            for saved in self.memory
        )
        return replace(self, memory=tuple(whole))


@dataclass(frozen=True, kw_only=True)
class CallParts:
    """The parts of a serialized launch.

    Attributes:
        tuner: An autotuner over the configurations to try, without pruning.
        arguments: All arguments by name.
        mapped: If True, tensors on the CPU stand for tensors on a GPU.
        reached: Tensors that are reached through tables of addresses among the arguments.
    """

    tuner: Any
    arguments: Mapping[str, Any]
    mapped: bool
    reached: Sequence[Any] = ()


def serialize(launch: TunedCall, shares: bool = False, replaces: bool = False) -> SerializedCall:
    """Serialize a launch with the current contents of its memory.

    Args:
        shares: If True, receivers copy GPU memory from this process through CUDA IPC. They must see
            the same GPU, and read the launch while it waits.
        replaces: If True, objects that cannot be pickled are replaced by an `UnavailableObject`.

    Raises:
        CannotSendError: Part of the launch cannot be recreated elsewhere; the message names it.
    """
    arguments = {name: v for name, v in launch.arguments.items() if name != _WARMUP}
    tuner = triton_versions.plain_autotuner(launch.tuner, launch.configs)
    tuner.timing = timing_of(launch.tuner)
    mapped = _is_mapped(arguments.values())
    pointees = pointees_of(arguments)
    reached = tuple(pointees.tensors.values())
    parts = CallParts(tuner=tuner, arguments=arguments, mapped=mapped, reached=reached)
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, shares, replaces)
    try:
        with _by_value(_unimportable_modules()):
            pickler.dump(parts)
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise CannotSendError(
            f"`{launch.kernel}` cannot be sent to another process: {text}"
        ) from error
    return SerializedCall(
        payload=buffer.getvalue(),
        memory=tuple(pickler.memory.values()),
        path=tuple(sys.path),
        folder=os.getcwd(),  # noqa: PTH109 - a string, as it is sent
        lines=pickler.lines,
        addresses=[
            (pickler.number(word.table), word.at, pickler.number(word.tensor), word.offset)
            for word in pointees.addresses
        ],
    )


def serialize_configs(configs: Sequence[Any]) -> bytes:
    """Serialize configurations that the serialized launch does not contain.

    Raises:
        CannotSendError: A hook of one of these configurations cannot be sent.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, shares=False)
    hooks = any(config.pre_hook is not None for config in configs)
    try:
        with _by_value(_unimportable_modules() if hooks else iter(())):
            pickler.dump(list(configs))
    except Exception as error:
        raise CannotSendError(f"a hook cannot be sent to another process: {error}") from error
    if pickler.memory:
        raise CannotSendError("a hook that holds a tensor cannot be sent to another process")
    return buffer.getvalue()


def deserialize_configs(serialized: bytes) -> list[Any]:
    """Return the configurations that `serialize_configs` has serialized."""
    configs: list[Any] = _Unpickler(io.BytesIO(serialized), ()).load()
    return configs


def deserialize(serialized: SerializedCall, device: str | None = None) -> CallParts:
    """Recreate the parts of a launch.

    Args:
        serialized: A launch that another process has serialized.
        device: Kind of device on which memory is allocated; None for the kind of the original.
    """
    storages = [saved.storage(device) for saved in serialized.memory]
    _write_addresses(storages, serialized.addresses)
    return _read(serialized, storages)


def deserialize_fake(serialized: SerializedCall) -> CallParts:
    """Recreate a launch with fake tensors, which suffices to compile for a GPU without torch."""
    return _read(serialized, [None] * len(serialized.memory))


def _read(serialized: SerializedCall, storages: Sequence[Any]) -> CallParts:
    sys.path[:] = [*serialized.path]
    os.chdir(serialized.folder)
    for file, lines in serialized.lines.items():
        text = "".join(lines)
        linecache.cache[file] = (len(text), None, list(lines), file)
    parts = _Unpickler(io.BytesIO(serialized.payload), storages).load()
    assert isinstance(parts, CallParts)
    return parts


def _write_addresses(
    storages: Sequence[Any], addresses: Sequence[tuple[int, int, int, int]]
) -> None:
    """Write the addresses that storages have in this process into the tables of addresses."""
    import torch

    words: dict[int, dict[int, int]] = {}
    for table, at, number, offset in addresses:
        words.setdefault(table, {})[at // 8] = storages[number].data_ptr() + offset
    for table, addresses_by_index in words.items():
        storage = storages[table]
        whole = whole_storage(storage)[: storage.nbytes() // 8 * 8].view(torch.int64)
        indices = torch.tensor(list(addresses_by_index.keys()), device="cpu")
        values = torch.tensor(list(addresses_by_index.values()), device="cpu")
        whole[indices.to(whole.device)] = values.to(whole.device)


@dataclass(frozen=True)
class SavedStorage:
    """The bytes of a storage, and the kind of device that it was on.

    Attributes:
        size: Size of the storage in bytes.
        device: Kind of device, `cpu` or `cuda`.
        content: The bytes; None if they do not matter, in which case the storage is zeroed.
    """

    size: int
    device: str
    content: Contents | GpuContents | bytes | None

    def storage(self, device: str | None) -> Any:
        """Allocate a storage with these bytes, on another kind of device if `device` is given."""
        import torch

        where = device or self.device
        if not self.content:
            return _zeros(self.size).to(where).untyped_storage()
        if isinstance(self.content, (Contents, GpuContents)):
            content = self.content.tensor()
        else:
            content = torch.frombuffer(bytearray(self.content), dtype=torch.uint8)
        if where != "cpu":
            return content.to(where).untyped_storage()
        # The bytes are copied, because kernels are specialised on aligned pointers, and `bytes` may
        # be unaligned.
        own = torch.empty(self.size, dtype=torch.uint8, device="cpu")
        return own.copy_(content).untyped_storage()


def _zeros(size: int) -> Any:
    """Return zero bytes that are committed only on use, aligned as torch aligns memory."""
    import torch

    buffer = np.zeros(size + _ALIGNED, np.uint8)
    start = -buffer.ctypes.data % _ALIGNED
    return torch.from_numpy(buffer[start : start + size])


def _address(storage: Any) -> tuple[str, int]:
    return str(storage.device), storage.data_ptr()


def _saved(storage: Any, shares: bool) -> SavedStorage:
    whole, device = whole_storage(storage), storage.device.type
    shared = gpu_contents_of(whole) if shares and device == "cuda" else None
    return SavedStorage(storage.nbytes(), device, shared or contents_of(whole))


def _view(storage: Any, spec: TensorSpec) -> Any:
    """Return a tensor on a storage; a fake tensor if there is no storage."""
    return FakeTensor(spec) if storage is None else tensor_on(storage, spec)


@dataclass(frozen=True)
class _StorageNumber:
    number: int


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    """A pickler for Triton's objects and for tensors; cloudpickle handles other objects.

    Attributes:
        lines: Source lines of the pickled kernels, by file.
        memory: Storages of the pickled tensors, by address.
    """

    def __init__(self, file: io.BytesIO, shares: bool, replaces: bool = False) -> None:
        super().__init__(file, protocol=5)
        self._shares, self._replaces = shares, replaces
        self.lines: dict[str, list[str]] = {}
        self.memory: dict[tuple[str, int], SavedStorage] = {}

    def persistent_id(self, obj: Any) -> int | None:
        """Return the number that stands for a storage; None for other objects."""
        return obj.number if isinstance(obj, _StorageNumber) else None

    def reducer_override(self, obj: Any) -> Any:
        """Return how to write an object; `NotImplemented` leaves it to pickle."""
        if triton_versions.rebuilds(obj):
            return self._kernel(obj)
        if hasattr(obj, "untyped_storage") and hasattr(obj, "storage_offset"):
            return self._tensor(obj)
        if isinstance(obj, tuple) and type(obj).__module__ == "torch":
            return _size, (tuple(obj),)
        if isinstance(obj, CodeType):
            make, parts = self.dispatch_table[CodeType](obj)
            return _code_again, (make, parts, obj.co_filename)
        reduced = super().reducer_override(obj)
        if reduced is NotImplemented and not isinstance(obj, (type, FunctionType)):
            reducer = self.dispatch_table.get(type(obj))
            return reduced_or_replaced(obj, reducer, self._replaces)
        return reduced

    def _kernel(self, kernel: Any) -> Any:
        """Write a kernel by name if it belongs to Triton, else with its current source."""
        named = reduced_by_name(kernel)
        if named is not None:
            return named
        if hasattr(kernel, "fn"):
            self._keep_source(triton_versions.innermost_jit_function(kernel).fn)
        return triton_versions.rebuilding(kernel)

    def _tensor(self, tensor: Any) -> Any:
        import torch

        if tensor.layout is not torch.strided:
            raise CannotSendError(f"a tensor of layout {tensor.layout}")
        storage = tensor.untyped_storage()
        address = _address(storage)
        if address not in self.memory:
            self.memory[address] = _saved(storage, self._shares)
        number, spec = self.number(tensor), memory_spec(tensor)
        assert spec is not None
        return _view, (_StorageNumber(number), structs.replace(spec, storage=number))

    def number(self, tensor: Any) -> int:
        return list(self.memory).index(_address(tensor.untyped_storage()))

    def _keep_source(self, function: Any) -> None:
        file = function.__code__.co_filename
        self.lines.setdefault(file, linecache.getlines(file, function.__globals__))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, storages: Sequence[Any]) -> None:
        super().__init__(file)
        self._storages = storages

    def persistent_load(self, pid: Any) -> Any:
        return self._storages[pid]


def _code_again(make: Callable[..., CodeType], parts: tuple[Any, ...], file: str) -> CodeType:
    """Recreate a code object with its file name, which Triton needs to find the source.

    cloudpickle 3.1.3 drops the file name.
    """
    return make(*parts).replace(co_filename=file)


def _size(sizes: tuple[int, ...]) -> Any:
    """Return a `torch.Size`, the type of a descriptor's shape; a tuple if torch is not imported."""
    torch = sys.modules.get("torch")
    return sizes if torch is None else torch.Size(sizes)


def _is_mapped(arguments: Any) -> bool:
    """Return whether a tensor reports a GPU as its device although its memory is on the CPU."""
    for argument in arguments:
        if getattr(argument, "is_cuda", False) and hasattr(argument, "untyped_storage"):
            return on_host(argument)
    return False


def _unimportable_modules() -> Iterator[Any]:
    """Yield modules that another process would not find by their name."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or "." in name or name == "__main__":
            continue
        try:
            importable = PathFinder.find_spec(name)
        except (ImportError, ValueError):
            continue
        origin = None if importable is None else importable.origin
        spec = getattr(module, "__spec__", None)
        if origin is None and spec is not None and type(spec.loader).__name__ == "SourceFileLoader":
            yield module


@contextmanager
def _by_value(modules: Iterator[Any]) -> Iterator[None]:
    registered = list(modules)
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)
