"""Summaries of values for a page: a grid of cells and a histogram."""

from __future__ import annotations

from math import isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.watch.report.summary import value_text
from ttools.watch.trace.elements import is_pointer
from ttools.watch.trace.record import Record

#: Maximum number of cells of a value, and maximum number of bins of a histogram.
MOST_CELLS = 256
BINS = 24
#: Contents of cells without a number.
NAN, INFINITE, MASKED = "nan", "inf", "masked"


def value_data(record: Record) -> dict[str, Any]:
    """Return a value as data for JSON: its text, the grid of cells, and the histogram."""
    data: dict[str, Any] = {"text": value_text(record)}
    if not record.assignment.shape:
        return data
    values, mask = record.values, record.mask
    if is_pointer(record.assignment.element):
        names, values = record.targets
        if len(set(names)) > 1:
            return data
    wide = values.astype(np.float64)
    rows, columns, cells = fold(wide, mask)
    shape = list(record.assignment.shape)
    data |= {"rows": rows, "columns": columns, "cells": cells, "shape": shape}
    defined = (wide.reshape(-1) if mask is None else wide[mask]).reshape(-1)
    finite = defined[np.isfinite(defined)]
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        whole = bool(np.issubdtype(values.dtype, np.integer))
        counts, width = _histogram(finite, low, high, whole)
        data |= {"bins": counts, "low": _short(low), "high": _short(high)}
        data |= {"bin_width": width, "whole": whole}
    return data


def _histogram(
    finite: NDArray[np.float64], low: float, high: float, whole: bool
) -> tuple[list[int], float]:
    """Return the number of values in each bin, and the width of a bin.

    For integers, the width is an integer. Otherwise some bins would cover more integers than others
    do, and the histogram would seem to have gaps.
    """
    if low == high:
        return [finite.size], 0.0
    if whole:
        width = -((low - high - 1) // BINS)
        bins = int((high - low) // width) + 1
        position = (finite - low) // width
    else:
        bins, width = BINS, high / BINS - low / BINS
        # The values are scaled first, because the difference of two floats may overflow.
        scale = max(abs(low), abs(high))
        a, b = low / scale, high / scale
        position = (finite / scale - a) / (b - a) * BINS if b > a else np.zeros(finite.size)
    counts = np.bincount(np.minimum(position.astype(np.int64), bins - 1), minlength=bins)
    return [int(n) for n in counts], width


def fold(
    values: NDArray[np.float64], mask: NDArray[np.bool_] | None
) -> tuple[int, int, list[float | str]]:
    """Divide an array into a grid of cells, and compute the mean of the numbers in each cell.

    Args:
        values: Array with at least one dimension; the last axis is horizontal, from left to right.
        mask: True for defined elements; None if all are defined.

    Returns:
        The numbers of rows and columns, and the cells row by row. A cell that contains a NaN is
        `NAN`, a cell that contains an infinity is `INFINITE`, and a cell without defined values is
        `MASKED`.
    """
    grid, shown = _as_matrix(values, mask)
    extents = grid.shape
    most = _split_cells(*extents)
    rows, columns = (min(n, m) for n, m in zip(extents, most, strict=True))
    row = np.arange(extents[0]) * rows // extents[0]
    column = np.arange(extents[1]) * columns // extents[1]
    cell = (row[:, None] * columns + column[None, :]).reshape(-1)
    flat, defined = grid.reshape(-1), shown.reshape(-1)
    finite = defined & np.isfinite(flat)
    size = rows * columns
    sums = np.bincount(cell[finite], flat[finite], size)
    numbers = np.bincount(cell[finite], minlength=size)
    nans = np.bincount(cell[defined & np.isnan(flat)], minlength=size)
    infinite = np.bincount(cell[defined & np.isinf(flat)], minlength=size)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        means = sums / numbers
    return (
        rows,
        columns,
        [
            NAN if bad else INFINITE if far else _short(mean) if count else MASKED
            for bad, far, count, mean in zip(nans, infinite, numbers, means, strict=True)
        ],
    )


def _as_matrix(
    values: NDArray[np.float64], mask: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    shown = np.ones(values.shape, np.bool_) if mask is None else mask
    if values.ndim > 1:
        shape = (prod(values.shape[:-1]), values.shape[-1])
        return values.reshape(shape), shown.reshape(shape)
    # A vector is split into rows. The number of columns is a power of two, like the extents of
    # tiles, so that the rows are full.
    columns = min(values.size, max(32, 1 << (isqrt(values.size).bit_length())))
    shape = (-(-values.size // columns), columns)
    missing = prod(shape) - values.size
    return (
        np.pad(values, (0, missing)).reshape(shape),
        np.pad(shown, (0, missing)).reshape(shape),
    )


def _split_cells(rows: int, columns: int) -> tuple[int, int]:
    """Return the maximum number of cells along each axis."""
    along = isqrt(MOST_CELLS)
    if rows < along:
        return rows, MOST_CELLS // rows
    return (MOST_CELLS // columns, columns) if columns < along else (along, along)


def _short(value: float) -> float:
    """Round to four significant digits, unless the rounded number would be infinite."""
    largest = np.finfo(np.float64).max
    value = min(max(float(value), -largest), largest)
    rounded = float(f"{value:.4g}")
    return rounded if np.isfinite(rounded) else value
