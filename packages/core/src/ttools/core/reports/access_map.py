"""Folds accesses of programs to the elements of a tensor into a picture of limited size.

Accesses are added piece by piece, so memory use is small for tensors of any size and launches of
any length. Runs of elements in memory are mapped to cells of a two-dimensional picture. The picture
shows a matrix as it is, a tensor with more dimensions as a series of slices, and a vector in rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttools.core.ranges import ranges

#: Maximum number of cells along an axis.
CELLS = 128
#: Maximum number of slices to show of a tensor with more than two dimensions.
SLICES = 6
KINDS = ("load", "store", "atomic")
_NO_PROGRAM = np.iinfo(np.int64).max

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class _Dimension:
    """A dimension in memory and its role in the picture."""

    stride: int
    extent: int
    role: str
    #: For dimensions before the last two: the number of slices to skip per index step.
    weight: int = 0


@dataclass
class _Counts:
    """Counts of one kind of access per cell: accessed elements, lowest and highest program."""

    elements: Ints
    low: Ints
    high: Ints


class AccessMap:
    """The map of one tensor.

    Args:
        shape: Extents of the tensor.
        strides: Strides in elements; none may be negative.
        followed: Linear ids of the programs whose cells are also recorded separately.

    Attributes:
        as_stored: True if elements are shown in memory order, because the tensor's strides overlap.
        rows: Number of elements from top to bottom.
        columns: Number of elements from left to right.
        slices: Numbers of the slices shown, in row-major order of leading indices.
        outside: Number of accessed elements outside the tensor.
    """

    def __init__(
        self, shape: Sequence[int], strides: Sequence[int], followed: Sequence[int] = ()
    ) -> None:
        self.shape = tuple(shape)
        self.as_stored = not _nests(shape, strides)
        if self.as_stored:
            moving = zip(strides, shape, strict=True)
            shape, strides = (1 + sum(s * (n - 1) for s, n in moving),), (1,)
        self._length: int | None = None
        self._dimensions = self._lay_out(shape, strides)
        # Order by decreasing stride; dimensions with one element come first.
        self._order = sorted(self._dimensions, key=lambda d: (d.extent > 1, -d.stride))
        count = prod(shape[:-2]) if len(shape) > 2 else 1
        self.slices = sorted({round(n) for n in np.linspace(0, count - 1, min(count, SLICES))})
        self._index_of_slice = np.full(count, -1, np.int64)
        self._index_of_slice[self.slices] = np.arange(len(self.slices))
        self.row_cells = min(self.rows, CELLS)
        self.column_cells = min(self.columns, CELLS)
        self._cells = len(self.slices) * self.row_cells * self.column_cells
        self._counts: dict[int, _Counts] = {}
        self._followed = np.array(sorted(set(followed)), np.int64)
        self._own: dict[tuple[int, int], set[int]] = {}
        self.outside = 0

    def _lay_out(self, shape: Sequence[int], strides: Sequence[int]) -> list[_Dimension]:
        if len(shape) == 0:
            shape, strides = (1,), (1,)
        if len(shape) == 1:
            return self._in_rows(shape[0], strides[0])
        self.rows, self.columns = shape[-2:]
        roles = [*("slice",) * (len(shape) - 2), "row", "column"]
        weights = [prod(shape[n + 1 : -2]) for n in range(len(shape))]
        return [
            _Dimension(max(stride, 1), extent, role, weight)
            for stride, extent, role, weight in zip(strides, shape, roles, weights, strict=True)
        ]

    def _in_rows(self, length: int, stride: int) -> list[_Dimension]:
        """Split a vector into rows if one row would be too long."""
        self._length = length
        per_cell = max(1, -(-length // (CELLS * CELLS)))
        self.columns = min(length, per_cell * CELLS)
        self.rows = max(1, -(-length // max(1, self.columns)))
        row = _Dimension(stride * self.columns, self.rows, "row")
        return [row, _Dimension(max(stride, 1), self.columns, "column")]

    # ---- adding accesses

    def add(self, start: Ints, stop: Ints, program: Ints, kind: Ints) -> None:
        """Add accesses.

        Args:
            start: First element of each run, counted in memory from the tensor's first element.
            stop: End of each run (exclusive).
            program: Linear id of the accessing program.
            kind: Kind of each access, an index into `KINDS`.
        """
        length = stop - start
        self.outside += int(length.sum())
        runs = np.stack([start, stop, program, kind])
        placed = self._split(runs[:, stop > start])
        for kind_number in np.unique(placed.kind).tolist():
            self._deposit(placed.where(placed.kind == kind_number), kind_number)

    def _split(self, runs: NDArray[np.int64]) -> _Pieces:
        """Split runs of memory at the ends of rows, slices and other dimensions."""
        start, stop, program, kind = runs
        at = {"slice": np.zeros(len(start), np.int64)}
        for dimension in self._order[:-1]:
            if dimension.extent == 1:
                _advance(at, dimension, np.zeros(len(start), np.int64))
                continue
            pitch = dimension.stride
            first = np.maximum(start // pitch, 0)
            last = np.minimum((stop - 1) // pitch, dimension.extent - 1)
            index, source = _expanded(first, last)
            begin = index * pitch
            start = np.maximum(start[source] - begin, 0)
            stop = np.minimum(stop[source] - begin, pitch)
            program, kind = program[source], kind[source]
            at = {role: indices[source] for role, indices in at.items()}
            _advance(at, dimension, index)
        fast = self._order[-1]
        first = -(-np.maximum(start, 0) // fast.stride)
        last = np.minimum((stop - 1) // fast.stride, fast.extent - 1)
        if fast.role == "slice":
            index, source = _expanded(first, last)
            at = {role: indices[source] for role, indices in at.items()}
            _advance(at, fast, index)
            zero = np.zeros(len(source), np.int64)
            at.setdefault("row", zero)
            column = at.pop("column", zero)
            return _Pieces(at, column, column, program[source], kind[source], along="column")
        inside = last >= first
        indices = {role: values[inside] for role, values in at.items()}
        return _Pieces(
            indices, first[inside], last[inside], program[inside], kind[inside], along=fast.role
        )

    def _deposit(self, pieces: _Pieces, kind: int) -> None:
        pieces = pieces.where(self._is_inside(pieces))
        rows, columns = self.row_cells, self.column_cells
        along_row = pieces.along == "row"
        extent, cells = (self.rows, rows) if along_row else (self.columns, columns)
        bounds = -(-np.arange(cells + 1, dtype=np.int64) * extent // cells)
        cell, source = _expanded(pieces.first * cells // extent, pieces.last * cells // extent)
        pieces = pieces.where(source)
        self.outside -= int((self._ends(pieces, bounds, cell)).sum())
        index = self._index_of_slice[pieces.at["slice"]]
        shown = index >= 0
        number = self._ends(pieces, bounds, cell)[shown]
        pieces, cell, index = pieces.where(shown), cell[shown], index[shown]
        if along_row:
            row, column = cell, pieces.at["column"] * columns // self.columns
        else:
            row, column = pieces.at["row"] * rows // self.rows, cell
        flat = (index * rows + row) * columns + column
        counts = self._counts.get(kind)
        if counts is None:
            no_program = np.full(self._cells, _NO_PROGRAM)
            counts = _Counts(np.zeros(self._cells, np.int64), no_program, np.full(self._cells, -1))
            self._counts[kind] = counts
        np.add.at(counts.elements, flat, number)
        np.minimum.at(counts.low, flat, pieces.program)
        np.maximum.at(counts.high, flat, pieces.program)
        self._follow(flat, pieces.program, kind)

    def _ends(self, pieces: _Pieces, bounds: Ints, cell: Ints) -> Ints:
        """Return how many elements of each piece are in its cell."""
        stop = np.minimum(pieces.last + 1, bounds[cell + 1])
        return np.asarray(stop - np.maximum(pieces.first, bounds[cell]))

    def _is_inside(self, pieces: _Pieces) -> NDArray[np.bool_]:
        """Return a mask of the pieces inside the tensor; a vector's last row may be incomplete."""
        if self._length is None:
            return np.ones(len(pieces.first), np.bool_)
        if pieces.along == "row":
            inside = pieces.first * self.columns + pieces.at["column"] < self._length
            return np.asarray(inside)
        begin = pieces.at["row"] * self.columns
        np.minimum(pieces.last, self._length - 1 - begin, out=pieces.last)
        return np.asarray(pieces.last >= pieces.first)

    def _follow(self, flat: Ints, program: Ints, kind: int) -> None:
        for followed in self._followed[np.isin(self._followed, program)].tolist():
            cells = np.unique(flat[program == followed]).tolist()
            self._own.setdefault((followed, kind), set()).update(cells)

    # ---- result

    def data(self) -> dict[str, Any]:
        """Return the map as data for JSON; cells are row by row, slice by slice."""
        kinds = {}
        for kind, counts in sorted(self._counts.items()):
            touched = counts.high >= 0
            kinds[KINDS[kind]] = {
                "elements": counts.elements.tolist(),
                "low": np.where(touched, counts.low, -1).tolist(),
                "high": counts.high.tolist(),
            }
        own_cells: dict[str, dict[str, list[int]]] = {}
        for (program, kind), cells in sorted(self._own.items()):
            own_cells.setdefault(str(program), {})[KINDS[kind]] = _runs(sorted(cells))
        return {
            "shape": list(self.shape),
            "as_stored": self.as_stored,
            "length": self._length,
            "rows": self.rows,
            "columns": self.columns,
            "row_cells": self.row_cells,
            "column_cells": self.column_cells,
            "slices": self.slices,
            "kinds": kinds,
            "own": own_cells,
        }


