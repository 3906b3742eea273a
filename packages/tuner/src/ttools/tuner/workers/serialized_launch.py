"""A launch of an autotuned kernel as bytes, from which another process makes it again.

The kernel's functions travel by value, with its arguments, hooks and configurations, memory with
its aliases, and the source lines that Triton reads. Functions of modules that the other process
could import travel by name.
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

from ttools.core import triton_versions
from ttools.core.device_map.memory import on_host
from ttools.core.errors import TtoolsError
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.tuner.measure.pointees import pointees_of
from ttools.tuner.measure.timing import timing_of
from ttools.tuner.workers.contents import Contents, contents_of
from ttools.tuner.workers.fake_tensor import ElementType, FakeStorage, FakeTensor
from ttools.tuner.workers.gpu_contents import GpuContents, gpu_contents_of
from ttools.tuner.workers.references import reduced_by_name, reduced_or_replaced

_WARMUP = "warmup"
#: Bytes that torch aligns the memory of the CPU to.
_ALIGNED = 64
_WORD = ElementType("int64", 8)


class CannotSendError(TtoolsError):
    """Something in a launch cannot be made again in another process."""


@dataclass(frozen=True, kw_only=True)
class SerializedCall:
    """A launch that another process can make.

    Attributes:
        payload: `CallParts`, in which storages are numbers.
        path: `sys.path`, for modules that travel by name.
        folder: in which relative paths are meant.
        lines: source lines by file, as they were when the kernels were written.
        addresses: words of storages that are addresses of others: number of the storage, offset
            of the word in it, number of the storage it leads to, offset in that; both in bytes.
        name: unique.
    """

    payload: bytes
    memory: Sequence[SavedStorage]
    path: Sequence[str]
    folder: str
    lines: Mapping[str, Sequence[str]]
    addresses: Sequence[tuple[int, int, int, int]] = ()
    name: str = field(default_factory=lambda: uuid4().hex)

    def without_contents(self) -> SerializedCall:
        """The same launch on memory that was never written: enough to compile it."""
        return replace(self, memory=tuple(replace(each, content=None) for each in self.memory))

    def for_other_machines(self) -> SerializedCall:
        """The same launch with all its memory in it."""
        whole = (
            replace(each, content=bytes(each.content))
            if isinstance(each.content, Contents)
            else each
            for each in self.memory
        )
        return replace(self, memory=tuple(whole))


@dataclass(frozen=True, kw_only=True)
class CallParts:
    """What a serialized launch is made of.

    Attributes:
        tuner: an autotuner over the configurations to try, without pruning of its own.
        arguments: all that was passed, by name.
        mapped: whether tensors of the CPU pass for those of a GPU.
        reached: tensors that tables of addresses among the arguments lead to.
    """

    tuner: Any
    arguments: Mapping[str, Any]
    mapped: bool
    reached: Sequence[Any] = ()


def serialize(launch: TunedCall, shares: bool = False, replaces: bool = False) -> SerializedCall:
    """Serializes a launch, with memory as it is now.

    Args:
        shares: whether a GPU's memory is to be copied by those who read it, which must see that
            GPU, and while the launch waits.
        replaces: If True, an `UnavailableObject` takes the place of what cannot be written.

    Raises:
        CannotSendError: part of it cannot be made again elsewhere; which is said.
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
            (pickler.number(each.table), each.at, pickler.number(each.tensor), each.offset)
            for each in pointees.addresses
        ],
    )


