"""Descriptions of launches and their tensors as data, for files, comparisons and reports.

`LaunchSpec` describes which kernel is launched, on which grid, with which arguments and options,
and at which line of the program. `TensorSpec` describes how a tensor lies in its storage, without
its elements. Both are immutable and refer to no object of the running process, so a description
keeps no memory alive. msgspec encodes and decodes descriptions, and checks those in files against
the same constraints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

#: Start and end (exclusive) addresses of memory; None if they are unknown.
Extent: TypeAlias = "tuple[int, int] | None"
#: The extents of a grid, or the coordinates of a program in it.
Grid: TypeAlias = tuple[int, int, int]

_INT64 = 2**63
#: Largest size of an element in bytes, which is that of `complex128`.
_LARGEST_ELEMENT = 16
_MOST_DIMENSIONS = Meta(max_length=64)
_Natural = Annotated[int, Meta(ge=0, le=_INT64 - 1)]
_Stride = Annotated[int, Meta(ge=-_INT64, le=_INT64 - 1)]


class TensorSpec(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="tensor"
):
    """A tensor as a strided view of a storage.

    Attributes:
        storage: Number of the storage among those of a launch or a file; in descriptions made by
            `memory_spec`, the start address of the storage. Tensors with the same number share
            memory.
        offset: Bytes from the start of the storage to the first element.
        shape: Extents of the axes.
        strides: Distance between adjacent elements along each axis, in elements.
        dtype: Element type, by its name in torch without the module, such as `float32`.
        itemsize: Number of bytes per element.
        storage_bytes: Size of the storage; None if it is unknown, or recorded elsewhere in the
            file.
    """

    storage: _Natural
    offset: _Natural
    shape: Annotated[tuple[_Natural, ...], _MOST_DIMENSIONS]
    strides: Annotated[tuple[_Stride, ...], _MOST_DIMENSIONS]
    dtype: str
    itemsize: Annotated[int, Meta(ge=1, le=_LARGEST_ELEMENT)]
    storage_bytes: _Natural | None = None

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides):
            raise ValueError("Expected as many strides as extents")

    @property
    def address(self) -> int:
        """Return the address of the first element, provided that `storage` is an address."""
        return self.storage + self.offset

    @property
    def element_offset(self) -> int:
        """Return the number of elements from the start of the storage to the first element."""
        return self.offset // self.itemsize

    @property
    def extent(self) -> tuple[int, int]:
        """Return the start and end (exclusive) of the storage, if `storage` is an address."""
        return self.storage, self.storage + (self.storage_bytes or 0)

    @property
    def span(self) -> tuple[int, int]:
        """Return the start and end offsets, in bytes, of the elements in the storage."""
        if 0 in self.shape:
            return self.offset, self.offset
        steps = [
            (extent - 1) * stride * self.itemsize
            for extent, stride in zip(self.shape, self.strides, strict=True)
        ]
        first = self.offset + sum(step for step in steps if step < 0)
        return first, self.offset + sum(step for step in steps if step > 0) + self.itemsize

    @property
    def is_dense(self) -> bool:
        """Return whether the strides are those of a C-contiguous tensor of this shape."""
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected and 0 not in self.shape:
                return False
            expected *= extent
        return True

    @property
    def is_whole(self) -> bool:
        """Return whether the tensor is dense and fills its storage."""
        return self.is_dense and math.prod(self.shape) * self.itemsize == self.storage_bytes


class ObjectSpec(Struct, frozen=True, kw_only=True, tag_field="kind", tag="object"):
    """An argument that is neither a tensor nor a number.

    Attributes:
        type: Name of the argument's Python type.
        address: Address that the object represents, if it is used as a pointer.
    """

    type: str
    address: int | None = None


#: An argument as data; None is a null pointer.
Value: TypeAlias = TensorSpec | ObjectSpec | bool | int | float | None


class ArgumentSpec(Struct, frozen=True, kw_only=True):
    """A parameter of a kernel with its argument.

    Attributes:
        name: Name in the source; an element of a tuple has a name such as `name[0]`.
        type: Triton's type, such as `*fp32` or `i32`; empty if it is unknown.
        value: Data of the argument; None is a null pointer.
    """

    name: str
    type: str = ""
    value: Value = None

    @property
    def tensor(self) -> TensorSpec | None:
        """Return the argument if it is a tensor, else None."""
        return self.value if isinstance(self.value, TensorSpec) else None

    @property
    def dtype(self) -> str:
        """Return a tensor's element type, else the Python type's name; empty if it is unknown."""
        if isinstance(self.value, TensorSpec):
            return self.value.dtype
        if isinstance(self.value, ObjectSpec):
            return self.value.type
        return "" if self.value is None else type(self.value).__name__

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the extents of a tensor; None for anything else."""
        return self.value.shape if isinstance(self.value, TensorSpec) else None