@dataclass
class _Pieces:
    """Runs along one axis of the picture; `last` is inclusive."""

    at: dict[str, Ints]
    first: Ints
    last: Ints
    program: Ints
    kind: Ints
    along: str

    def where(self, chosen: NDArray[Any]) -> _Pieces:
        at = {role: values[chosen] for role, values in self.at.items()}
        ends = self.first[chosen], self.last[chosen]
        return _Pieces(at, *ends, self.program[chosen], self.kind[chosen], self.along)


def _advance(at: dict[str, Ints], dimension: _Dimension, index: Ints) -> None:
    if dimension.role == "slice":
        at["slice"] = at["slice"] + index * dimension.weight
    else:
        at[dimension.role] = index


def _expanded(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return the integers from each `first` to its `last`, and for each the index of its range."""
    return ranges(first, np.maximum(last - first + 1, 0))


def _nests(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether each stride exceeds the span of the dimensions with smaller strides."""
    span = 1
    for stride, extent in sorted(zip(strides, shape, strict=True)):
        if extent > 1 and stride < span:
            return False
        span = max(span, stride * (extent - 1) + span)
    return True


def _runs(cells: Sequence[int]) -> list[int]:
    """Return the first cell and the length of each run of adjacent cells, as a flat list."""
    flat: list[int] = []
    for first, length in _neighbours(cells):
        flat += [first, length]
    return flat


def _neighbours(cells: Sequence[int]) -> Iterator[tuple[int, int]]:
    begin = 0
    for n in range(1, len(cells) + 1):
        if n == len(cells) or cells[n] != cells[n - 1] + 1:
            yield cells[begin], n - begin
            begin = n
