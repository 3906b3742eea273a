"""The cause of an access outside its memory: the mask that admits the lanes, or the index.

The access is evaluated again in the program and iteration of the witness, and in a few other
programs. This gives the address of each lane, the mask, and each condition in the conjunction that
forms the mask. A condition is the cause if a tighter bound would exclude all lanes outside the
memory and none inside. If there is no such condition, the mask does not bound the index, and the
index is the cause.

Tensors with several dimensions are usually accessed by rows, and only the last row ends at the end
of the memory. Addresses are therefore split into one index per dimension, using the strides of the
tensor, if the kernel computes them in this way.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.findings.causes import Cause, CauseKind, assignment_before, definition_text
from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.lane_values import LaneValues, along
from ttools.interpreter.analysis.launch_values import KernelValues, Pointer
from ttools.interpreter.analysis.linear import Atom, Linear
from ttools.interpreter.analysis.positions import position_of
from ttools.interpreter.runtime.monitor import Witness
from ttools.ir import Module, Operation, Value, as_signed, shape_of
from ttools.ir.dialects.traits import LOOP
from ttools.ir.semantics import lanes_of, width_of
from ttools.sanitizer.analysis.dataflow import is_access
from ttools.sanitizer.analysis.index_loads import index_loads
from ttools.sanitizer.causes.index_parts import Part, loop_variables, named, parts_of
from ttools.sanitizer.causes.masks import Conjunct, Explained, WrongLanes, conjuncts, indices_of
from ttools.sanitizer.launch.checked import CheckedLaunch

Lanes = NDArray[np.bool_]
#: Number of programs in which an access is evaluated, and maximum number of elements of an array.
_PROGRAMS = 6
_MOST_ELEMENTS = 1 << 20


def explain(checked: CheckedLaunch, witness: Witness) -> Explained | None:
    """Return the cause of a failed access, or None if the kernel's text does not show it."""
    candidates = accesses_at(checked, witness.site.location)
    for op in candidates:
        tile = _Tile.of(checked, op, witness)
        if tile is not None:
            explained = tile.explained()
            return explained and replace(explained, outside=tile.failed[0])
    if not candidates:
        return None
    # The address depends on memory or on control flow, which the evaluation does not follow.
    load = checked.kernel.at(index_loads, witness.site.location, None)
    kernel = checked.spec.kernel
    if len(candidates) == 1 and (index := _unmasked_index(checked, candidates[0], witness)):
        return index
    if load is not None:
        return Explained(_cause(kernel, "index", load.location, load.location.name or ""))
    masks = {_stripped(op.mask): None for op in candidates if op.mask is not None}
    if witness.site.masked and len(masks) == 1:
        return _by_whole_mask(kernel, next(iter(masks)))
    return None


def _unmasked_index(checked: CheckedLaunch, op: Operation, witness: Witness) -> Explained | None:
    """Return the index as the cause if it is out of range and no condition bounds its axis.

    The value is taken from the witness, so the loops around the access need not be evaluated. Only
    the outermost dimension is considered, because the access leaves the memory of the tensor.
    """
    argument = checked.spec.argument(witness.site.parameter)
    tensor = argument.tensor if argument is not None else None
    if tensor is None or not tensor.is_dense or op.mask is None or 0 in tensor.shape:
        return None
    row = prod(tensor.shape[1:]) * tensor.itemsize
    number = (witness.address - checked.regions[witness.site.parameter].view[0]) // row
    if number < tensor.shape[0]:
        return None
    compared = [part for part in parts_of(op.mask) if width_of(part.value) > 1]
    bounded = set().union(*map(_axes, compared))
    values = dict(witness.values)
    for part in parts_of(op.address):
        axes = _axes(part)
        if part.name and axes and not axes & bounded and values.get(part.name) == number:
            location = part.value.location or op.location
            if location is None:
                return None
            cause = _cause(checked.spec.kernel, "index", location, part.name)
            return Explained(cause, None, (part.name, *loop_variables(op)))
    return None


def _axes(part: Part) -> set[int]:
    """Return the axes of the access along which a part varies."""
    extents = shape_of(part.value.type)
    return {
        axis
        for axis, extent in zip(part.axes, extents, strict=False)
        if axis is not None and extent > 1
    }