class CompileOptions(Struct, frozen=True, kw_only=True):
    """The options of a launch that affect compilation.

    Attributes:
        warps: Warps per program on a GPU, `num_warps`.
        blocks: Thread blocks per program on a GPU, `num_ctas`.
        stages: Stages of pipelined loops on a GPU, `num_stages`.
        fp_fusion: If True, a multiplication and an addition may be fused, `enable_fp_fusion`.
        debug: If True, `device_assert` is compiled in.
        cooperative: If True, all programs run at once or not at all, `launch_cooperative_grid`.
    """

    warps: int = 4
    blocks: int = 1
    stages: int = 1
    fp_fusion: bool = True
    debug: bool = False
    cooperative: bool = False


class CallSite(Struct, frozen=True, kw_only=True):
    """The position of a launch in the program, and the autotuner configuration it used.

    Attributes:
        line: `file:line` of the launch in host code; None if it is unknown.
        config: Configuration of the autotuner, if an autotuner makes the launch.
        choices: Number of configurations that remained after the autotuner's early pruning.
    """

    line: str | None = None
    config: Mapping[str, Any] | None = None
    choices: int = 1


class LaunchSpec(Struct, frozen=True, kw_only=True):
    """A launch as data.

    Attributes:
        kernel: Name of the kernel.
        grid: Number of programs along each axis.
        arguments: One entry per parameter of the compiled kernel, excluding constants; empty if the
            spec describes only the launch signature.
        options: Options that affect the compilation of the kernel.
        site: Position of the launch in the program.
    """

    kernel: str
    grid: Grid
    arguments: tuple[ArgumentSpec, ...] = ()
    options: CompileOptions = CompileOptions()
    site: CallSite = CallSite()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the parameters."""
        return tuple(argument.name for argument in self.arguments)

    def argument(self, index: int) -> ArgumentSpec | None:
        """Return the argument of a parameter by index; None for -1, which means no parameter."""
        return self.arguments[index] if 0 <= index < len(self.arguments) else None

    def coordinates(self, program: int) -> Grid:
        """Return the ids of a program along the axes of the grid."""
        return coordinates(program, self.grid)

    def linear(self, program: int | Sequence[int]) -> int:
        """Return the linear number of a program, given either this number or the program's ids."""
        if isinstance(program, int):
            return program
        x, y, z = (*program, 0, 0)[:3]
        return int(x + self.grid[0] * (y + self.grid[1] * z))


def coordinates(program: int, grid: Grid) -> Grid:
    """Return the ids of a program along the axes of a grid."""
    x, y, _ = grid
    return program % x, program // x % y, program // (x * y)


