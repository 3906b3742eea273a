"""Integer operations at one size, computed by NumPy from the declarations of the operations.

An operation of `ttools.ir.dialects` declares its exact result as a sequence of elementary steps
(sums, quotients, `unsigned`). `LaneIntegers` computes each step for all programs and lanes. The
machine result is the exact result, truncated to the width of its type. Steps are computed with
64-bit integers. If an operation needs more bits, as the upper half of a 64-bit product does, it is
computed again with Python integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttools.ir import IntegerType, Operation, Value, element_type
from ttools.ir.dialects.integers import Integers, UnknownError
from ttools.ir.dialects.traits import CAST, COMMUTATIVE, WIDENS
from ttools.ir.semantics import meaning
from ttools.prove.attributes import width_of
from ttools.prove.concrete.lanes import Lanes, either, fit, merged, select, spread, wrapped
from ttools.prove.concrete.state import State

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


#: Maximum number of programs along an axis of the grid. A GPU rejects larger launches, which is
#: reported as a finding. In such a launch, program ids are not truncated to 32 bits, so that they
#: do not cause further findings.
_MOST_PROGRAMS = (1 << 31) - 1


class _TooWideError(Exception):
    """A step needs a number that does not fit in 64 bits."""


@dataclass(frozen=True, eq=False)
class _Number:
    """An intermediate result in all lanes.

    Attributes:
        limit: Upper bound of the absolute value, derived from the types of the operands; None if
            `lanes` contain the number only modulo 2**64.
    """

    lanes: Lanes
    limit: int | None


class LaneIntegers(Integers[_Number]):
    """Arithmetic on numbers that have a value in every lane of every program, at one size.

    Args:
        run: The values of the launch.
        op: The operation that is computed.
        wide: If True, compute with Python integers, which is slow, instead of 64-bit integers.
    """

    def __init__(self, run: State, op: Operation, wide: bool) -> None:
        self._run, self._op, self._wide = run, op, wide
        self._type: Any = object if wide else np.int64

    def operand(self, value: Value, lanes: Lanes) -> _Number:
        """Return the lanes of an operand as a `_Number`."""
        width = width_of(value)
        if self._wide and isinstance(element_type(value.type), IntegerType) and width > 1:
            shadow = None if lanes.shadow is None else lanes.shadow.astype(object)
            lanes = Lanes(lanes.data.astype(object), shadow, lanes.wraps, lanes.unknown)
        return _Number(lanes, 1 << max(0, width - 1))

    def _exact(self, number: _Number) -> int:
        """Return the limit of a number; raise an error if it is known only modulo 2**64."""
        if number.limit is None:
            raise _TooWideError
        return number.limit

    def _sum_limit(self, limit: int | None) -> int | None:
        return limit if limit is None or self._wide or limit < 1 << 63 else None

    def _counted(self, number: _Number) -> Lanes:
        """Return the lanes of a number as integers; conditions become 0 and 1."""
        lanes = number.lanes
        if lanes.base is not None:
            raise UnknownError
        if lanes.data.dtype != bool:
            return lanes
        return Lanes(lanes.data.astype(np.int64).astype(self._type), unknown=lanes.unknown)

    def _of_both(
        self, function: Callable[[Any, Any], Any], a: _Number, b: _Number, limit: int | None
    ) -> _Number:
        one, other = self._counted(a), self._counted(b)
        data, shadow = function(*fit(one.data, other.data)), None
        if one.shadow is not None or other.shadow is not None:
            shadow = function(*fit(one.exact, other.exact))
        wraps = merged((*one.wraps, *other.wraps))
        return _Number(Lanes(data, shadow, wraps, either(one.unknown, other.unknown)), limit)

    def _placed(self, data: Any, limit: int) -> _Number:
        shape = (self._run.count, *np.shape(data)[1:])
        return _Number(Lanes(np.broadcast_to(data, shape)), limit)

    def constant(self, number: int) -> _Number:
        if not self._wide and not -(1 << 63) <= number < 1 << 63:
            raise _TooWideError
        shape = (1,) * (1 + len(self._op.result_shape))
        return self._placed(np.full(shape, number, self._type), abs(number))

    def elements(self, numbers: Sequence[int]) -> _Number:
        data = np.array(numbers, self._type).reshape((1, *self._op.result_shape))
        return self._placed(data, max(map(abs, numbers)))

    def coordinate(self, axis: int, extent: int) -> _Number:
        shape = [1] * (1 + len(self._op.result_shape))
        shape[1 + axis] = extent
        return self._placed(np.arange(extent).astype(self._type).reshape(shape), extent)

    def program(self, axis: int) -> _Number:
        return _Number(Lanes(self._run.programs[:, axis].astype(self._type)), _MOST_PROGRAMS)

    def programs(self, axis: int) -> _Number:
        count = self._run.grid[axis]
        return self._placed(np.full((1,), count, self._type), _MOST_PROGRAMS)

    def add(self, a: _Number, b: _Number) -> _Number:
        return self._of_both(np.add, a, b, self._sum_limit(_total(a.limit, b.limit)))

    def subtract(self, a: _Number, b: _Number) -> _Number:
        return self._of_both(np.subtract, a, b, self._sum_limit(_total(a.limit, b.limit)))

    def multiply(self, a: _Number, b: _Number) -> _Number:
        limit = None if a.limit is None or b.limit is None else a.limit * b.limit
        return self._of_both(np.multiply, a, b, self._sum_limit(limit))

    def shift_left(self, a: _Number, by: _Number) -> _Number:
        limit = None if a.limit is None else a.limit << min(self._exact(by), 64)
        return self._of_both(_shifted(np.left_shift), a, by, self._sum_limit(limit))

    def shift_right(self, a: _Number, by: _Number) -> _Number:
        self._exact(by)
        return self._of_both(_shifted(np.right_shift), a, by, self._exact(a))

    def _divided(
        self, function: Callable[[Any, Any], Any], a: _Number, b: _Number, limit: int | None
    ) -> _Number:
        """Return a quotient or remainder, which is unknown in lanes where the divisor is 0."""
        self._exact(a), self._exact(b)

        def by_others(x: Any, y: Any) -> Any:
            return function(x, np.where(y == 0, 1, y))

        result = self._of_both(by_others, a, b, limit)
        zero = self._counted(b).data == 0
        if not zero.any():
            return result
        lanes = result.lanes
        unknown = either(lanes.unknown, zero | np.zeros(lanes.data.shape, bool))
        return _Number(Lanes(lanes.data, lanes.shadow, lanes.wraps, unknown), limit)

    def quotient(self, a: _Number, b: _Number) -> _Number:
        return self._divided(_truncated, a, b, self._sum_limit(a.limit))

    def floor_quotient(self, a: _Number, b: _Number) -> _Number:
        return self._divided(np.floor_divide, a, b, self._sum_limit(a.limit))

    def ceiling_quotient(self, a: _Number, b: _Number) -> _Number:
        return self._divided(_ceiling, a, b, self._sum_limit(a.limit))

    def remainder(self, a: _Number, b: _Number) -> _Number:
        return self._divided(lambda x, y: x - y * _truncated(x, y), a, b, a.limit)

    def least(self, a: _Number, b: _Number) -> _Number:
        return self._of_both(np.minimum, a, b, max(self._exact(a), self._exact(b)))

    def greatest(self, a: _Number, b: _Number) -> _Number:
        return self._of_both(np.maximum, a, b, max(self._exact(a), self._exact(b)))

    def _bits(self, function: np.ufunc, a: _Number, b: _Number) -> _Number:
        if a.lanes.data.dtype == bool and b.lanes.data.dtype == bool:
            return _Number(_condition(function, a.lanes, b.lanes), 1)
        limit = None
        if a.limit is not None and b.limit is not None:
            limit = 1 << max(a.limit.bit_length(), b.limit.bit_length())
            limit = limit if self._wide else min(limit, 1 << 63)
        return self._of_both(function, a, b, limit)

    def bits_and(self, a: _Number, b: _Number) -> _Number:
        return self._bits(np.bitwise_and, a, b)

    def bits_or(self, a: _Number, b: _Number) -> _Number:
        return self._bits(np.bitwise_or, a, b)

    def bits_xor(self, a: _Number, b: _Number) -> _Number:
        return self._bits(np.bitwise_xor, a, b)

    def choose(self, condition: _Number, a: _Number, b: _Number) -> _Number:
        limit = None if a.limit is None or b.limit is None else max(a.limit, b.limit)
        return _Number(select(condition.lanes, a.lanes, b.lanes), limit)

    def compare(self, predicate: str, a: _Number, b: _Number) -> _Number:
        self._exact(a), self._exact(b)
        function = _COMPARISONS[predicate if predicate in _COMPARISONS else predicate[1:]]

        def compared(x: Any, y: Any) -> Any:
            if not predicate.startswith("u"):
                return function(x, y)
            # Read as unsigned, a negative number exceeds all nonnegative numbers.
            return np.where((x < 0) == (y < 0), function(x, y), function(y, x))

        lanes = self._of_both(compared, a, b, 1).lanes
        return _Number(Lanes(np.asarray(lanes.data, bool), unknown=lanes.unknown), 1)

    def unsigned(self, a: _Number, bits: int) -> _Number:
        lanes, mask = self._counted(a), (1 << bits) - 1
        if self._wide or bits < 64:
            # The shadow value stays the same, because reading a number as unsigned loses no bits.
            data = lanes.data & (mask if self._wide else np.int64(mask))
            return _Number(Lanes(data, lanes.shadow, lanes.wraps, lanes.unknown), mask)
        if (lanes.data < 0).any():
            raise _TooWideError
        return a

    def signed(self, a: _Number, bits: int) -> _Number:
        lanes = self._counted(a)
        shadow = None if lanes.shadow is None else _cut(lanes.shadow, bits)
        data = _cut(lanes.data, bits).astype(self._type)
        return _Number(Lanes(data, shadow, lanes.wraps, lanes.unknown), 1 << (bits - 1))

    def displace(self, pointer: _Number, offset: _Number) -> _Number:
        by = self._counted(offset)
        data = np.add(*fit(pointer.lanes.data, by.data))
        return _Number(moved_by(pointer.lanes, by, data), None)


def moved_by(pointer: Lanes, offset: Lanes, data: Any) -> Lanes:
    """Return `pointer` after the addition of `offset`; `data` is the sum of their data."""
    wraps = list(pointer.wraps)
    if offset.shadow is not None:
        wrong = offset.shadow != offset.data
        wraps += [(op, np.logical_and(*fit(wrong, m))) for op, m in offset.wraps]
    unknown = either(pointer.unknown, offset.unknown)
    return Lanes(data, None, merged(wraps), unknown, pointer.base)


def with_wraps(
    op: Operation, data: Any, exact: Any, operands: tuple[Lanes, ...], unknown: Any
) -> Lanes:
    """Return a result together with the operations that lost bits in its computation.

    Args:
        op: The operation that computes the result.
        data: The result in the width of its type.
        exact: The result without loss of bits.
        operands: Operands, each with the operations that lost bits in its computation.
        unknown: Mask of the lanes whose result is unknown, or None.
    """
    lost = data != exact
    wraps = merged(w for operand in operands for w in operand.wraps)
    if not lost.any():
        return Lanes(data, None, (), unknown)
    if 1 < width_of(op.results[0]) < 64 and op.declaration.noun:
        # In lanes where an operand was already wrong, only the earlier operation is recorded.
        before = either(*(lanes for _, lanes in wraps))
        new = lost if before is None else np.logical_and(*fit(lost, np.logical_not(before)))
        if new.any():
            wraps = (*wraps, (op, new))
    return Lanes(data, exact, merged(wraps), unknown)


def computed(run: State, op: Operation) -> Lanes | None:
    """Return the integer result that an operation declares; None if it declares none."""
    if op.declaration.integer is None:
        return None
    operands = [run.get(value) for value in op.operands]
    try:
        number = _in_bits(LaneIntegers(run, op, wide=False), op, operands)
    except _TooWideError:
        number = _in_bits(LaneIntegers(run, op, wide=True), op, operands)
    return None if number is None else _stored(op, number)


def reduced(run: State, op: Operation, value: Lanes) -> Lanes | None:
    """Return the reduction of an integer tile along an axis; None if it is not supported.

    Each step combines the first half of the axis with the second half, until one element is left.
    """
    combine, axis = op.regions[0].entry.operations[0], op.axis + 1

    def halved(domain: LaneIntegers, number: _Number) -> _Number:
        while (extent := number.lanes.data.shape[axis]) > 1:
            half = extent // 2
            one, other = (_part(number, axis, n * half, (n + 1) * half) for n in (0, 1))
            total = _applied(domain, combine, (one, other))
            if extent % 2:
                total = _joined(axis, total, _part(number, axis, 2 * half, extent))
            number = total
        return number

    result = _combined(run, op, value, halved)
    return None if result is None else _moved(result, lambda a: a.squeeze(axis))


def scanned(run: State, op: Operation, value: Lanes) -> Lanes | None:
    """Return the scan of an integer tile along an axis; None if it is not supported.

    After the step with distance `d`, each lane contains the combination of the last `2 * d`
    elements up to this lane, or of all elements up to it if there are fewer.
    """
    combine, axis = op.regions[0].entry.operations[0], op.axis + 1

    def doubled(domain: LaneIntegers, number: _Number) -> _Number:
        extent, distance = number.lanes.data.shape[axis], 1
        while distance < extent:
            before = _part(number, axis, 0, extent - distance)
            total = _applied(domain, combine, (before, _part(number, axis, distance, extent)))
            number = _joined(axis, _part(number, axis, 0, distance), total)
            distance *= 2
        return number

    if not op.attributes.get("reverse"):
        return _combined(run, op, value, doubled)
    result = _combined(run, op, _moved(value, lambda a: np.flip(a, axis)), doubled)
    return None if result is None else _moved(result, lambda a: np.flip(a, axis))


def _combined(
    run: State,
    op: Operation,
    value: Lanes,
    steps: Callable[[LaneIntegers, _Number], _Number],
) -> Lanes | None:
    """Return the result of a reduction or scan; None if its combine function is not commutative.

    Args:
        steps: Combines the lanes of the operand.
    """
    combine = op.regions[0].entry.operations[0]
    if not combine.has(COMMUTATIVE):
        return None
    operand = op.operands[0]
    try:
        try:
            domain = LaneIntegers(run, combine, wide=False)
            number = steps(domain, domain.operand(operand, value))
        except _TooWideError:
            domain = LaneIntegers(run, combine, wide=True)
            number = steps(domain, domain.operand(operand, value))
    except UnknownError:
        return None
    raw = _cut(number.lanes.data, 64)
    data = wrapped(raw, width_of(operand))
    exact = data
    if combine.has(WIDENS):
        exact = raw if number.lanes.shadow is None else _cut(number.lanes.shadow, 64)
    return with_wraps(op, data, exact, (), number.lanes.unknown)


def _applied(domain: LaneIntegers, op: Operation, operands: Sequence[_Number]) -> _Number:
    number = meaning(domain, op, operands)
    if number is None:
        raise UnknownError
    return number


def _moved(value: Lanes, move: Callable[[Any], Any]) -> Lanes:
    """Apply a function to each array of a value; the result has no `wraps`."""
    arrays = (value.data, value.shadow, value.unknown)
    data, shadow, unknown = (None if array is None else move(array) for array in arrays)
    return Lanes(data, shadow, unknown=unknown)


def _part(number: _Number, axis: int, start: int, stop: int) -> _Number:
    """Return the lanes from `start` to `stop` along an axis."""
    place = (slice(None),) * axis + (slice(start, stop),)
    return _Number(_moved(number.lanes, lambda array: array[place]), number.limit)


def _joined(axis: int, one: _Number, other: _Number) -> _Number:
    """Concatenate the lanes of two numbers along an axis."""
    a, b = one.lanes, other.lanes
    shadow = None
    if a.shadow is not None or b.shadow is not None:
        shadow = np.concatenate((a.exact, b.exact), axis)
    unknown = None
    if a.unknown is not None or b.unknown is not None:
        parts = [
            np.zeros(p.data.shape, bool) if p.unknown is None else spread(p.unknown, p.data.shape)
            for p in (a, b)
        ]
        unknown = np.concatenate(parts, axis)
    limit = None if one.limit is None or other.limit is None else max(one.limit, other.limit)
    return _Number(Lanes(np.concatenate((a.data, b.data), axis), shadow, unknown=unknown), limit)


def _in_bits(domain: LaneIntegers, op: Operation, operands: Sequence[Lanes]) -> _Number | None:
    numbers = [domain.operand(*pair) for pair in zip(op.operands, operands, strict=True)]
    return meaning(domain, op, numbers)


def _stored(op: Operation, number: _Number) -> Lanes:
    """Return an exact number as the result of `op`, truncated to the width of the result's type."""
    lanes, result = number.lanes, op.results[0]
    if not isinstance(element_type(result.type), IntegerType):
        return lanes
    width = width_of(result)
    if width == 1:
        data = lanes.data if lanes.data.dtype == bool else (lanes.data & 1).astype(bool)
        return Lanes(data, unknown=lanes.unknown)
    raw = _cut(lanes.data, 64)
    if raw.dtype != np.int64:
        raw = raw.astype(np.int64)
    is_narrow = number.limit is not None and number.limit < 1 << (width - 1)
    if lanes.shadow is None and is_narrow:
        return Lanes(raw, unknown=lanes.unknown)
    data = wrapped(raw, width)
    if not op.has(WIDENS, CAST):
        return Lanes(data, unknown=lanes.unknown)
    exact = raw if lanes.shadow is None else _cut(lanes.shadow, 64)
    return with_wraps(op, data, exact, (lanes,), lanes.unknown)