def accesses_at(checked: CheckedLaunch, location: SourceLocation | None) -> Sequence[Operation]:
    """Return the accesses of a kernel at a location; unrolled code has several per location."""
    alike = checked.kernel.at(_accesses, location, ())
    exact = [op for op in alike if op.location == location]
    return exact or alike


def _accesses(module: Module) -> dict[tuple[str, int, int], list[Operation]]:
    accesses: dict[tuple[str, int, int], list[Operation]] = {}
    for op in module.kernel.walk():
        position = position_of(op.location)
        if position is not None and is_access(op):
            accesses.setdefault(position, []).append(op)
    return accesses


def scalars_of(checked: CheckedLaunch) -> dict[int, int]:
    """Return the values of the integer parameters of a launch."""
    parameters = checked.kernel.module.kernel.regions[0].entry.arguments
    raw = checked.launch.raw_parameters
    widths = {n: width_of(value) for n, value in enumerate(parameters) if not value.is_tensor}
    return {
        n: as_signed(raw[n] & ((1 << width) - 1), width)
        for n, width in widths.items()
        if width and n < len(raw)
    }


def element_loaded(
    checked: CheckedLaunch, witness: Witness, load: SourceLocation, parameter: int
) -> tuple[int, int] | None:
    """Return the number and value of the element that contained the index of a failed access.

    Args:
        witness: A lane of the access.
        load: Position of the load of the index.
        parameter: Index of the parameter from which the index is loaded.

    Returns:
        None if the address of the load is unknown, or if the kernel may change the element.
    """
    argument = checked.spec.argument(parameter)
    if argument is None or argument.tensor is None or checked.is_given_device_memory:
        return None
    if parameter in checked.launch.kernel.variants.effects.written:
        return None
    for op in accesses_at(checked, witness.site.location):
        for part in parts_of(op.address):
            source = part.value.defining_op
            if source is None or source.location != load or source.operand("ptr") is None:
                continue
            distance = _distance_loaded(checked, witness, op, part, source)
            address = checked.launch.raw_parameters[parameter] + (distance or 0)
            low, high = checked.regions[parameter].storage
            size = width_of(part.value) // 8
            if distance is None or not size or not low <= address <= high - size:
                return None
            value = int.from_bytes(ctypes.string_at(address, size), sys.byteorder, signed=True)
            return distance // argument.tensor.itemsize, value
    return None


def _distance_loaded(
    checked: CheckedLaunch, witness: Witness, op: Operation, part: Part, load: Operation
) -> int | None:
    """Return the offset in bytes of the loaded element that one lane of an access depends on.

    Args:
        op: Load, store or atomic that failed.
        part: The part of the access's address that is loaded.
        load: The operation that loads it.

    Returns:
        None if the distance is unknown, or if the lane is masked off.
    """
    loops, iterations = loops_around(load), witness.iterations
    if loops != loops_around(op)[: len(loops)] or len(loops) > len(iterations):
        return None
    programs = np.array([checked.spec.coordinates(witness.program)], np.int64)
    values = lane_values(checked, programs, dict(zip(loops, iterations, strict=False)))
    distances = values.of(load.address)
    active = np.ones(1, np.int64) if load.mask is None else values.of(load.mask)
    if distances is None or active is None:
        return None
    shape = shape_of(op.address.type)
    lane = np.unravel_index(witness.lane, shape) if shape else ()
    own = (0, *(0 if axis is None else int(lane[axis]) for axis in part.axes))
    of_load = (1, *shape_of(load.address.type))
    if not np.broadcast_to(active, of_load)[own]:
        return None
    return int(np.broadcast_to(distances, of_load)[own])


def loops_around(op: Operation) -> list[Operation]:
    """Return the loops around an operation, outermost first."""
    loops: list[Operation] = []
    parent = op.parent_op
    while parent is not None:
        if parent.has(LOOP):
            loops.insert(0, parent)
        parent = parent.parent_op
    return loops


