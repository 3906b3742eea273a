"""The operations of kernels that introduce errors. Each has a row in shadow values.

The row of an operation in a shadow value is the error of the value, to first order, that this
operation has introduced. The first rows do not belong to operations: they are the change of the
value if all inputs change a little at random; see `shadow`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.location import SourceLocation
from ttools.core.reports.accuracy import LineErrors
from ttools.interpreter.eager.debugging.frames import is_kernel_frame, location

#: Values in float64 or in extended precision.
Array = NDArray[np.floating[Any]]

#: Rows for random changes of all inputs.
INPUTS = 8
#: Rows for random changes of the inputs whose type has at most 16 bits.
NARROW = 8
#: Rows that belong to no operation.
FIXED = INPUTS + NARROW
#: Maximum number of operations with rows of their own.
_MOST = 192
#: The module of Triton whose functions produce random numbers.
_RANDOM = "triton.language.random"
#: The module of Triton that contains its sort, and the function that exchanges elements.
_STANDARD = "triton.language.standard"
_SWAP = "_compare_and_swap"


_WORDS = {
    "fadd": "addition",
    "fsub": "subtraction",
    "fmul": "multiplication",
    "fma": "multiplication with addition",
    "fdiv": "division",
    "precise_divf": "division",
    "fp_trunc": "conversion",
    "fp_to_fp": "conversion",
    "si_to_fp": "conversion of an integer",
    "ui_to_fp": "conversion of an integer",
    "reduce": "reduction",
    "scan": "scan",
    "dot": "matrix product",
    "atomic_rmw": "atomic addition",
}


def operation_text(operation: str) -> str:
    """Return the user-facing name of an operation, such as `addition`."""
    return _WORDS.get(operation, f"`{operation}`")


@dataclass(kw_only=True)
class Source:
    """An operation at a place in the source.

    Attributes:
        operation: Name of the builder's method, without `create_`.
        place: Where the operation is, with the calls that led to it the first time.
        type: Name of the MLIR type of the result.
        values: Names and values of the operands where the relative rounding error was largest.
        exact: Exact result of the operation on these operands.
        rounded: The result that the kernel computed.
        relative: The relative error of this result.
        special: How the operation first led to a value that is not finite: `overflow` if the result
            would be finite with a larger range; `underflow`, `cancellation` or `accuracy_loss` if a
            later operation is undefined for the inaccurate result; otherwise `nan` or `inf`.
        special_values: Names and values of the operands of this operation.
    """

    operation: str
    place: SourceLocation | None
    type: str
    values: tuple[tuple[str, float], ...] = ()
    exact: float = 0.0
    rounded: float = 0.0
    relative: float = 0.0
    special: str = ""
    special_values: tuple[tuple[str, float], ...] = ()

    @property
    def line(self) -> tuple[str, int]:
        """Return the file and the line for which errors are added up."""
        return ("", 0) if self.place is None else (self.place.file, self.place.line)


@dataclass(kw_only=True)
class LineSums:
    """Sums of errors of a line's operations whose results have the same type; see `LineErrors`."""

    location: SourceLocation
    dtype: np.dtype[Any]
    operations: dict[str, None]
    introduced: float = 0.0
    carried: float = 0.0
    size: float = 0.0


class Sources:
    """The table of sources of a run.

    Attributes:
        table: The sources; entry `n` has row `FIXED + n`.
        is_full: True if some operations share the last row.
    """

    def __init__(self) -> None:
        self.table: list[Source] = []
        self.is_full = False
        self._lines: dict[tuple[str, int, np.dtype[Any]], LineSums] = {}
        self._index: dict[object, int] = {}
        self._places: dict[tuple[CodeType, int], SourceLocation | None] = {}

    def at(self, operation: str, type: str) -> int:
        """Return the number of the source for an operation that the running kernel computes."""
        place = self.place()
        where = None if place is None else (place.file, place.line)
        index = self._index.get((operation, type, where))
        if index is None:
            if len(self.table) >= _MOST:
                self.is_full = True
                return len(self.table) - 1
            index = self._index[operation, type, where] = len(self.table)
            self.table.append(Source(operation=operation, place=place, type=type))
        return index

    def add_errors(
        self, operation: str, dtype: np.dtype[Any], introduced: float, carried: float, size: float
    ) -> None:
        """Add the errors of an operation that the running kernel computes to those of its line.

        Args:
            operation: Name of the operation.
            dtype: NumPy type of the result.
            introduced: Sum over all lanes of the absolute errors that the operation introduces.
            carried: Sum over all lanes of the absolute errors that result from errors of the
                operands.
            size: Sum of the absolute values of the result.
        """
        place = self.place()
        if place is None:
            return
        sums = self._lines.setdefault(
            (place.file, place.line, dtype), LineSums(location=place, dtype=dtype, operations={})
        )
        sums.operations[operation] = None
        sums.introduced += introduced
        sums.carried += carried
        sums.size += size

    def line_errors(self) -> list[LineErrors]:
        """Return the errors of all lines, in the order of the source."""
        import ml_dtypes

        return [
            LineErrors(
                location=SourceLocation(sums.location.file, sums.location.line, 0),
                operations=tuple(dict.fromkeys(map(operation_text, sums.operations))),
                dtype=str(sums.dtype),
                eps=float(ml_dtypes.finfo(sums.dtype).eps),  # type: ignore[no-untyped-call]
                introduced=sums.introduced,
                carried=sums.carried,
                size=sums.size,
            )
            for _, sums in sorted(self._lines.items(), key=lambda entry: entry[0][:2])
        ]

    def place(self) -> SourceLocation | None:
        """Return the place in the source that the running kernel is executing."""
        frame = _kernel_frame()
        if frame is None:
            return None
        key = frame.f_code, frame.f_lasti
        if key not in self._places:
            self._places[key] = location()
        return self._places[key]


def _kernel_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_kernel_frame(frame):
        frame = frame.f_back
    return frame


def in_random_numbers() -> bool:
    """Return whether the running operation belongs to Triton's random number generators."""
    return _is_inside(_RANDOM)


def in_sort() -> bool:
    """Return whether the running operation belongs to Triton's sort."""
    return _is_inside(_STANDARD, _SWAP)


def _is_inside(module: str, function: str = "") -> bool:
    """Return whether the kernel is running inside a function of a module."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_kernel_frame(frame):
        names = frame.f_globals.get("__name__"), frame.f_code.co_name
        if names[0] == module and function in ("", names[1]):
            return True
        frame = frame.f_back
    return False
