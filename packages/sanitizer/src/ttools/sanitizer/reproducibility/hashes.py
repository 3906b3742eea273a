"""Hashes of expression trees, one for each element of a tile.

The hash of a known value is a hash of its type and bits. The hash of a computed value combines the
operation and the hashes of its operands. The three lowest bits are marks, which every result
inherits from its operands. The next bit is set if adding +0.0 leaves the value as it is, and three
further bits name the operation of a maximum or minimum.

Padding adds zeros. Therefore, the hash of `x + 0.0` is the hash of `x` with that bit set, whatever
`x` is. The hash of `(x + 0.0) + y` is the hash of `x + y` with that bit set. Both sums have the
same bits for all `x` and `y`, because a sum is -0.0 only if both operands are -0.0, and because
operations return the same NaN for every NaN.

Neither order nor grouping changes a maximum or minimum. Its hash is therefore a sum over the
numbers of all elements, even if some of the elements were combined before.
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
from ttools.interpreter.eager.elements import Handle, element
from ttools.sanitizer.reproducibility import native_hashes

Hashed = NDArray[np.uint64]
#: Mark of values that contain an operation whose order of evaluation is unknown.
UNKNOWN = np.uint64(1)
#: Mark of values that depend on the order in which programs run.
ORDERED = np.uint64(2)
#: Mark of values for which it is unknown whether they depend on the order in which programs run.
UNSURE = np.uint64(4)
#: All marks.
MARKS = np.uint64(native_hashes.MARKS)
#: Bit of values that equal `x + 0.0` for some x: they are neither -0.0 nor a NaN that no operation
#: returns.
KEEPS = np.uint64(8)
#: All bits that are not part of the mixed number.
LOW_BITS = np.uint64(native_hashes.LOW_BITS)
#: The bits that name the operation of a maximum or minimum, and their values by operation.
_EXTREMUM = np.uint64(0x70)
EXTREMA = {
    name: np.uint64(number << 4)
    for number, name in enumerate(("maximumf", "maxnumf", "minimumf", "minnumf"), 1)
}
_SHIFTS, _FACTORS = (
    np.array(numbers, np.uint64) for numbers in zip(*native_hashes.STEPS, strict=True)
)
_ODD = np.uint64(native_hashes.ODD)
#: Products of f32 that are at least this large are multiples of 2^-148, because both factors have
#: 24 bits. They are therefore not rounded to zero when they are added to an f32.
LARGE = 2.0**-100
#: Minimum number of elements for which native code combines hashes, and maximum number of its
#: operands.
_LARGE, _MOST_OPERANDS = 1 << 12, 4


@dataclass(frozen=True)
class PendingProduct:
    """The terms of a matrix product that the compiler adds to a later operand of a sum.

    The result of an instruction depends on the sign of a zero accumulator only if the result is
    also zero or is rounded to zero. Where the CPU's result is large, this is assumed not to occur.
    Elsewhere, the hashes also depend on `KEEPS`, and on whether the first instruction may ignore a
    zero accumulator.

    Attributes:
        operation: Hash of the kind of instruction.
        rows: Hashes of the parts of the rows of the first matrix, one array per instruction.
        columns: Hashes of the parts of the columns of the second matrix, one array per instruction.
        text: The order in which the instructions add the terms.
        zeros: Hashes of a part of a row and of a part of a column that consist of +0.0. An
            instruction on these parts adds zero to the accumulator.
        skips_zero: True if the first instruction may ignore an accumulator that is zero.
    """

    operation: np.uint64
    rows: Sequence[Hashed]
    columns: Sequence[Hashed]
    text: str
    zeros: tuple[np.uint64, np.uint64]
    skips_zero: bool = False

    def added_to(self, accumulator: Hashed, totals: Handle) -> Hashed:
        """Return the hashes of the accumulator after all instructions.

        Args:
            accumulator: The hashes of the accumulator before the instructions.
            totals: The result that the CPU has computed.
        """
        keeps = np.where(is_large(totals), KEEPS, np.uint64(0))
        small = combined(tag(f"small {self.skips_zero}"), accumulator)
        result = np.where(keeps != 0, accumulator, small)
        for row, column in zip(self.rows, self.columns, strict=True):
            one, other = row[..., :, np.newaxis], column[..., np.newaxis, :]
            is_zero = (one == self.zeros[0]) & (other == self.zeros[1])
            before, result = result, combined(self.operation, result & ~keeps, one, other)
            if is_zero.any():
                result = np.where(is_zero, before | KEEPS, result)
        return np.asarray(result | keeps)


@dataclass(frozen=True)
class Hashes:
    """The shadow of a value whose bits are not known on the GPU.

    Attributes:
        values: The hash of each element.
        product: Line of the last operation, if it is a product that the compiler may fuse with an
            addition.
        reordered: True if the compiler may have permuted the elements.
        pending: A matrix product whose accumulator is not known yet.
    """

    values: Hashed
    product: tuple[str, int] | None = None
    reordered: bool = False
    pending: PendingProduct | None = None

    def at(self, index: Any) -> Hashes:
        """Return the shadow of the elements that a NumPy index selects."""
        return Hashes(np.asarray(self.values[index]), self.product, self.reordered)


class Integers:
    """The shadow of floats that were converted from integers, or are exact sums of such floats."""

    def at(self, index: Any) -> Integers:
        """Return the shadow of the elements that a NumPy index selects."""
        return self


@lru_cache(maxsize=4096)
def tag(text: str) -> np.uint64:
    """Return the hash of a text, such as the name of an operation, without marks."""
    number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
    without_marks: np.uint64 = np.uint64(number & ~int(LOW_BITS))
    return without_marks


def _mixed(values: Hashed) -> Hashed:
    with np.errstate(over="ignore"):
        for shift, factor in zip(_SHIFTS, _FACTORS, strict=True):
            values = (values ^ (values >> shift)) * factor
    return np.asarray(values)


def combined(operation: np.uint64, *operands: Any) -> Hashed:
    """Return the hashes of an operation on ordered operands, which are broadcast to one shape."""
    if len(operands) <= _MOST_OPERANDS and _is_long(operands):
        return native_hashes.combined(operation, np.broadcast_arrays(*operands))
    marks: Any = np.uint64(0)
    result: Any = operation
    with np.errstate(over="ignore"):
        for operand in operands:
            marks = marks | (operand & MARKS)
            result = _mixed((result + _ODD) ^ operand)
    return np.asarray((result & ~LOW_BITS) | marks, np.uint64)


def unordered_pair(operation: np.uint64, a: Any, b: Any) -> Hashed:
    """Return the hashes of a commutative operation."""
    if _is_long((a, b)):
        return native_hashes.unordered_pair(operation, *np.broadcast_arrays(a, b))
    return combined(operation, np.minimum(a, b), np.maximum(a, b))


def _is_long(operands: Sequence[Any]) -> bool:
    return bool(prod(np.broadcast_shapes(*map(np.shape, operands))) >= _LARGE)


def constant(text: str, value: float = 0.0) -> np.uint64:
    """Return the hash of a number in the type with the given MLIR name."""
    return _constant(text, str(value))


@lru_cache(maxsize=64)
def _constant(text: str, value: str) -> np.uint64:
    kind = element(text)  # a text, because -0.0 == 0.0 as a key of the cache
    number = np.asarray(float(value)).astype(kind.dtype)
    result: np.uint64 = np.uint64(of_bits(Handle(number, kind)))
    return result


def added(a: Any, b: Any, zero: np.uint64, are_products: Sequence[Any] = (False, False)) -> Hashed:
    """Return the hashes of the sums of floats.

    A product may be fused with the sum. In this case, it is not rounded, so that `x * y + 0.0` may
    be -0.0. If this cannot happen, the hash of the product has the bit `KEEPS`; otherwise, the
    addition of +0.0 is not omitted from the hash. A product that has been added to +0.0 is rounded,
    which distinguishes it from the product itself.

    Args:
        a: Hashes of the first operands.
        b: Hashes of the second operands.
        zero: The hash of +0.0 in the type of the operands.
        are_products: For each operand, where it is a product that may be fused with the sum.
    """
    unsure: Any = False
    for operand, is_product in zip((a, b), are_products, strict=True):
        unsure = unsure | (((operand & KEEPS) == 0) & is_product)
    keeps = np.where(unsure, np.uint64(0), KEEPS)
    result = unordered_pair(tag("fadd"), a & ~keeps, b & ~keeps) | ((a | b) & keeps)
    for one, other, is_product in ((a, b, are_products[1]), (b, a, are_products[0])):
        is_zero = (one == zero) & ~np.asarray(unsure)
        if is_zero.any():
            is_rounded = np.asarray(is_product) & (other != zero)
            if is_rounded.any():
                other = np.where(is_rounded, combined(tag("rounded"), other & ~KEEPS), other)
            result = np.where(is_zero, other | KEEPS, result)
    return np.asarray(result)


def summed(
    values: Hashed, axis: int, order: ReductionOrder, zero: np.uint64, *, of_products: bool = False
) -> Hashed:
    """Return the hashes of sums along an axis in a known order.

    Args:
        values: Hashes of the elements.
        axis: The axis along which elements are added.
        order: The tree of the additions.
        zero: The hash of +0.0 in the type of the elements.
        of_products: True if the elements are products that may be fused with the first additions.
    """
    moved = np.moveaxis(values, axis, 0)
    nodes = np.empty((order.extent + len(order.operands), *moved.shape[1:]), np.uint64)
    nodes[: order.extent] = moved
    others = (1,) * (moved.ndim - 1)
    for numbers, *operands in _levels(order):
        are_products = [
            (own < order.extent).reshape(-1, *others) if of_products else False for own in operands
        ]
        left, right = (nodes[own] for own in operands)
        nodes[numbers] = added(left, right, zero, are_products)
    return np.asarray(nodes[-1])


@lru_cache(maxsize=64)
def _levels(order: ReductionOrder) -> list[tuple[Any, Any, Any]]:
    """Return the nodes of a tree, grouped by height: numbers, left operands and right operands."""
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
        total = (_mixed(values ^ operation) & ~LOW_BITS).sum(axis, dtype=np.uint64)
    marks = np.bitwise_or.reduce(values & MARKS, axis=axis)
    return combined(operation, total | marks)


def as_set(operation: np.uint64, values: Hashed, axis: int) -> Hashed:
    """Return hashes that depend on neither the order nor the number of equal elements."""
    values = np.sort(values, axis=axis)
    repeated = np.zeros(values.shape, bool)
    later: list[Any] = [slice(None)] * values.ndim
    earlier = list(later)
    later[axis], earlier[axis] = slice(1, None), slice(None, -1)
    repeated[tuple(later)] = values[tuple(later)] == values[tuple(earlier)]
    with np.errstate(over="ignore"):
        parts = np.where(repeated, np.uint64(0), _mixed(values ^ operation) & ~LOW_BITS)
        total = parts.sum(axis, dtype=np.uint64)
    marks = np.bitwise_or.reduce(values & MARKS, axis=axis)
    return combined(operation, total | marks)


def extremum(operation: str, values: Hashed, axis: int, text: str, is_finite: Any) -> Hashed:
    """Return the hashes of the greatest or smallest floats along an axis.

    Args:
        operation: `maxnumf`, or another operation of `EXTREMA`.
        values: Hashes of the elements.
        axis: The axis along which they are compared.
        text: MLIR name of the type of the elements.
        is_finite: Where the result is finite, so that neither an infinity nor a NaN was chosen.
    """
    values = np.sort(np.moveaxis(values, axis, 0), axis=0)
    neutral = constant(text, -np.inf if operation.startswith("max") else np.inf)
    is_omitted = values == neutral
    is_omitted[1:] |= values[1:] == values[:-1]
    is_omitted &= is_finite
    is_united = (values & _EXTREMUM) == EXTREMA[operation]
    with np.errstate(over="ignore"):
        numbers = np.where(is_united, values, _mixed(values ^ tag(operation))) & ~LOW_BITS
        total = np.where(is_omitted, np.uint64(0), numbers).sum(0, dtype=np.uint64) & ~LOW_BITS
    marks = np.bitwise_or.reduce(values & MARKS, axis=0)
    only = np.where(is_omitted, np.uint64(0), values).max(0)
    is_one = (~is_omitted).sum(0) == 1
    return np.asarray(np.where(is_one, only, total | marks | EXTREMA[operation]))


def of_bits(handle: Handle) -> Hashed:
    """Return the hashes of values whose bits are known."""
    if handle.element.is_pointer:
        # All addresses have the same hash, because two runs have their tensors at different
        # addresses.
        return np.full(handle.data.shape, tag("address"), np.uint64)
    data = np.ascontiguousarray(handle.data)
    words = data.view(f"u{data.dtype.itemsize}").reshape(handle.data.shape)
    hashes = _of_words(tag(handle.element.text), words)
    if handle.element.is_integer:
        return hashes
    return np.asarray(hashes | np.where(keeps_bits(handle.data), KEEPS, np.uint64(0)))


def is_large(totals: Handle) -> Any:
    """Return where numbers are too large to be zeros that rounding errors have changed."""
    if totals.element.text != "f32":
        return np.zeros(totals.data.shape, bool)
    return np.isfinite(totals.data) & (np.abs(totals.data) >= LARGE)


def keeps_bits(data: Any) -> Any:
    """Return where adding +0.0 leaves floats unchanged: everywhere except at -0.0 and NaN."""
    return (data > 0) | (data < 0) | ((data == 0) & ~np.signbit(data))


def of_words(words: Any) -> Hashed:
    """Return the hashes of elements whose bytes in memory are inputs, as unsigned integers."""
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