class _Tile:
    """A failed access, evaluated in a few programs; the program of the witness comes first."""

    def __init__(
        self,
        checked: CheckedLaunch,
        op: Operation,
        witness: Witness,
        values: LaneValues,
        distances: NDArray[np.int64],
    ) -> None:
        self.checked, self.op, self.witness, self.values = checked, op, witness, values
        self.shape = shape_of(op.address.type)
        self.programs = _programs(checked, op, witness)
        start = checked.launch.raw_parameters[witness.site.parameter]
        shape = (len(self.programs), *self.shape)
        self.addresses = np.broadcast_to(distances + start, shape)

    @classmethod
    def of(cls, checked: CheckedLaunch, op: Operation, witness: Witness) -> _Tile | None:
        """Return the evaluated access.

        The result is None if the access cannot be evaluated, or if it differs from the observed
        access.
        """
        tile = cls._evaluated(checked, op, witness)
        if tile is None or int(tile.addresses[0].reshape(-1)[witness.lane]) != witness.address:
            return None
        return tile

    @classmethod
    def _evaluated(cls, checked: CheckedLaunch, op: Operation, witness: Witness) -> _Tile | None:
        loops = loops_around(op)
        if witness.site.parameter < 0 or len(loops) != len(witness.iterations):
            return None
        values = _values(checked, op, witness, loops, witness.iterations)
        distances = values.of(op.address)
        return None if distances is None else cls(checked, op, witness, values, distances)

    # ---- lanes
    def _all(self, lanes: NDArray[np.int64] | Lanes) -> Lanes:
        return np.broadcast_to(lanes, self.addresses.shape).astype(np.bool_)

    @cached_property
    def conjuncts(self) -> list[Conjunct]:
        return conjuncts(self.op.mask)

    @cached_property
    def active(self) -> Lanes:
        """The lanes that the known conditions of the mask admit."""
        active = np.ones(self.addresses.shape, np.bool_)
        for part in self.conjuncts:
            holds = part.holds(self.values)
            if holds is not None:
                active &= self._all(holds)
        return active

    @cached_property
    def outside_memory(self) -> Lanes:
        """The lanes outside the storage, or outside the view if the access stays in the storage."""
        site = self.witness.site
        region = self.checked.regions[site.parameter]
        if self.witness.test != "view":
            low, high = region.storage
            return (self.addresses < low) | (self.addresses + site.size > high)
        return ~region.holds_each(self.addresses)

    @property
    def failed(self) -> Lanes:
        """The lanes that are outside and that the known conditions of the mask admit."""
        return self.outside_memory & self.active

    @cached_property
    def _linear(self) -> KernelValues:
        checked = self.checked
        return KernelValues(checked.kernel.module.kernel, checked.spec.grid, scalars_of(checked))

    @cached_property
    def dimensions(self) -> _Dimensions | None:
        """The indices along the dimensions of the tensor, if the kernel computes such indices."""
        argument = self.checked.spec.argument(self.witness.site.parameter)
        pointer = self._linear.of(self.op.address)
        if argument is None or argument.tensor is None or not isinstance(pointer, Pointer):
            return None
        tensor = argument.tensor
        sizes = [
            (stride * tensor.itemsize, extent)
            for stride, extent in zip(tensor.strides, tensor.shape, strict=True)
            if extent > 1
        ]
        if pointer.parameter != self.witness.site.parameter or any(s <= 0 for s, _ in sizes):
            return None
        split = _split(pointer.distance, sorted(sizes, reverse=True))
        if split is None:
            return None
        dimensions = _Dimensions.of(self, split)
        if dimensions is None:
            return None
        is_whole = not (self.failed & ~dimensions.outside).any()
        return dimensions if is_whole else None

    def number(self, atom: Any) -> NDArray[np.int64] | None:
        """Return the value of a variable in the symbolic address, for each program and lane."""
        kind, *rest = atom
        if kind == "program":
            ids = _coordinates(self.checked, self.programs)[:, rest[0]]
            return ids.reshape(-1, *(1,) * len(self.shape))
        if kind == "axis":
            shape = [1] * (1 + len(self.shape))
            shape[1 + rest[0]] = rest[1]
            return np.arange(rest[1]).reshape(shape)
        if kind == "iteration":
            loops = loops_around(self.op)
            if rest[0] not in loops:
                return None
            number = self.witness.iterations[loops.index(rest[0])]
            return np.full((1,) * (1 + len(self.shape)), number)
        numbers = self._unknown(atom)
        if numbers is None or numbers.ndim > 1 + len(self.shape):
            return None
        # If views do not renumber the axes, the value has the axes of its own tile.
        return numbers.reshape(*numbers.shape, *(1,) * (1 + len(self.shape) - numbers.ndim))

    def _unknown(self, atom: Any) -> NDArray[np.int64] | None:
        """Return the numbers for an unknown that stands for a value of the kernel."""
        kind, *rest = atom
        if kind == "lane" and isinstance(rest[0], tuple):
            inner, axes, fixed = rest
            numbers = self._unknown(inner)
            return None if numbers is None else along(numbers, axes, fixed, len(self.shape))
        if kind not in ("lane", "scalar"):
            return None
        value = rest[0]
        is_whole = self._linear.of(value) == Linear(0, {atom: 1})
        return self.values.of(value) if is_whole else None

    # ---- the cause
    def explained(self) -> Explained | None:
        kernel = self.checked.spec.kernel
        outside, rows = self.outside_memory, slice(0, 1)
        dimensions, atoms = self.dimensions, set[Atom]()
        if dimensions is not None:
            parts = self._separating(dimensions.outside, slice(None), dimensions.atoms)
            if parts or self._begins_inside():
                outside, rows, atoms = dimensions.outside, slice(None), dimensions.atoms
        parts = self._separating(outside, rows, atoms)
        if len(parts) == 1:
            return self._by_conjunct(kernel, *parts[0])
        undecided = any(part.excess(self.values) is None for part in self.conjuncts)
        index = None if parts or undecided else self._by_index(kernel, atoms, outside, rows)
        if index is not None or self.op.mask is None or not self.conjuncts:
            return index
        wrong = (self.active & outside)[0]
        lanes = _runs(np.flatnonzero(wrong)) if wrong.ndim == 1 else ()
        return _by_whole_mask(kernel, _stripped(self.op.mask), lanes)

    def _begins_inside(self) -> bool:
        """Return whether the first iterations of the first program stay inside all dimensions.

        If not, the kernel may treat the tensor as a single row of elements.
        """
        zeros = (0,) * len(self.witness.iterations)
        first = replace(self.witness, program=0, iterations=zeros)
        tile = _Tile._evaluated(self.checked, self.op, first)
        dimensions = None if tile is None else tile.dimensions
        if tile is None or dimensions is None:
            return False
        return not (dimensions.outside & tile.active)[0].any()

    def _separating(
        self, outside: Lanes, rows: slice, atoms: set[Atom]
    ) -> list[tuple[Conjunct, int]]:
        """Return conditions that exclude exactly the lanes outside if their bounds are tightened.

        Args:
            rows: The programs that are considered.
            atoms: Unknowns of the index that is out of range; empty if it is not known which they
                are.

        Returns:
            The conditions, each with the smallest excess among the lanes outside.
        """
        conditions = []
        for part in self.conjuncts:
            excess = part.excess(self.values)
            moved = None if excess is None else part.moved(excess)
            threshold = None if moved is None else self._threshold(moved, outside, rows)
            if threshold is not None:
                conditions.append((part, threshold))
        if len(conditions) > 1 and atoms:
            related = [(part, t) for part, t in conditions if self._atoms(part) & atoms]
            conditions = related or conditions
        return conditions

    def _atoms(self, part: Conjunct) -> set[Atom]:
        """Return the unknowns that a condition compares, in coordinates of the access."""
        atoms: set[Atom] = set()
        op = part.condition.defining_op
        for value in op.operands if op is not None else ():
            expression = self._linear.of(value)
            for view in part.views:
                if isinstance(expression, Linear):
                    expression = self._linear.viewed(view, expression)
            if isinstance(expression, Linear):
                atoms |= set(expression.terms)
        return atoms

    def _by_conjunct(self, kernel: str, part: Conjunct, threshold: int) -> Explained:
        value = part.condition
        names = [value, *part.views]
        name = next(filter(None, (named(one) for one in names)), "")
        own, excess = self.values.of(value), part.excess(self.values)
        lanes: tuple[tuple[int, int], ...] = ()
        varies = False
        if own is not None and excess is not None and sum(n > 1 for n in shape_of(value.type)) == 1:
            admitted = np.logical_and(own != 0, excess >= threshold)
            varies = admitted.shape[0] > 1 and not (admitted == admitted[:1]).all()
            lanes = _runs(np.flatnonzero(admitted[0].reshape(-1)))
        cause = replace(
            _cause(kernel, "mask", value.location, name),
            lanes=lanes,
            program=self.checked.spec.coordinates(self.witness.program) if varies else None,
        )
        shown = [name, *_names(value)]
        return Explained(cause, WrongLanes(value, threshold), tuple(dict.fromkeys(shown)))

    def _by_index(
        self, kernel: str, atoms: set[Atom], outside: Lanes, rows: slice
    ) -> Explained | None:
        """Return the index as the cause; None if there is no variable, or a condition bounds it."""
        parts = [part for part in parts_of(self.op.address) if part.name]
        related = [part for part in parts if self._varies(part) & atoms] if atoms else []
        tiles = [part for part in related or parts if part.value.is_tensor]
        chosen = next(iter(tiles or related or parts), None)
        if chosen is None:
            return None
        compared = {part.value for c in self.conjuncts for part in parts_of(c.condition)}
        if chosen.value in compared and not (atoms and chosen.used):
            return None
        location = chosen.value.location or self.op.location
        if chosen.used is not None:
            location = assignment_before(chosen.used, chosen.name)
        if location is None:
            return None
        cause = _cause(kernel, "index", location, chosen.name)
        others = [part.name for part in related]
        shown = (chosen.name, *others, *loop_variables(self.op))
        wrong = self._wrong_indices(chosen, outside, rows)
        return Explained(cause, wrong, tuple(dict.fromkeys(shown)))

    def _wrong_indices(self, part: Part, outside: Lanes, rows: slice) -> WrongLanes | None:
        """Return the smallest index of a lane outside; None if a larger index is inside."""
        indices = indices_of(part, self.op, self.values)
        if indices is None:
            return None
        threshold = self._threshold(indices, outside, rows)
        return None if threshold is None else WrongLanes(part.value, threshold, is_index=True)

    def _threshold(self, numbers: NDArray[np.int64], outside: Lanes, rows: slice) -> int | None:
        """Return the smallest number of a lane outside if it exceeds all numbers inside; else None.

        Args:
            numbers: A number for each program and lane.
            rows: The programs that are considered.
        """
        active = self.active[rows]
        wrong, right = active & outside[rows], active & ~outside[rows]
        if not wrong.any():
            return None
        lanes = np.broadcast_to(numbers, self.addresses.shape)[rows]
        threshold = int(lanes[wrong].min())
        return threshold if not right.any() or int(lanes[right].max()) < threshold else None

    def _varies(self, part: Part) -> set[Atom]:
        """Return the unknowns that part of the address depends on, in the access's coordinates."""
        expression = self._linear.of(part.value)
        if not isinstance(expression, Linear):
            return set()
        atoms: set[Atom] = set()
        for atom in expression.terms:
            if atom[0] != "axis":
                atoms.add(atom)
            elif (axis := part.axes[int(str(atom[1]))]) is not None:
                atoms.add(("axis", axis, atom[2]))
        return atoms


