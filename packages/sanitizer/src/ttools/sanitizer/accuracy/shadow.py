"""Shadow values: what the check `accuracy` knows about each element of a float value.

The *exact* value is what the kernel would have computed from the same inputs, with the same
branches, in float64, or in extended precision if the kernel itself computes in float64. The *rows*
decompose the difference between the kernel's value and the exact one to first order:
`docs/design/accuracy.md` derives how they propagate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.sanitizer.accuracy.sources import FIXED, INPUTS, Array

#: Type of the exact values of float64 values: 64 bits of precision on x86, 113 on some other
#: processors.
EXTENDED = np.longdouble
#: True if this type is more precise than float64, which is not the case on all processors.
HAS_EXTENDED = bool(np.finfo(EXTENDED).nmant >= 63)

Numbers = NDArray[np.int32]
Bools = NDArray[np.bool_]

#: Stands for no source: the element has no infinity or NaN in its history, or no padded lane.
NOTHING = -1
#: Largest factor of a random change; the distribution has no mean, and a single element must not
#: dominate a value.
_MOST = 1000.0
#: Minimum number of elements for which rows are added one by one.
_LARGE = 1 << 14


class Shadow:
    """The shadow of a value.

    Attributes:
        exact: The exact value, in the type that `as_exact` chooses.
        rows: Array of `(rows, *shape)`; None if all elements are zero.
        origin: Number of the source that produced the first infinity or NaN in the history of each
            element, or `NOTHING`; None if there is none.
        padded: Lanes that are computed from lanes of a load that its mask leaves out, or None.
        mixed: Number of the reduction that mixed padded lanes with other lanes, or None.
        cancelled: Number of the last sum or difference that was much smaller than its operands, so
            that their relative errors grew, or None.
    """

    __slots__ = ("cancelled", "exact", "mixed", "origin", "padded", "rows")

    def __init__(
        self,
        exact: Any,
        rows: Array | None = None,
        origin: Numbers | None = None,
        padded: Bools | None = None,
        mixed: Numbers | None = None,
        cancelled: Numbers | None = None,
    ) -> None:
        self.exact: Array = np.asarray(exact)
        self.rows, self.origin, self.padded, self.mixed = rows, origin, padded, mixed
        self.cancelled = cancelled

    def at(self, index: Any) -> Shadow:
        """Return the shadow of the elements that a NumPy index selects."""
        own = index if isinstance(index, tuple) else (index,)
        in_rows = (slice(None), *own)
        return self.moved(lambda array: array[own], lambda rows: rows[in_rows])

    def moved(self, move: Callable[[Any], Any], move_rows: Callable[[Any], Any]) -> Shadow:
        """Return a shadow whose elements are moved.

        Args:
            move: Moves the elements of an array of the value's shape.
            move_rows: Moves the elements of an array that has an additional first axis.
        """
        own = (self.origin, self.padded, self.mixed, self.cancelled)
        rest = (None if array is None else move(array) for array in own)
        rows = None if self.rows is None else move_rows(self.rows)
        return Shadow(move(self.exact), rows, *rest)

    def row(self, number: int) -> Array:
        """Return the row of a source."""
        assert self.rows is not None
        own: Array = self.rows[FIXED + number]
        return own


def as_exact(data: NDArray[Any]) -> Array:
    """Return values of a kernel in the type in which their exact values are computed."""
    return data.astype(exact_type(data.dtype))


def exact_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the exact values for values of a given type."""
    return np.dtype(EXTENDED if dtype == np.float64 else np.float64)


def precision(dtype: np.dtype[Any]) -> float:
    """Return the relative spacing of the type in which a kernel computes values of a given type."""
    return 2.0**-52 if dtype == np.float64 else 2.0**-23


