"""The operations of kernels that introduce errors, each of which has a row in shadow values.

The row of an operation in a shadow value is the error of the value, to first order, that this
operation has introduced. The first rows do not belong to operations: they are the change of the
value if all inputs change a little at random; see `shadow`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import CodeType, FrameType

import numpy as np
from numpy.typing import NDArray

from ttools.core.location import SourceLocation
from ttools.interpreter.eager.debugging.frames import is_kernel_frame, location

Array = NDArray[np.float64]

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


@dataclass(kw_only=True)
class Source:
    """An operation at a place in the source.

    Attributes:
        operation: Name of the builder's method, without `create_`.
        place: Where the operation is, with the calls that led to it the first time.
        type: Name of the MLIR type of the result.
        values: Names and values of the operands where the relative rounding error was largest.
        exact: Result of the operation on these operands in float64.
        rounded: The result that the kernel computed.
        relative: The relative error of this result.
        special: How the operation first led to a value that is not finite: `overflow` if the result
            would be finite with a larger range; `underflow`, `cancellation` or `accuracy_loss` if
            a later operation is undefined for the inaccurate result; else `nan` or `inf`.
        special_values: Names and values of the operands there.
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
        """Return file and line, by which errors are added up."""
        return ("", 0) if self.place is None else (self.place.file, self.place.line)


class Sources:
    """The table of sources of a run.

    Attributes:
        table: The sources; entry `n` has row `FIXED + n`.
        is_full: True if some operations share the last row.
    """

    def __init__(self) -> None:
        self.table: list[Source] = []
        self.is_full = False
        self._index: dict[object, int] = {}
        self._places: dict[tuple[CodeType, int], SourceLocation | None] = {}

    def at(self, operation: str, type: str) -> int:
        """Return the number of the source for an operation that the running kernel computes."""
        frame = _kernel_frame()
        place = None
        if frame is not None:
            key = frame.f_code, frame.f_lasti
            if key not in self._places:
                self._places[key] = location()
            place = self._places[key]
        where = None if place is None else (place.file, place.line)
        index = self._index.get((operation, type, where))
        if index is None:
            if len(self.table) >= _MOST:
                self.is_full = True
                return len(self.table) - 1
            index = self._index[operation, type, where] = len(self.table)
            self.table.append(Source(operation=operation, place=place, type=type))
        return index


def _kernel_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_kernel_frame(frame):
        frame = frame.f_back
    return frame


def in_random_numbers() -> bool:
    """Return whether the running operation belongs to Triton's random number generators."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_kernel_frame(frame):
        if frame.f_globals.get("__name__") == _RANDOM:
            return True
        frame = frame.f_back
    return False