def _total(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _cut(data: Any, bits: int) -> Any:
    """Return the lowest `bits` of integers, sign-extended to 64 bits; a single bit is 0 or 1."""
    if data.dtype == object:
        half = 1 << 63
        data = (((data + half) & ((1 << 64) - 1)) - half).astype(np.int64)
    return data & 1 if bits == 1 else wrapped(data, bits)


def _shifted(function: np.ufunc) -> Callable[[Any, Any], Any]:
    """Return a shift function that shifts Python integers by at most 64 bits.

    Larger or negative shift counts are replaced by 64. The lowest 64 bits of the result are then
    those that NumPy computes for 64-bit integers.
    """

    def shifted(a: Any, by: Any) -> Any:
        return function(a, np.where((by < 0) | (by > 63), 64, by) if a.dtype == object else by)

    return shifted


def _truncated(a: Any, b: Any) -> Any:
    """Return quotients rounded towards 0."""
    floor = a // b
    return floor + ((floor * b != a) & ((a < 0) != (b < 0)))


def _ceiling(a: Any, b: Any) -> Any:
    floor = a // b
    return floor + (floor * b != a)


def _condition(function: np.ufunc, a: Lanes, b: Lanes) -> Lanes:
    """Combine two conditions; one known operand may decide the result of `and` and `or`."""
    data, unknown = function(*fit(a.data, b.data)), either(a.unknown, b.unknown)
    if function is np.bitwise_xor or unknown is None:
        return Lanes(data, unknown=unknown)
    decisive = function is np.bitwise_or
    settled = []
    for operand in (a, b):
        is_known = np.ones(1, bool) if operand.unknown is None else ~operand.unknown
        settled.append(np.logical_and(*fit(operand.data == decisive, is_known)))
    unknown, sure = fit(unknown, np.logical_or(*fit(*settled)))
    return Lanes(np.where(sure, decisive, data), unknown=unknown & ~sure)
