"""Integers and addresses of a kernel in chosen programs of a launch, lane by lane.

A value is a NumPy array with one row per program and one further axis per axis of its tile. An axis
has extent 1 if all lanes along it are equal. Values that depend on memory, and on control flow
other than counted loops, are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.llvm.builder import byte_size
from ttools.ir import Block, Operation, PointerType, Value, element_type, shape_of
from ttools.ir.dataflow import OnDemand, carried_values, counted_loop, reachable
from ttools.ir.dialects.coordinates import Lanes
from ttools.ir.dialects.integers import Evaluation, UnknownError
from ttools.ir.dialects.traits import CAST
from ttools.ir.domains.regularity import Regularity
from ttools.ir.semantics import lanes_of, meaning, width_of

Numbers = NDArray[np.int64]


class LaneNumbers(Evaluation):
    """The domain of arrays of integers, one element per program and lane.

    Args:
        programs: Ids of the programs, one row of three per program.
        grid: Number of programs along each axis.
    """

    def __init__(self, programs: Numbers, grid: Sequence[int]) -> None:
        self._ids, self._grid = programs, (*grid, 1, 1)
        self._shape: tuple[int, ...] = ()
        self._unit = 1

    def result(self, value: Value, op: Operation, operands: Sequence[Numbers]) -> Numbers | None:
        """Return the result of an operation in its type's bit width; None if it is unknown."""
        element = element_type(value.type)
        self._shape = shape_of(value.type)
        self._unit = byte_size(element.pointee) if isinstance(element, PointerType) else 1
        with np.errstate(all="ignore"):
            exact: Any = meaning(self, op, operands)
            return None if exact is None else _cut(exact, width_of(value))

    def constant(self, number: int) -> Any:
        return np.full((1,) * (1 + len(self._shape)), number, np.int64)

    def elements(self, numbers: Sequence[int]) -> Any:
        return np.array(numbers, np.int64).reshape(1, *self._shape)

    def coordinate(self, axis: int, extent: int) -> Any:
        shape = [1] * (1 + len(self._shape))
        shape[1 + axis] = extent
        return np.arange(extent).reshape(shape)

    def program(self, axis: int) -> Any:
        return self._ids[:, axis]

    def programs(self, axis: int) -> Any:
        return np.full(1, self._grid[axis])

    def quotient(self, a: Any, b: Any) -> Any:
        whole = np.abs(a) // np.where(b == 0, 1, np.abs(b))
        return np.where(b == 0, 0, whole * np.sign(a) * np.sign(b))

    def remainder(self, a: Any, b: Any) -> Any:
        return a - b * self.quotient(a, b)

    def least(self, a: Any, b: Any) -> Any:
        return np.minimum(a, b)

    def greatest(self, a: Any, b: Any) -> Any:
        return np.maximum(a, b)

    def choose(self, condition: Any, a: Any, b: Any) -> Any:
        return np.where(_raised(condition, a.ndim), a, b)

    def compare(self, predicate: str, a: Any, b: Any) -> Any:
        if predicate.startswith("u"):
            a, b = a.astype(np.uint64), b.astype(np.uint64)
        function = getattr(np, _COMPARISONS[predicate[-2:]])
        return function(a, b).astype(np.int64)

    def unsigned(self, a: Any, bits: int) -> Any:
        if bits < 64:
            return a & ((1 << bits) - 1)
        if (a < 0).any():
            raise UnknownError
        return a

    def signed(self, a: Any, bits: int) -> Any:
        return _cut(a, bits)

    def displace(self, pointer: Any, offset: Any) -> Any:
        return pointer + offset * self._unit


_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


def _cut(numbers: Any, bits: int) -> Any:
    """Return the lowest `bits` bits as signed numbers; a single bit is 0 or 1.

    If `bits` is 0 or at least 64, the numbers are returned unchanged.
    """
    if bits == 1:
        return numbers & 1
    if not 0 < bits < 64:
        return numbers
    half = np.int64(1 << (bits - 1))
    return ((numbers + half) & np.int64((1 << bits) - 1)) - half