def serialize_configs(configs: Sequence[Any]) -> bytes:
    """Configurations of a launch that its serialized form leaves out.

    Raises:
        CannotSendError: a hook of one of them cannot be sent.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, shares=False)
    hooks = any(each.pre_hook is not None for each in configs)
    try:
        with _by_value(_unimportable_modules() if hooks else iter(())):
            pickler.dump(list(configs))
    except Exception as error:
        raise CannotSendError(f"a hook cannot be sent to another process: {error}") from error
    if pickler.memory:
        raise CannotSendError("a hook that holds a tensor cannot be sent to another process")
    return buffer.getvalue()


def deserialize_configs(serialized: bytes) -> list[Any]:
    """The configurations again."""
    found: list[Any] = _Unpickler(io.BytesIO(serialized), ()).load()
    return found


def deserialize(serialized: SerializedCall, device: str | None = None) -> CallParts:
    """Makes the parts of a launch again.

    Args:
        serialized: by another process.
        device: where memory is to be; by default on the same kind of device.
    """
    storages = [each.storage(device) for each in serialized.memory]
    _write_addresses(storages, serialized.addresses)
    return _read(serialized, storages)


def deserialize_fake(serialized: SerializedCall) -> CallParts:
    """The same with fake tensors: enough to compile for a GPU, and torch is not needed."""
    return _read(serialized, [FakeStorage(each.size) for each in serialized.memory])


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
    """Writes the addresses that storages have in this process into the tables among them."""
    import torch

    words: dict[int, dict[int, int]] = {}
    for table, at, number, offset in addresses:
        words.setdefault(table, {})[at // 8] = storages[number].data_ptr() + offset
    for table, found in words.items():
        storage = storages[table]
        whole = _view(storage, _WORD, (storage.nbytes() // 8,), (1,), 0)
        indices, values = (
            torch.tensor(list(each), device="cpu") for each in (found.keys(), found.values())
        )
        whole[indices.to(whole.device)] = values.to(whole.device)


@dataclass(frozen=True)
class SavedStorage:
    """The bytes of a storage, and the kind of device that it was on.

    Attributes:
        size: in bytes.
        device: `cpu`, `cuda`.
        content: None where it does not matter; it is zero then.
    """

    size: int
    device: str
    content: Contents | GpuContents | bytes | None

    def storage(self, device: str | None) -> Any:
        """A storage with these bytes, on another kind of device if one is named."""
        import torch

        where = device or self.device
        if not self.content:
            return _zeros(self.size).to(where).untyped_storage()
        if isinstance(self.content, (Contents, GpuContents)):
            known = self.content.tensor()
        else:
            known = torch.frombuffer(bytearray(self.content), dtype=torch.uint8)
        if where != "cpu":
            return known.to(where).untyped_storage()
        # Allocated, not borrowed from the bytes: kernels are specialised for aligned pointers.
        own = torch.empty(self.size, dtype=torch.uint8, device="cpu")
        return own.copy_(known).untyped_storage()


def _zeros(size: int) -> Any:
    """Bytes whose memory is not committed until it is used, aligned as torch aligns its own."""
    import torch

    room = np.zeros(size + _ALIGNED, np.uint8)
    start = -room.ctypes.data % _ALIGNED
    return torch.from_numpy(room[start : start + size])


def _address(storage: Any) -> tuple[str, int]:
    return str(storage.device), storage.data_ptr()


def _saved(storage: Any, shares: bool) -> SavedStorage:
    import torch

    whole = torch.empty(0, dtype=torch.uint8, device=storage.device)
    whole.set_(storage)
    device = storage.device.type
    shared = gpu_contents_of(whole) if shares and device == "cuda" else None
    return SavedStorage(storage.nbytes(), device, shared or contents_of(whole))


def _view(storage: Any, element: ElementType, size: Any, stride: Any, offset: int) -> Any:
    """A tensor; on fake memory an fake one."""
    if isinstance(storage, FakeStorage):
        return FakeTensor(storage=storage, dtype=element, shape=size, strides=stride, offset=offset)
    import torch

    empty = torch.empty(0, dtype=getattr(torch, element.name), device=storage.device)
    return empty.set_(storage, offset, size, stride)


@dataclass(frozen=True)
class _StorageNumber:
    number: int


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    """Knows Triton's objects and the memory of tensors; the rest is cloudpickle's.

    Attributes:
        lines: source lines of the functions that were written, by file.
        memory: storages of the tensors that were written, each once, by address.
    """

    def __init__(self, file: io.BytesIO, shares: bool, replaces: bool = False) -> None:
        super().__init__(file, protocol=5)
        self._shares, self._replaces = shares, replaces
        self.lines: dict[str, list[str]] = {}
        self.memory: dict[tuple[str, int], SavedStorage] = {}

    def persistent_id(self, obj: Any) -> int | None:
        """Storages are written separately."""
        return obj.number if isinstance(obj, _StorageNumber) else None

    def reducer_override(self, obj: Any) -> Any:
        """How an object is written; `NotImplemented` where pickle knows best."""
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
        """A kernel of a library by its name, any other one with its source as it is now."""
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
        storage_number = _StorageNumber(self.number(tensor))
        size, stride = tuple(tensor.size()), tuple(tensor.stride())
        element = ElementType(str(tensor.dtype).removeprefix("torch."), tensor.element_size())
        return _view, (storage_number, element, size, stride, tensor.storage_offset())

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
    """Code that knows its file, where Triton looks for its source: cloudpickle 3.1.3 drops it."""
    return make(*parts).replace(co_filename=file)


def _size(sizes: tuple[int, ...]) -> Any:
    """A `torch.Size`, as that of a descriptor's tensor; where torch is not needed a tuple."""
    torch = sys.modules.get("torch")
    return sizes if torch is None else torch.Size(sizes)


def _is_mapped(arguments: Any) -> bool:
    """Whether a tensor says that it is on a GPU although its memory is the CPU's."""
    for each in arguments:
        if getattr(each, "is_cuda", False) and hasattr(each, "untyped_storage"):
            return on_host(each)
    return False


def _unimportable_modules() -> Iterator[Any]:
    """Modules that another process would not find under their name."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or "." in name or name == "__main__":
            continue
        try:
            found = PathFinder.find_spec(name)
        except (ImportError, ValueError):
            continue
        origin = None if found is None else found.origin
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
