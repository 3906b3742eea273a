"""What was recorded of watched variables, as NumPy arrays.

Owns the reading of traces, in memory or in files, and the ways to ask for values. Must not know how
they were recorded.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
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
from ttools.watch.trace.trace_format import ValueBlock, read_blocks

Program = tuple[int, int, int]


@dataclass(frozen=True)
class Argument:
    """A parameter of a launch, as it was passed.

    Attributes:
        name: of the parameter.
        type: as Triton calls it.
        value: of a number; None for a pointer.
        shape: of a tensor.
        strides: of a tensor, in elements.
        address: of a pointer: its first element's.
        storage: of a pointer: first address of the storage and the one past its last.
    """

    name: str
    type: str
    value: int | float | None = None
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    address: int = 0
    storage: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Launch:
    """A launch of which something was recorded.

    Attributes:
        index: its number in the run.
        kernel: the kernel's name.
        grid: three extents.
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
        """The linear id of a program."""
        if isinstance(program, int):
            return program
        px, py, pz = (*program, 0, 0)[:3]
        return int(px + self.grid[0] * (py + self.grid[1] * pz))


@dataclass(frozen=True)
class Place:
    """Where a variable is assigned in a kernel.

    Attributes:
        kernel: the kernel's name.
        name: the variable's.
        file: of the assignment.
        line: of the assignment.
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
        place: the variable and its line.
        launch: the launch.
        program: its ids along the grid's dimensions.
        iteration: how often each enclosing loop had gone round before, outermost first.
    """

    place: Place
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
        """The variable."""
        return self.place.name

    @property
    def values(self) -> NDArray[Any]:
        """The elements, undefined ones as the engine has them; addresses for pointers.

        Integers are signed whatever the variable's type, since the compiler's have no sign.
        """
        kind = numpy_type(self.place.element)
        assert kind is not None  # checked when it was read
        start = self.place.lanes if self.place.masked else 0
        return np.frombuffer(self._raw[start:], kind).reshape(self.place.shape)

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """Which lanes a masked load or store accesses; None if all."""
        if not self.place.masked:
            return None
        return np.frombuffer(self._raw[: self.place.lanes], np.bool_).reshape(self.place.shape)

    @property
    def defined(self) -> NDArray[np.bool_] | None:
        """Which lanes hold a value that means something; None if all."""
        return None if self.place.filled else self.mask

    @property
    def figures(self) -> Figures:
        """Least, greatest, mean, NaNs of the elements that are defined."""
        return figures(self.values, self.defined)

    @cached_property
    def targets(self) -> tuple[list[str], NDArray[np.int64]]:
        """Of pointers: the arguments they lead to, and elements from each one's first.

        An argument is the one that the pointer derives from, wherever it leads; else the one whose
        storage it leads into, or `""`, the address then being kept as it is.
        """
        if not is_pointer(self.place.element):
            raise UsageError(f"`{self.name}` holds no pointers but {self.place.type}")
        addresses = self.values.reshape(-1)
        item = pointee_bytes(self.place.element)
        names, offsets = [""] * addresses.size, addresses.copy()
        pointers = [a for a in self.launch.arguments if a.value is None]
        if self.place.parameter >= 0:
            pointers = [self.launch.arguments[self.place.parameter]]
        for argument in pointers:
            low, high = argument.storage
            inside = (addresses >= low) & (addresses < high)
            if self.place.parameter >= 0:
                inside[:] = True
            offsets[inside] = (addresses[inside] - argument.address) // item
            for lane in np.flatnonzero(inside):
                names[lane] = argument.name
        return names, offsets.reshape(self.place.shape)


