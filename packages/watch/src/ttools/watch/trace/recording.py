"""Reading of traces from memory or files, and access to their values as NumPy arrays."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ttools.core.errors import UsageError
from ttools.watch.trace.elements import numpy_type
from ttools.watch.trace.record import Assignment, Record, TraceEntry, traced
from ttools.watch.trace.trace_format import ValueBlock, read_blocks


class Recording(Sequence[Record]):
    """Values of watched variables, in the order in which each program computed them.

    Args:
        data: Bytes of a trace.
        name: Name of the trace, for messages.

    Attributes:
        launches: Launches by their numbers.
        assignments: Assignments by their numbers.
        sources: Texts of the source files at recording time.
        complete: True if writing the trace was finished.
        refused: Number of values that are missing because the limit of the trace was reached.

    Raises:
        UsageError: The data is not a trace, or is damaged.
    """

    def __init__(self, data: Any, name: str = "the recording") -> None:
        self._data = memoryview(data)
        self._name = name
        self.launches: dict[int, TraceEntry] = {}
        self.assignments: dict[int, Assignment] = {}
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
            raise UsageError(f"`{self._name}` is damaged: a description is invalid") from None

    def _launch(self, data: Mapping[str, Any]) -> None:
        launch = traced(data)
        if min(launch.grid) < 1:
            raise ValueError(launch)
        self.launches[launch.index] = launch

    def _assignment(self, data: Mapping[str, Any]) -> None:
        assignment = msgspec.convert(data, Assignment)
        if numpy_type(assignment.element) is None or any(n < 1 for n in assignment.shape):
            raise ValueError(assignment)
        self.assignments[int(data["number"])] = assignment

    def _source(self, data: Mapping[str, Any]) -> None:
        self.sources[str(data["file"])] = str(data["text"])

    def _end(self, data: Mapping[str, Any]) -> None:
        self.complete = True
        self.refused = int(data["refused"])

    def _check(self, block: ValueBlock) -> None:
        assignment, launch = self.assignments.get(block.assignment), self.launches.get(block.launch)
        kind = None if assignment is None else numpy_type(assignment.element)
        if assignment is None or launch is None or kind is None:
            raise UsageError(f"`{self._name}` is damaged: a value has no description")
        expected = 8 * block.loops + assignment.lanes * (kind.itemsize + assignment.masked)
        derived = launch.spec.argument(assignment.parameter)
        ok = assignment.parameter < 0 or (derived is not None and derived.tensor is not None)
        if block.size != expected or not 0 <= block.program < prod(launch.grid) or not ok:
            raise UsageError(f"`{self._name}` is damaged: a value does not fit its description")

    # ---- access

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, index: Any) -> Any:
        """Return a record by index, a list of records by slice, or those of a variable by name."""
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
        launch, assignment = self.launches[block.launch], self.assignments[block.assignment]
        return Record(assignment, launch, block.program, iteration, raw[iterations:])

    @property
    def names(self) -> list[str]:
        """Return the variables with recorded values."""
        numbers = dict.fromkeys(block.assignment for block in self._blocks)
        return list(dict.fromkeys(self.assignments[n].name for n in numbers))

    def source_lines(self, file: str) -> list[str]:
        """Return the lines of a source file when it was recorded; none if it was unreadable."""
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
        """Return the records that match all given criteria.

        Args:
            name: Name of the variable.
            launch: Number of the launch.
            program: Linear id, or ids along the grid's axes.
            iteration: Iterations of the enclosing loops, outermost first.

        Raises:
            UsageError: No variable with that name was recorded.
        """
        if name is not None and name not in self.names:
            raise UsageError(
                f"nothing named `{name}` was recorded; there are {', '.join(self.names) or 'none'}"
            )
        return [
            self._record(block)
            for block in self._blocks
            if _matches(self.assignments[block.assignment].name, name)
            and _matches(self.assignments[block.assignment].line, line)
            and _matches(self.launches[block.launch].kernel, kernel)
            and _matches(block.launch, launch)
            and (
                program is None or block.program == self.launches[block.launch].spec.linear(program)
            )
            and (iteration is None or self._record(block).iteration == tuple(iteration))
        ]


def open_trace(path: str | Path) -> Recording:
    """Open a trace written by `--trace` or `watch(trace=...)`.

    Raises:
        UsageError: The file cannot be read, is not a trace, or is damaged.
    """
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read the trace `{path}`: {reason}") from None
    return Recording(data, str(path))


def _matches(value: object, expected: object) -> bool:
    return expected is None or value == expected


_DESCRIPTIONS: dict[str, Any] = {
    "launch": Recording._launch,
    "assignment": Recording._assignment,
    "place": Recording._assignment,  # the name in version 1 of the format
    "source": Recording._source,
    "end": Recording._end,
}