def weighted(terms: Sequence[tuple[Array | None, Any]], shape: tuple[int, ...]) -> Array | None:
    """Return the sum of rows, each multiplied by a factor for each element.

    Factors that are not finite count as zero, because a first-order estimate is meaningless after
    an overflow.
    """
    present = [(rows, factor) for rows, factor in terms if rows is not None]
    if not present:
        return None
    total = np.empty((max(len(rows) for rows, _ in present), *shape))
    for term, (rows, factor) in enumerate(present):
        is_number = np.isfinite(factor)
        factor = factor if is_number.all() else np.where(is_number, factor, 0)
        if term == 0:
            np.multiply(rows, factor, out=total[: len(rows)])
            total[len(rows) :] = 0.0
        else:
            _add_product(total[: len(rows)], rows, factor)
    if not np.isfinite(total.sum()):
        np.nan_to_num(total, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return total


def _add_product(total: Array, rows: Array, factor: Any) -> None:
    """Add rows times a factor to a sum, without temporary arrays of the size of large rows.

    The C library returns such arrays to the system and requests them again, which takes more than
    ten times as long as the arithmetic.
    """
    if np.ndim(factor) == 0 and factor == 1.0:
        total += rows
    elif total.size < _LARGE:
        total += rows * factor
    else:
        for own, row in zip(total, rows, strict=True):
            own += row * factor


def with_row(rows: Array | None, number: int, error: Array) -> Array:
    """Return rows with the error of a source added.

    Args:
        rows: Rows that may be changed.
        number: Number of the source.
        error: The error of each element.
    """
    index = FIXED + number
    if rows is None or len(rows) <= index:
        wider = np.zeros((index + 1, *error.shape))
        if rows is not None:
            wider[: len(rows)] = rows
        rows = wider
    rows[index] += error
    return rows


def random_changes(values: Array, elements: NDArray[np.int64], *, narrow: bool) -> Array:
    """Return rows for inputs: the change of each element is the element times a random number.

    The numbers are Cauchy-distributed, so that a sum of such changes, with any coefficients, has
    the scale of the sum of the absolute changes. An element has the same numbers in each load.

    Args:
        values: Values of the input elements.
        elements: Numbers that identify the elements, such as addresses.
        narrow: True if the type of the elements has at most 16 bits.
    """
    count = FIXED if narrow else INPUTS
    changes: Array = np.empty((count, *values.shape))
    at_once = count if changes.size < _LARGE else 1
    finite = np.where(np.isfinite(values), values, 0.0)
    for first in range(0, count, at_once):
        numbers = np.arange(first, first + at_once, dtype=np.uint64)
        row = numbers.reshape((at_once,) + (1,) * values.ndim)
        np.multiply(_cauchy(elements, row), finite, out=changes[first : first + at_once])
    return changes


def _cauchy(elements: NDArray[np.int64], row: NDArray[np.uint64]) -> Array:
    """Return numbers of a Cauchy distribution for each element and row."""
    with np.errstate(over="ignore"):
        bits = elements.astype(np.uint64)[None] * np.uint64(FIXED) + row
        bits = (bits + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)  # the hash SplitMix64
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    uniform = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    numbers: Array = np.clip(np.tan(np.pi * (uniform - 0.5)), -_MOST, _MOST)
    return numbers


def scale_of_changes(rows: Array | None, *, narrow: bool) -> Any:
    """Return an estimate of the sum of the absolute changes: `sum(|d value / d input| * |input|)`.

    For a Cauchy distribution, the geometric mean of the absolute samples estimates the scale.

    Args:
        rows: Rows of a shadow.
        narrow: True for the changes of the inputs whose type has at most 16 bits.
    """
    first, last = (INPUTS, FIXED) if narrow else (0, INPUTS)
    if rows is None or len(rows) < last:
        return 0.0
    return geometric_mean(rows[first:last])


def geometric_mean(rows: Array) -> Any:
    """Return the geometric mean of the absolute values of rows."""
    with np.errstate(divide="ignore"):
        return np.exp(np.log(np.abs(rows)).mean(axis=0))


def joined_numbers(arrays: Sequence[Numbers | None], shape: tuple[int, ...]) -> Numbers | None:
    """Return, for each element, the first number in the arrays that is not `NOTHING`."""
    result: Numbers | None = None
    for array in arrays:
        if array is None:
            continue
        array = np.broadcast_to(array, shape)
        result = array if result is None else np.where(result == NOTHING, array, result)
    return result


def joined_flags(arrays: Sequence[Bools | None], shape: tuple[int, ...]) -> Bools | None:
    """Return the elements that are flagged in any of the arrays."""
    present = [np.broadcast_to(array, shape) for array in arrays if array is not None]
    result: Bools | None = None
    for array in present:
        result = array if result is None else result | array
    return result


def joined(shadows: Sequence[Shadow], exact: Any, rows: Array | None) -> Shadow:
    """Return a shadow with the marks of all given shadows."""
    shape = np.shape(exact)
    return Shadow(
        exact,
        rows,
        joined_numbers([s.origin for s in shadows], shape),
        joined_flags([s.padded for s in shadows], shape),
        joined_numbers([s.mixed for s in shadows], shape),
        joined_numbers([s.cancelled for s in shadows], shape),
    )


def chosen(condition: Any, first: Shadow, second: Shadow, shape: tuple[int, ...]) -> Shadow:
    """Return the shadow of a value that is chosen lane by lane."""
    condition = np.broadcast_to(condition, shape)

    def pick(a: Any, b: Any, missing: Any) -> Any:
        if a is None and b is None:
            return None
        return np.where(condition, missing if a is None else a, missing if b is None else b)

    rows = None
    if first.rows is not None or second.rows is not None:
        masks = (condition.astype(np.float64), (~condition).astype(np.float64))
        rows = weighted([(first.rows, masks[0]), (second.rows, masks[1])], shape)
    none = np.int32(NOTHING)
    return Shadow(
        np.where(condition, first.exact, second.exact),
        rows,
        pick(first.origin, second.origin, none),
        pick(first.padded, second.padded, False),
        pick(first.mixed, second.mixed, none),
        pick(first.cancelled, second.cancelled, none),
    )