class LaneValues(OnDemand["Numbers | None"]):
    """The integers, conditions and addresses of a kernel function; None for unknown ones.

    An address is represented by its distance in bytes from the address that a pointer parameter
    holds.

    Args:
        grid: Number of programs along each axis.
        scalars: Values of integer parameters, by index.
        programs: Ids of the programs, one row of three per program.
        iterations: The iteration, from 0, of each counted loop around the values of interest.
    """

    def __init__(
        self,
        kernel: Operation,
        grid: Sequence[int],
        scalars: Mapping[int, int],
        programs: Numbers,
        iterations: Mapping[Operation, int],
    ) -> None:
        super().__init__()
        self._parameters = {v: n for n, v in enumerate(kernel.regions[0].entry.arguments)}
        self._scalars, self._iterations = scalars, iterations
        self._domain = LaneNumbers(programs, grid)
        self._regularity = Regularity()

    def inputs(self, value: Value) -> Sequence[Value]:
        op = value.defining_op
        counted = counted_loop(value)
        if counted is not None:
            return self._loop_inputs(*counted)
        if op is None or op.regions:
            return ()
        if op.declaration.integer is None and len(lanes_of(value)) != 1 and not op.has(CAST):
            return ()
        return op.operands

    def compute(self, value: Value) -> Numbers | None:
        op = value.defining_op
        counted = counted_loop(value)
        if counted is not None:
            return self._carried(value, *counted)
        if op is None:
            return self._parameter(value)
        operands = [self.known.get(operand) for operand in self.inputs(value)]
        if not operands and op.operands:
            return None
        arrays = [operand for operand in operands if operand is not None]
        if len(arrays) < len(operands) or op.regions:
            return None
        lanes = lanes_of(value)
        if lanes:
            return None if len(lanes) > 1 else viewed(arrays[0], lanes[0], op.operands[0], value)
        if op.declaration.integer is None:
            return arrays[0] if op.has(CAST) and len(arrays) == 1 else None
        return self._domain.result(value, op, arrays)

    def _parameter(self, value: Value) -> Numbers | None:
        if isinstance(element_type(value.type), PointerType):
            return np.zeros(1, np.int64) if value in self._parameters else None
        number = self._scalars.get(self._parameters.get(value, -1))
        return None if number is None else np.full(1, number, np.int64)

    # ---- counted loops
    def _loop_inputs(self, loop: Operation, number: int) -> Sequence[Value]:
        bounds = loop.loop_bounds
        assert bounds is not None
        if number < 0:
            return bounds
        carried = carried_values(loop)[number]
        addends = self._regularity.increments(carried.argument, carried.yielded)
        if addends is None or not all(_is_outside(addend, loop) for addend in addends):
            return ()
        return (*bounds, carried.initial, *addends)

    def _carried(self, value: Value, loop: Operation, number: int) -> Numbers | None:
        inputs = [self.known.get(v) for v in self._loop_inputs(loop, number)]
        arrays = [array for array in inputs if array is not None]
        if not inputs or len(arrays) < len(inputs):
            return None
        lower, upper, step, *rest = arrays
        if value.defining_op is not None:
            count = np.maximum(0, -((lower - upper) // np.maximum(step, 1)))
        elif loop in self._iterations:
            count = np.full(1, self._iterations[loop])
        else:
            return None
        if number < 0:
            counter: Numbers = lower + step * count
            return counter
        element = element_type(value.type)
        unit = byte_size(element.pointee) if isinstance(element, PointerType) else 1
        rank = len(shape_of(value.type))
        total: Numbers = _raised(rest[0], 1 + rank)
        for addend in rest[1:]:
            both = _raised(addend, 1 + rank) * _raised(count, 1 + rank)
            total = total + both * unit
        return total


def _raised(array: Any, rank: int) -> Any:
    """Return an array with axes of extent 1 added at the end."""
    return array.reshape(*array.shape, *(1,) * (rank - array.ndim))


def _is_outside(value: Value, loop: Operation) -> bool:
    """Return whether a value is the same in all iterations of a loop."""

    def sources(value: Value) -> Iterable[Value]:
        return value.defining_op.operands if value.defining_op is not None else ()

    entry = loop.regions[0].entry
    return all(
        not (isinstance(part.owner, Block) and part.owner is entry)
        for part in reachable([value], sources)
    )


def viewed(array: Numbers, lanes: Lanes, source: Value, view: Value) -> Numbers | None:
    """Return the lanes of a view, given its operand's lanes; None if their order is unknown."""
    shape, result = shape_of(source.type), shape_of(view.type)
    if lanes.axes is None:
        if not lanes.ordered:
            return None
        whole = np.broadcast_to(array, (array.shape[0], *shape))
        return whole.reshape(array.shape[0], *result)
    return along(array, lanes.axes, lanes.fixed, len(result))


def along(array: Numbers, axes: Sequence[int | None], fixed: Sequence[int], rank: int) -> Numbers:
    """Return the lanes of one tile, arranged along the axes of another tile.

    Args:
        axes: For each axis of the first tile, the corresponding axis of the other tile; None if
            there is no such axis.
        fixed: For each axis of the first tile, the coordinate to select if no axis corresponds to
            it.
        rank: The rank of the other tile.
    """
    index: list[Any] = [slice(None)]
    for n, (axis, extent) in enumerate(zip(axes, array.shape[1:], strict=True)):
        index.append(slice(None) if axis is not None else min(fixed[n], extent - 1))
    kept = [axis for axis in axes if axis is not None]
    array = array[tuple(index)]
    array = array.transpose(0, *(1 + n for n in np.argsort(kept)))
    extents = [1] * rank
    for axis, extent in zip(sorted(kept), array.shape[1:], strict=True):
        extents[axis] = extent
    return array.reshape(array.shape[0], *extents)