def _programs(checked: CheckedLaunch, op: Operation, witness: Witness) -> list[int]:
    """Return the programs in which an access is evaluated, beginning with that of the witness."""
    count = prod(checked.spec.grid)
    most = max(1, min(_PROGRAMS, _MOST_ELEMENTS // max(1, prod(shape_of(op.address.type)))))
    spread = [n * (count - 1) // max(1, _PROGRAMS - 2) for n in range(_PROGRAMS - 1)]
    return list(dict.fromkeys([witness.program, *spread]))[:most]


def _coordinates(checked: CheckedLaunch, programs: Iterable[int]) -> NDArray[np.int64]:
    return np.array([checked.spec.coordinates(program) for program in programs], np.int64)


def _values(
    checked: CheckedLaunch,
    op: Operation,
    witness: Witness,
    loops: Sequence[Operation],
    iterations: Sequence[int],
) -> LaneValues:
    return lane_values(
        checked,
        _coordinates(checked, _programs(checked, op, witness)),
        dict(zip(loops, iterations, strict=True)),
    )


def lane_values(
    checked: CheckedLaunch,
    programs: NDArray[np.int64],
    iterations: Mapping[Operation, int] = MappingProxyType({}),
) -> LaneValues:
    """Return the values of a launch in some programs.

    Args:
        programs: Ids of the programs along all axes, one program per row.
        iterations: The iterations of loops.
    """
    kernel = checked.kernel.module.kernel
    return LaneValues(kernel, checked.spec.grid, scalars_of(checked), programs, iterations)


# ---- dimensions of a tensor


@dataclass(frozen=True)
class _Index:
    """The index along one dimension, `constant + sum of weight * unknown`; valid below `extent`."""

    extent: int
    constant: int
    terms: tuple[tuple[Atom, int], ...]


def _split(distance: Linear, sizes: list[tuple[int, int]]) -> list[_Index] | None:
    """Split a distance in bytes into indices; None if it is not a sum of multiples of strides.

    Args:
        distance: The distance from the first element.
        sizes: Stride in bytes and extent of each dimension, the greatest stride first.
    """
    terms: list[list[tuple[Atom, int]]] = [[] for _ in sizes]
    for atom, factor in distance.terms.items():
        at = next((n for n, (stride, _) in enumerate(sizes) if factor % stride == 0), None)
        if at is None:
            return None
        terms[at].append((atom, factor // sizes[at][0]))
    merged: list[tuple[int, int, list[tuple[Atom, int]]]] = []
    outer = 1
    for n, (stride, extent) in enumerate(sizes):
        extent *= outer
        outer = 1
        inner = sizes[n + 1] if n + 1 < len(sizes) else None
        if not terms[n] and inner is not None and stride == inner[0] * inner[1]:
            outer = extent  # the kernel treats this dimension and the next as one
        else:
            merged.append((stride, extent, terms[n]))
    indices, rest = [], abs(distance.constant)
    sign = 1 if distance.constant >= 0 else -1
    for stride, extent, parts in merged:
        whole, rest = divmod(rest, stride)
        indices.append(_Index(extent, sign * whole, tuple(parts)))
    return indices if not rest else None


@dataclass(frozen=True)
class _Dimensions:
    """The lanes whose index along some dimension is out of range.

    Attributes:
        outside: The lanes, for each program.
        atoms: The unknowns of the indices that are out of range.
    """

    outside: Lanes
    atoms: set[Atom]

    @classmethod
    def of(cls, tile: _Tile, indices: Sequence[_Index]) -> _Dimensions | None:
        outside = np.zeros(tile.addresses.shape, np.bool_)
        atoms: set[Atom] = set()
        for index in indices:
            total: NDArray[np.int64] = np.full((1,) * tile.addresses.ndim, index.constant)
            for atom, weight in index.terms:
                number = tile.number(atom)
                if number is None:
                    return None
                total = total + weight * number
            along = np.broadcast_to((total < 0) | (total >= index.extent), outside.shape)
            if (along & tile.active)[0].any():
                atoms |= {atom for atom, _ in index.terms}
            outside |= along
        return cls(outside, atoms)


# ---- descriptions


def _cause(kernel: str, kind: CauseKind, location: SourceLocation | None, name: str) -> Cause:
    return Cause(
        kind=kind,
        kernel=kernel,
        name=name,
        source=definition_text(location, name) if location is not None else name,
        location=location,
    )


def _by_whole_mask(kernel: str, mask: Value, lanes: tuple[tuple[int, int], ...] = ()) -> Explained:
    name = named(mask)
    names = tuple(dict.fromkeys([name, *_names(mask)]))
    cause = replace(_cause(kernel, "mask", mask.location, name), lanes=lanes)
    return Explained(cause, None, names)


def _stripped(mask: Value) -> Value:
    """Return the value from which views produce a mask.

    The search stops at the first value that is assigned to a variable.
    """
    while not named(mask) and (op := mask.defining_op) is not None and len(lanes_of(mask)) == 1:
        mask = op.operands[0]
    return mask


def _names(value: Value) -> list[str]:
    return [part.name for part in parts_of(value) if part.name]


def _runs(numbers: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Return the first and last number of each run of consecutive integers; `numbers` ascend."""
    if not len(numbers):
        return ()
    cuts = np.flatnonzero(np.diff(numbers) > 1) + 1
    return tuple((int(run[0]), int(run[-1])) for run in np.split(numbers, cuts))