def itemsize(dtype: str) -> int:
    """Return the size of an element in bytes, from its dtype's name: 1 for `float8_e5m2`."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else 1


def grid_of(extents: Sequence[Any]) -> Grid:
    """Return a grid of one to three extents as a grid with three."""
    x, y, z = (*map(int, extents), 1, 1, 1)[:3]
    return x, y, z


def storage_extent(argument: Any) -> Extent:
    """Return the addresses of the whole storage behind a pointer argument.

    Args:
        argument: A tensor, a wrapper around one (`triton.reinterpret`), an object with a method
            `storage_extent`, or any other object that Triton accepts as a pointer.

    Returns:
        None for raw addresses and for objects that only have `data_ptr()`.
    """
    try:
        storage = argument.untyped_storage()
        start, size = storage.data_ptr(), storage.nbytes()
    except AttributeError:
        return _wrapped_extent(argument)
    return start, start + size


def _wrapped_extent(argument: Any) -> Extent:
    if argument is None:
        return 0, 0  # a null pointer, through which nothing can be read or written
    own = getattr(argument, "storage_extent", None)
    if callable(own):
        start, end = own()
        return int(start), int(end)
    base = getattr(argument, "base", None)
    return storage_extent(base) if hasattr(base, "untyped_storage") else None


def memory_spec(argument: Any) -> TensorSpec | None:
    """Describe a tensor, a wrapper around one, or the tensor behind a descriptor.

    The storage is identified by its address, which is valid as long as the tensor exists.

    Returns:
        None for objects without shape, strides or element size.
    """
    tensor = argument if hasattr(argument, "stride") else getattr(argument, "base", argument)
    try:
        shape = tuple(map(int, tensor.shape))
        strides = tuple(int(tensor.stride(axis)) for axis in range(len(shape)))
        itemsize = int(tensor.element_size())
        address = int(tensor.data_ptr())
        dtype = str(getattr(argument, "dtype", tensor.dtype)).removeprefix("torch.")
    except (AttributeError, TypeError):
        return None
    start, end = storage_extent(tensor) or (address, None)
    return TensorSpec(
        storage=start,
        offset=max(0, address - start),
        shape=shape,
        strides=strides,
        dtype=dtype,
        itemsize=itemsize,
        storage_bytes=None if end is None else end - start,
    )


def view_spec(tensor: Any) -> TensorSpec:
    """Describe a tensor as a view of storage number 0, without reading addresses."""
    item = int(tensor.element_size())
    return TensorSpec(
        storage=0,
        offset=int(tensor.storage_offset()) * item,
        shape=tuple(map(int, tensor.shape)),
        strides=tuple(map(int, tensor.stride())),
        dtype=str(tensor.dtype).removeprefix("torch."),
        itemsize=item,
    )


def tensor_on(storage: Any, spec: TensorSpec) -> Any:
    """Return a view of a torch storage as described by a spec."""
    import torch

    empty = torch.empty(0, dtype=getattr(torch, spec.dtype), device=storage.device)
    return empty.set_(storage, spec.element_offset, spec.shape, spec.strides)


def whole_storage(storage: Any) -> Any:
    """Return a torch storage as a tensor of bytes, without a copy."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def argument_spec(
    name: str, argument: Any, storages: dict[int, int], kind: str = ""
) -> ArgumentSpec:
    """Describe an argument of a launch.

    Args:
        storages: Numbers of the launch's storages by address; new ones are added.
        kind: Triton's type of the parameter, such as `*fp32`.
    """
    value: Value
    if argument is None or isinstance(argument, bool):
        value = argument
    elif isinstance(argument, (int, float)):
        value = int(argument) if isinstance(argument, int) else float(argument)
    else:
        value = memory_spec(argument) or object_spec(argument)
    if isinstance(value, TensorSpec):
        number = storages.setdefault(value.storage, len(storages))
        value = replace(value, storage=number)
    return ArgumentSpec(name=name, type=kind, value=value)


def object_spec(argument: Any) -> ObjectSpec:
    """Describe an argument by its type, and by its address if it has one."""
    pointer = getattr(argument, "data_ptr", None)
    address = int(pointer()) if callable(pointer) else None
    return ObjectSpec(type=type(argument).__name__, address=address)
