"""Hashes of expression trees, one for each element of a tile.

The hash of a known value is that of its type and bits. The hash of a computed value combines the
operation and the hashes of its operands. The three lowest bits are marks, which every result
inherits from its operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.compilation.reductions.order import ReductionOrder
from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.reproducibility import native_hashes

Hashed = NDArray[np.uint64]
#: Mark of values that contain an operation whose order of evaluation is unknown.
UNKNOWN = np.uint64(1)
#: Mark of values that depend on the order in which programs run.
ORDERED = np.uint64(2)
#: Mark of values that may depend on the order in which programs run.
UNSURE = np.uint64(4)
#: All marks.
MARKS = np.uint64(native_hashes.MARKS)
_SHIFTS, _FACTORS = (
    np.array(numbers, np.uint64) for numbers in zip(*native_hashes.STEPS, strict=True)
)
_ODD = np.uint64(native_hashes.ODD)
#: Number of elements from which native code combines hashes, and the most operands that it has.
_LARGE, _MOST_OPERANDS = 1 << 12, 4


@dataclass(frozen=True)
class PendingProduct:
    """The terms of a product of matrices that the compiler adds to a later operand of a sum.

    Attributes:
        operation: Hash of the kind of instruction.
        rows: Hashes of the parts of the rows of the first matrix, one array per instruction.
        columns: The same for the columns of the second matrix.
        text: The order in which the instructions add the terms.
    """

    operation: np.uint64
    rows: Sequence[Hashed]
    columns: Sequence[Hashed]
    text: str = ""

    def added_to(self, accumulator: Hashed) -> Hashed:
        """Return the hashes after all instructions."""
        for row, column in zip(self.rows, self.columns, strict=True):
            accumulator = combined(
                self.operation, accumulator, row[..., :, np.newaxis], column[..., np.newaxis, :]
            )
        return accumulator


@dataclass(frozen=True)
class Hashes:
    """The shadow of a value whose bits are not known on the GPU.

    Attributes:
        values: The hash of each element.
        product: Line of the last operation if the compiler may fuse it with an addition.
        reordered: True if the compiler may have permuted the elements.
        pending: A product of matrices that waits for its accumulator.
    """

    values: Hashed
    product: tuple[str, int] | None = None
    reordered: bool = False
    pending: PendingProduct | None = None

    def at(self, index: Any) -> Hashes:
        """Return the part that belongs to the elements that a NumPy index selects."""
        return Hashes(np.asarray(self.values[index]), self.product, self.reordered)


@lru_cache(maxsize=4096)
def tag(text: str) -> np.uint64:
    """Return the hash of a text, such as the name of an operation, without marks."""
    number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
    without_marks: np.uint64 = np.uint64(number & ~int(MARKS))
    return without_marks


def _mixed(values: Hashed) -> Hashed:
    with np.errstate(over="ignore"):
        for shift, factor in zip(_SHIFTS, _FACTORS, strict=True):
            values = (values ^ (values >> shift)) * factor
    return np.asarray(values)


def combined(operation: np.uint64, *operands: Any) -> Hashed:
    """Return the hashes of an operation on ordered operands, which are broadcast."""
    if len(operands) <= _MOST_OPERANDS and _is_large(operands):
        return native_hashes.combined(operation, np.broadcast_arrays(*operands))
    marks: Any = np.uint64(0)
    result: Any = operation
    with np.errstate(over="ignore"):
        for operand in operands:
            marks = marks | (operand & MARKS)
            result = _mixed((result + _ODD) ^ operand)
    return np.asarray((result & ~MARKS) | marks, np.uint64)


def unordered_pair(operation: np.uint64, a: Any, b: Any) -> Hashed:
    """Return the hashes of a commutative operation."""
    if _is_large((a, b)):
        return native_hashes.unordered_pair(operation, *np.broadcast_arrays(a, b))
    return combined(operation, np.minimum(a, b), np.maximum(a, b))


def _is_large(operands: Sequence[Any]) -> bool:
    return bool(prod(np.broadcast_shapes(*map(np.shape, operands))) >= _LARGE)


def along_tree(operation: np.uint64, values: Hashed, axis: int, order: ReductionOrder) -> Hashed:
    """Return the hashes of a reduction along an axis in a known order."""
    moved = np.moveaxis(values, axis, 0)
    nodes = np.empty((order.extent + len(order.operands), *moved.shape[1:]), np.uint64)
    nodes[: order.extent] = moved
    for numbers, left, right in _levels(order):
        nodes[numbers] = unordered_pair(operation, nodes[left], nodes[right])
    return np.asarray(nodes[-1])


@lru_cache(maxsize=64)
def _levels(order: ReductionOrder) -> list[tuple[Any, Any, Any]]:
    """Return the nodes of a tree by their height: numbers, left and right operands."""
    heights = [0] * order.extent
    levels: dict[int, list[tuple[int, int, int]]] = {}
    for number, (a, b) in enumerate(order.operands, order.extent):
        heights.append(1 + max(heights[a], heights[b]))
        levels.setdefault(heights[-1], []).append((number, a, b))
    arrays = (np.array(rows, np.int64).T for _, rows in sorted(levels.items()))
    return [(numbers, left, right) for numbers, left, right in arrays]


def as_multiset(operation: np.uint64, values: Hashed, axis: int) -> Hashed:
    """Return hashes that do not depend on the order of the elements along an axis."""
    with np.errstate(over="ignore"):
        total = (_mixed(values ^ operation) & ~MARKS).sum(axis, dtype=np.uint64)
    marks = np.bitwise_or.reduce(values & MARKS, axis=axis)
    return combined(operation, (total & ~MARKS) | marks)


def as_set(operation: np.uint64, values: Hashed, axis: int) -> Hashed:
    """Return hashes that depend neither on the order nor on the number of equal elements."""
    values = np.sort(values, axis=axis)
    repeated = np.zeros(values.shape, bool)
    later: list[Any] = [slice(None)] * values.ndim
    earlier = list(later)
    later[axis], earlier[axis] = slice(1, None), slice(None, -1)
    repeated[tuple(later)] = values[tuple(later)] == values[tuple(earlier)]
    with np.errstate(over="ignore"):
        parts = np.where(repeated, np.uint64(0), _mixed(values ^ operation) & ~MARKS)
        total = parts.sum(axis, dtype=np.uint64)
    marks = np.bitwise_or.reduce(values & MARKS, axis=axis)
    return combined(operation, (total & ~MARKS) | marks)


def of_bits(handle: Handle) -> Hashed:
    """Return the hashes of values whose bits are known."""
    if handle.element.is_pointer:
        # Two runs have their tensors at different addresses.
        return np.full(handle.data.shape, tag("address"), np.uint64)
    data = np.ascontiguousarray(handle.data)
    words = data.view(f"u{data.dtype.itemsize}").reshape(handle.data.shape)
    return _of_words(tag(handle.element.text), words)


def of_words(words: Any) -> Hashed:
    """Return the hashes of elements in memory whose bytes are inputs, as unsigned integers."""
    return _of_words(tag(f"{words.dtype.itemsize} bytes"), words)


def _of_words(operation: np.uint64, words: Any) -> Hashed:
    if words.size >= _LARGE:
        return native_hashes.of_words(operation, words)
    bits = words.astype(np.uint64)
    low, high = bits << np.uint64(8), bits >> np.uint64(56) << np.uint64(8)
    return combined(operation, low, high)


def hashes_of(handle: Handle) -> Hashed:
    """Return the hashes of an operand, from its shadow or from its bits."""
    own = handle.shadow
    return own.values if isinstance(own, Hashes) else of_bits(handle)
