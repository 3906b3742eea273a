"""What a trace holds: launches, assignments, and one value as a NumPy array.

Must not know how traces are written or read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.errors import UsageError
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
class Argument:
    """A parameter of a launch, as it was passed.

    Attributes:
        type: as Triton calls it.
        value: of a number; None for a pointer.
        strides: of a tensor, in elements.
        address: of a pointer: its first element's.
        storage: of a pointer: first address of the storage and the one past its last.
    """

    name: str
    type: str
    value: bool | int | float | None = None
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    address: int = 0
    storage: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Launch:
    """A launch of which something was recorded.

    Attributes:
        index: its number in the run.
        arguments: one per parameter.
    """

    index: int
    kernel: str
    grid: Program
    arguments: tuple[Argument, ...]

    def coordinates(self, program: int) -> Program:
        """The ids of a program along the grid's dimensions."""
        x, y, _ = self.grid
        return program % x, program // x % y, program // (x * y)

    def linear(self, program: int | Sequence[int]) -> int:
        if isinstance(program, int):
            return program
        px, py, pz = (*program, 0, 0)[:3]
        return int(px + self.grid[0] * (py + self.grid[1] * pz))


@dataclass(frozen=True)
class Assignment:
    """Where a variable is assigned in a kernel.

    Attributes:
        callers: file and line of the calls that led there, innermost first.
        element: its type, as MLIR writes it.
        shape: of the value, `()` for a scalar.
        masked: a mask is recorded with each value.
        filled: what the mask holds back has a value too, the `other` of a load.
        parameter: that a pointer derives from; -1 if unknown.
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
        """Type and shape, as `float32[128, 64]`."""
        return type_name(self.element) + (f"[{', '.join(map(str, self.shape))}]" * bool(self.shape))

    @property
    def lanes(self) -> int:
        """How many elements a value has."""
        return prod(self.shape)


@dataclass(frozen=True, eq=False)
class Record:
    """One value: of a variable, in a program, in one iteration of the loops around it.

    Attributes:
        assignment: the variable and its line.
        program: its ids along the grid's dimensions.
        iteration: how often each enclosing loop had gone round before, outermost first.
    """

    assignment: Assignment
    launch: Launch
    linear_program: int
    iteration: tuple[int, ...]
    _raw: memoryview = field(repr=False)

    @property
    def program(self) -> Program:
        """The program's ids along the grid's dimensions."""
        return self.launch.coordinates(self.linear_program)

    @property
    def name(self) -> str:
        return self.assignment.name

    @property
    def values(self) -> NDArray[Any]:
        """The elements, undefined ones as the engine has them; addresses for pointers.

        Integers are signed whatever the variable's type, since the compiler's have no sign.
        """
        kind = numpy_type(self.assignment.element)
        assert kind is not None  # checked when it was read
        start = self.assignment.lanes if self.assignment.masked else 0
        return np.frombuffer(self._raw[start:], kind).reshape(self.assignment.shape)

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """Which lanes a masked load or store accesses; None if all."""
        if not self.assignment.masked:
            return None
        lanes, shape = self.assignment.lanes, self.assignment.shape
        return np.frombuffer(self._raw[:lanes], np.bool_).reshape(shape)

    @property
    def defined(self) -> NDArray[np.bool_] | None:
        """Which lanes hold a value that means something; None if all."""
        return None if self.assignment.filled else self.mask

    @property
    def figures(self) -> Figures:
        """Least, greatest, mean, NaNs of the elements that are defined."""
        return figures(self.values, self.defined)

    @cached_property
    def targets(self) -> tuple[list[str], NDArray[np.int64]]:
        """The arguments that pointers lead to, and elements from each one's first.

        An argument is the one that the pointer derives from, wherever it leads; else the one whose
        storage it leads into, or `""`, the address then being kept as it is.
        """
        if not is_pointer(self.assignment.element):
            raise UsageError(f"`{self.name}` holds no pointers but {self.assignment.type}")
        addresses = self.values.reshape(-1)
        item = pointee_bytes(self.assignment.element)
        names, offsets = [""] * addresses.size, addresses.copy()
        pointers = [a for a in self.launch.arguments if a.value is None]
        if self.assignment.parameter >= 0:
            pointers = [self.launch.arguments[self.assignment.parameter]]
        for argument in pointers:
            low, high = argument.storage
            inside = (addresses >= low) & (addresses < high)
            if self.assignment.parameter >= 0:
                inside[:] = True
            offsets[inside] = (addresses[inside] - argument.address) // item
            for lane in np.flatnonzero(inside):
                names[lane] = argument.name
        return names, offsets.reshape(self.assignment.shape)
