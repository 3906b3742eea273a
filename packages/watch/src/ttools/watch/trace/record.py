"""The content of a trace: launches, assignments, and values as NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ttools.core.errors import UsageError
from ttools.core.spec import ArgumentSpec, LaunchSpec, TensorSpec, itemsize
from ttools.watch.trace.elements import (
    Figures,
    figures,
    is_pointer,
    numpy_type,
    pointee_bytes,
    type_name,
)

Program = tuple[int, int, int]


@dataclass(frozen=True)
class TraceEntry:
    """A launch with recorded values.

    Attributes:
        index: Number of the launch in the run.
        spec: The launch. Storages are identified by their addresses. Each pointer is described as a
            tensor, which has no dimensions if its shape is unknown.
    """

    index: int
    spec: LaunchSpec

    @property
    def kernel(self) -> str:
        return self.spec.kernel

    @property
    def grid(self) -> Program:
        """Return the number of programs along each axis."""
        return self.spec.grid


class _StoredArgument(Struct, frozen=True):
    """An argument as a trace stores it; a number has only `value`, a pointer the other fields."""

    name: str
    type: str
    value: bool | int | float | None = None
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    address: int = 0
    storage: tuple[int, int] = (0, 0)


class _StoredEntry(Struct, frozen=True):
    index: int
    kernel: str
    grid: Program
    arguments: tuple[_StoredArgument, ...]


def stored(entry: TraceEntry) -> object:
    """Return a launch in the form in which a trace stores it."""
    spec = entry.spec
    arguments = tuple(map(_stored_argument, spec.arguments))
    return _StoredEntry(entry.index, spec.kernel, spec.grid, arguments)


def _stored_argument(argument: ArgumentSpec) -> _StoredArgument:
    tensor, value = argument.tensor, argument.value
    if tensor is None:
        assert isinstance(value, (bool, int, float))
        return _StoredArgument(argument.name, argument.type, value)
    layout = tensor.shape, tensor.strides, tensor.address, tensor.extent
    return _StoredArgument(argument.name, argument.type, None, *layout)


def traced(data: Mapping[str, Any]) -> TraceEntry:
    """Return the launch from the form in which a trace stores it, see `stored`.

    Raises:
        ValueError: The description is invalid.
    """
    launch = msgspec.convert(data, _StoredEntry)
    arguments = tuple(map(_argument, launch.arguments))
    spec = LaunchSpec(kernel=launch.kernel, grid=launch.grid, arguments=arguments)
    return TraceEntry(launch.index, spec)


def _argument(argument: _StoredArgument) -> ArgumentSpec:
    if argument.value is not None:
        return ArgumentSpec(name=argument.name, type=argument.type, value=argument.value)
    return pointer_argument(
        argument.name,
        argument.type,
        argument.address,
        argument.storage,
        argument.shape,
        argument.strides,
    )


def pointer_argument(
    name: str,
    kind: str,
    address: int,
    storage: tuple[int, int],
    shape: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> ArgumentSpec:
    """Describe a pointer as a tensor.

    Args:
        name: Name of the parameter.
        kind: Triton's type of the parameter.
        address: Address of the first element.
        storage: First and past-the-end address of the storage.
        shape: Extents, if they are known.
        strides: Strides in elements, if they are known.
    """
    start, end = storage
    dtype = kind.removeprefix("*")
    tensor = TensorSpec(
        storage=start,
        offset=address - start,
        shape=shape,
        strides=strides,
        dtype=dtype,
        itemsize=itemsize(dtype),
        storage_bytes=end - start,
    )
    return ArgumentSpec(name=name, type=kind, value=tensor)


@dataclass(frozen=True)
class Assignment:
    """The assignment of a variable in a kernel.

    Attributes:
        callers: Files and lines of the calls that led to the assignment, innermost first.
        element: MLIR name of the element type.
        shape: Shape of the value, `()` for a scalar.
        masked: True if a mask is recorded with each value.
        filled: True if lanes outside the mask also have a value, namely the `other` of a load.
        parameter: Index of the parameter from which a pointer is derived; -1 if unknown.
    """

    kernel: str
    name: str
    file: str
    line: int
    callers: tuple[tuple[str, int], ...]
    element: str
    shape: tuple[int, ...]
    masked: bool
    filled: bool
    parameter: int

    @property
    def type(self) -> str:
        """Return type and shape, such as `float32[128, 64]`."""
        return type_name(self.element) + (f"[{', '.join(map(str, self.shape))}]" * bool(self.shape))

    @property
    def lanes(self) -> int:
        """Return the number of elements of a value."""
        return prod(self.shape)


@dataclass(frozen=True, eq=False)
class Record:
    """One value of a variable, in one program and one iteration of the enclosing loops.

    Attributes:
        assignment: The variable and its line.
        launch: The launch in which the value was recorded.
        linear_program: Linear id of the program.
        iteration: Zero-based iteration of each enclosing loop, outermost first.
    """

    assignment: Assignment
    launch: TraceEntry
    linear_program: int
    iteration: tuple[int, ...]
    _raw: memoryview = field(repr=False)

    @property
    def program(self) -> Program:
        """Return the program's ids along the grid's axes."""
        return self.launch.spec.coordinates(self.linear_program)

    @property
    def name(self) -> str:
        return self.assignment.name

    @property
    def values(self) -> NDArray[Any]:
        """Return the elements, including undefined ones; for pointers, return addresses.

        Integers are always returned as signed, because integer types in the IR have no signedness.
        """
        kind = numpy_type(self.assignment.element)
        assert kind is not None  # checked when it was read
        start = self.assignment.lanes if self.assignment.masked else 0
        return np.frombuffer(self._raw[start:], kind).reshape(self.assignment.shape)

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """Return the mask of the lanes that a load or store accesses; None for all lanes."""
        if not self.assignment.masked:
            return None
        lanes, shape = self.assignment.lanes, self.assignment.shape
        return np.frombuffer(self._raw[:lanes], np.bool_).reshape(shape)

    @property
    def defined(self) -> NDArray[np.bool_] | None:
        """Return the mask of the lanes that have a defined value; None for all lanes."""
        return None if self.assignment.filled else self.mask

    @property
    def figures(self) -> Figures:
        """Return statistics of the defined elements."""
        return figures(self.values, self.defined)

    @cached_property
    def targets(self) -> tuple[list[str], NDArray[np.int64]]:
        """Return the argument that each pointer belongs to, and the pointer's offset in elements.

        If a pointer is derived from a known argument, it belongs to that argument even if it points
        outside the argument's memory. Otherwise it belongs to the argument whose storage contains
        the address. If there is no such argument, the name is empty, and the offset is the address.
        """
        if not is_pointer(self.assignment.element):
            raise UsageError(f"`{self.name}` contains {self.assignment.type}, not pointers")
        addresses = self.values.reshape(-1)
        item = pointee_bytes(self.assignment.element)
        names, offsets = [""] * addresses.size, addresses.copy()
        arguments: Sequence[ArgumentSpec] = self.launch.spec.arguments
        if self.assignment.parameter >= 0:
            arguments = [arguments[self.assignment.parameter]]
        for argument in arguments:
            tensor = argument.tensor
            if tensor is None:
                continue
            low, high = tensor.extent
            inside = (addresses >= low) & (addresses < high)
            if self.assignment.parameter >= 0:
                inside[:] = True
            offsets[inside] = (addresses[inside] - tensor.address) // item
            for lane in np.flatnonzero(inside):
                names[lane] = argument.name
        return names, offsets.reshape(self.assignment.shape)