class Recording(Sequence[Record]):
    """Values of watched variables, in the order in which each program had them.

    Args:
        data: of a trace.
        name: of it, for messages.

    Attributes:
        launches: by number.
        places: by number.
        sources: text of the files, as they were.
        complete: whether the trace was finished.
        refused: how many values did not fit.

    Raises:
        UsageError: the data is no trace, or damaged.
    """

    def __init__(self, data: Any, name: str = "the recording") -> None:
        self._data = memoryview(data)
        self._name = name
        self.launches: dict[int, Launch] = {}
        self.places: dict[int, Place] = {}
        self.sources: dict[str, str] = {}
        self.complete = False
        self.refused = 0
        self._lines: dict[str, list[str]] = {}
        self._blocks: list[ValueBlock] = []
        for block in read_blocks(data, name):
            if isinstance(block, ValueBlock):
                self._check(block)
                self._blocks.append(block)
            else:
                self._describe(block)
        self._blocks.sort(key=lambda block: (block.launch, block.program))

    # ---- reading

    def _describe(self, block: Mapping[str, Any]) -> None:
        try:
            for kind, data in block.items():
                _DESCRIPTIONS[kind](self, data)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UsageError(f"`{self._name}` is damaged: a description makes no sense") from None

    def _launch(self, data: Mapping[str, Any]) -> None:
        x, y, z = map(int, data["grid"])
        if min(x, y, z) < 1:
            raise ValueError(data["grid"])
        arguments = tuple(map(_argument, data["arguments"]))
        index = int(data["index"])
        self.launches[index] = Launch(index, str(data["kernel"]), (x, y, z), arguments)

    def _place(self, data: Mapping[str, Any]) -> None:
        place = Place(
            kernel=str(data["kernel"]),
            name=str(data["name"]),
            file=str(data["file"]),
            line=int(data["line"]),
            callers=tuple((str(file), int(line)) for file, line in data["callers"]),
            element=str(data["element"]),
            shape=tuple(int(extent) for extent in data["shape"]),
            masked=bool(data["masked"]),
            filled=bool(data["filled"]),
            parameter=int(data["parameter"]),
        )
        if numpy_type(place.element) is None or any(extent < 1 for extent in place.shape):
            raise ValueError(place)
        self.places[int(data["number"])] = place

    def _source(self, data: Mapping[str, Any]) -> None:
        self.sources[str(data["file"])] = str(data["text"])

    def _end(self, data: Mapping[str, Any]) -> None:
        self.complete = True
        self.refused = int(data["refused"])

    def _check(self, block: ValueBlock) -> None:
        place, launch = self.places.get(block.place), self.launches.get(block.launch)
        kind = None if place is None else numpy_type(place.element)
        if place is None or launch is None or kind is None:
            raise UsageError(f"`{self._name}` is damaged: a value of nothing that was described")
        expected = 8 * block.loops + place.lanes * (kind.itemsize + place.masked)
        pointers = [a for a in launch.arguments[place.parameter :][:1] if a.value is None]
        ok = place.parameter < 0 or bool(pointers)
        if block.size != expected or not 0 <= block.program < prod(launch.grid) or not ok:
            raise UsageError(f"`{self._name}` is damaged: a value does not fit its description")

    # ---- asking

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, index: Any) -> Any:
        """A record by number, several by a slice, those of a variable by its name."""
        if isinstance(index, str):
            return self.select(index)
        if isinstance(index, slice):
            return [self._record(block) for block in self._blocks[index]]
        return self._record(self._blocks[index])

    def __iter__(self) -> Iterator[Record]:
        return map(self._record, self._blocks)

    def _record(self, block: ValueBlock) -> Record:
        iterations = 8 * block.loops
        raw = self._data[block.start : block.start + block.size]
        iteration = tuple(np.frombuffer(raw[:iterations], "<i8").tolist())
        launch, place = self.launches[block.launch], self.places[block.place]
        return Record(place, launch, block.program, iteration, raw[iterations:])

    @property
    def names(self) -> list[str]:
        """The variables of which there are values."""
        numbers = dict.fromkeys(block.place for block in self._blocks)
        return list(dict.fromkeys(self.places[n].name for n in numbers))

    def source_lines(self, file: str) -> list[str]:
        """The lines of a file as it was when the kernel ran; none if it could not be read."""
        if file not in self._lines:
            self._lines[file] = self.sources.get(file, "").splitlines()
        return self._lines[file]

    def select(
        self,
        name: str | None = None,
        *,
        kernel: str | None = None,
        launch: int | None = None,
        program: int | Sequence[int] | None = None,
        iteration: Sequence[int] | None = None,
        line: int | None = None,
    ) -> list[Record]:
        """The records that answer a description; what is None is not asked for.

        Args:
            name: of the variable.
            kernel: the kernel's name.
            launch: the launch's number.
            program: linear id, or ids along the grid's dimensions.
            iteration: iterations of the enclosing loops, outermost first.
            line: of the assignment.

        Raises:
            UsageError: nothing of that name was recorded.
        """
        if name is not None and name not in self.names:
            raise UsageError(
                f"nothing named `{name}` was recorded; there are {', '.join(self.names) or 'none'}"
            )
        return [
            self._record(block)
            for block in self._blocks
            if _is(self.places[block.place].name, name)
            and _is(self.places[block.place].line, line)
            and _is(self.launches[block.launch].kernel, kernel)
            and _is(block.launch, launch)
            and (program is None or block.program == self.launches[block.launch].linear(program))
            and (iteration is None or self._record(block).iteration == tuple(iteration))
        ]


def open_trace(path: str | Path) -> Recording:
    """Reads a trace that `--trace` or `watch(trace=...)` has written.

    Raises:
        UsageError: the file cannot be read, is no trace, or damaged.
    """
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read the trace `{path}`: {reason}") from None
    return Recording(data, str(path))


def _is(held: object, wanted: object) -> bool:
    return wanted is None or held == wanted


def _argument(data: Mapping[str, Any]) -> Argument:
    low, high = map(int, data["storage"])
    return Argument(
        name=str(data["name"]),
        type=str(data["type"]),
        value=data["value"] if isinstance(data["value"], (int, float)) else None,
        shape=tuple(map(int, data["shape"])),
        strides=tuple(map(int, data["strides"])),
        address=int(data["address"]),
        storage=(low, high),
    )


_DESCRIPTIONS: dict[str, Any] = {
    "launch": Recording._launch,
    "place": Recording._place,
    "source": Recording._source,
    "end": Recording._end,
}
