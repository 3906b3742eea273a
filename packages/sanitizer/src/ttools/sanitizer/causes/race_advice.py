"""Advice on races whose cause is a mask, an index, a stride, the grid or shared memory.

An atomic or a barrier would only hide such a defect. The advice is given if one of these holds:

- The race disappears without the lanes that a mask wrongly admits (`races.causes_of`).
- The two programs differ only along an axis of the grid whose program id the kernel does not read.
- The accesses are in a loop that starts at the program id and whose step differs from the number of
  programs.
- Both programs compute the same address apart from the terms with their ids, and the step from one
  program to the next is less than the extent of the tile. With `row * 64 + tl.arange(0, 128)`, the
  lanes from 64 on are the elements of the next row. The advice depends on the strides of the tensor
  and on whether the programs would reach all of its elements without the common lanes.
- The addresses of both stores are computed from integers that are loaded from a tensor to which the
  kernel does not write.
- The accesses are made through two parameters, whose tensors have elements in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ttools.core.findings.causes import Cause
from ttools.core.spec import TensorSpec
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.analysis.launch_values import KernelValues, Pointer
from ttools.ir import Module, Operation, Value, shape_of
from ttools.ir.dataflow import control_sources, reachable
from ttools.ir.dialects.traits import ATOMIC, READS
from ttools.ir.semantics import width_of
from ttools.sanitizer.analysis.dataflow import loads, parameter_of
from ttools.sanitizer.causes.failed_access import accesses_at, loops_around, scalars_of
from ttools.sanitizer.causes.grids import axes_read, wrong_steps
from ttools.sanitizer.causes.updates import update_help
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.races.records import AccessRef, Conflict


def race_advice(
    checked: CheckedLaunch, conflict: Conflict, sites: Sequence[ProbeSite], cause: Cause | None
) -> str:
    """Return advice on a race of known cause; empty if synchronisation may be missing.

    Args:
        checked: The launch in which the race occurs.
        conflict: The conflicting accesses of the race.
        sites: Sites of the launch; the accesses of the race index them.
        cause: The mask, index, barrier or update that causes the race; None if it is unknown.
    """
    if cause is not None and cause.kind == "update":
        return update_help(cause)
    if cause is not None and cause.kind != "barrier":
        return _of_lanes(cause)
    accesses = (conflict.first, conflict.second)
    is_atomic = any(sites[access.site].kind == "atomic" for access in accesses)
    if conflict.kind == "intra_program_race" or is_atomic:
        return ""
    programs = [checked.spec.coordinates(access.program) for access in accesses]
    differing = [axis for axis in range(3) if programs[0][axis] != programs[1][axis]]
    operations = [_operation(checked, sites, access) for access in accesses]
    return (
        _of_grid(checked, differing)
        or _of_loops(checked, operations)
        or _of_strides(checked, tuple(zip(operations, accesses, strict=True)), differing)
        or _of_parameters(checked, [sites[access.site] for access in accesses])
        or _of_table(checked, conflict, operations)
    )


def _of_parameters(checked: CheckedLaunch, sites: Sequence[ProbeSite]) -> str:
    """Return advice if the accesses are made through two parameters; otherwise an empty text."""
    names = checked.spec.names
    first, second = (site.parameter for site in sites)
    if first >= 0 and second >= 0 and first != second:
        return (
            f"`{names[first]}` and `{names[second]}` have elements in common: pass tensors that "
            "share no memory, or order the programs"
        )
    return ""


def _of_table(
    checked: CheckedLaunch, conflict: Conflict, operations: Sequence[Operation | None]
) -> str:
    """Return advice if the addresses of two stores are computed from one table of indices."""
    if conflict.kind != "overlapping_store" or operations[0] is not operations[1]:
        return ""
    (op, _) = operations
    tables = set() if op is None else _tables(checked, op)
    if len(tables) != 1 or tables & {-1, *checked.launch.kernel.variants.effects.written}:
        return ""
    return (
        f"the index is computed from `{checked.spec.names[min(tables)]}`: let its entries select "
        "different elements for each program, or combine the values by an atomic"
    )


def _tables(checked: CheckedLaunch, op: Operation) -> set[int]:
    """Return the parameters from which integers of an address are loaded; -1 for others.

    Integers that are computed from conditions, or by a reduction or scan, count as others.
    """
    kernel = checked.kernel.module.kernel
    entry, provenance = kernel.regions[0].entry, Provenance(kernel)

    def ends(value: Value) -> bool:
        made = value.defining_op
        return made is not None and bool(made.has(READS) or made.regions or width_of(value) == 1)

    def sources(value: Value) -> Iterable[Value]:
        made = value.defining_op
        if value.owner is entry or ends(value):
            return ()
        return control_sources(value) if made is None else made.operands

    ended = filter(ends, reachable([op.address], sources))
    loads_made = [loads(value) for value in ended]
    return {
        -1 if load is None else parameter_of(load.operands[0], provenance) for load in loads_made
    }


def _of_lanes(cause: Cause) -> str:
    if cause.is_loop:
        return f"{cause.loop_help}; without these iterations, the accesses do not conflict"
    lanes = cause.lanes_text or "the lanes outside the tensor"
    if cause.kind == "index":
        return f"bound {cause.phrase} by a mask; without {lanes}, these accesses do not conflict"
    mask = f"the mask {cause.phrase}" if cause.name or cause.source else cause.phrase
    return f"correct {mask}; without {lanes}, these accesses do not conflict"


def _of_grid(checked: CheckedLaunch, differing: Sequence[int]) -> str:
    """Return advice if the two programs do the same work; otherwise an empty text."""
    kernel = checked.kernel
    if not differing or kernel.fact(axes_read) & set(differing) or kernel.fact(_claims_work):
        return ""
    axis = differing[0]
    return (
        f"use program_id({axis}) in the address, or launch 1 program along axis {axis}: these "
        "programs do the same work"
    )


def _claims_work(module: Module) -> bool:
    """Return whether a kernel uses the result of an atomic, which may assign work to programs."""
    operations = module.kernel.walk()
    return any(op.has(ATOMIC) and any(result.uses for result in op.results) for op in operations)


def _of_loops(checked: CheckedLaunch, operations: Sequence[Operation | None]) -> str:
    around = [set() if op is None else {id(loop) for loop in loops_around(op)} for op in operations]
    for step in wrong_steps(checked):
        if all(id(step.loop) in loops for loops in around):
            return (
                f"let the loop in line {step.line} step by the number of programs, "
                f"{step.programs:,} in this launch, instead of {step.step:,}"
            )
    return ""


def _of_strides(
    checked: CheckedLaunch,
    accesses: Sequence[tuple[Operation | None, AccessRef]],
    differing: Sequence[int],
) -> str:
    """Return advice if consecutive programs are closer to each other than the extent of the tile.

    Args:
        checked: The launch in which the race occurs.
        accesses: The two accesses with their operations; None if these are unknown.
        differing: The axes along which the programs differ.
    """
    first, second = (_address(checked, op) for op, _ in accesses)
    if first is None or second is None or len(differing) != 1 or first != second:
        return ""
    (axis,) = differing
    terms = first.distance.terms
    if any(atom[0] not in ("program", "axis", "iteration") for atom in terms):
        return ""
    step = terms.get(("program", axis), 0)
    ids = [checked.spec.coordinates(access.program)[axis] for _, access in accesses]
    apart = abs(ids[0] - ids[1])
    overlapping = [
        (factor, int(str(atom[1])), int(str(atom[2])))
        for atom, factor in terms.items()
        if atom[0] == "axis" and 0 < factor <= step and step % factor == 0
        if apart * step // factor < int(str(atom[2]))
    ]
    if not overlapping:
        return ""
    factor, tile_axis, extent = max(overlapping)
    lanes = step // factor
    if all(_coordinate(op, access.lane, tile_axis) < lanes for op, access in accesses):
        return ""  # a mask already separates the tiles
    where = f" along axis {tile_axis} of the tile" if len(_shape(accesses[0][0])) > 1 else ""
    advice = ""
    argument = checked.spec.argument(first.parameter)
    if argument is not None and argument.tensor is not None:
        others = {atom: other for atom, other in terms.items() if atom != ("program", axis)}
        blocks = _Blocks(argument.tensor, checked.spec.grid, axis, step, factor, extent, others)
        if wrong := blocks.wrong_strides(argument.name):
            return wrong
        advice = blocks.advice()
    return (
        f"consecutive programs along axis {axis} are {lanes:,} lanes apart{where}, but the tile "
        f"has {extent:,}: " + (advice or f"mask the lanes from {lanes:,} on, or correct the stride")
    )


@dataclass(frozen=True)
class _Blocks:
    """Overlapping parts of a tensor that consecutive programs access.

    Attributes:
        tensor: The tensor that the parts belong to.
        grid: Grid of the launch.
        axis: Axis of the grid along which the parts follow each other.
        step: Distance of consecutive parts in bytes.
        factor: Distance of consecutive lanes in bytes.
        extent: Number of lanes of a part.
        others: The other terms of the address, in bytes.
    """

    tensor: TensorSpec
    grid: Sequence[int]
    axis: int
    step: int
    factor: int
    extent: int
    others: Mapping[tuple[object, ...], int]

    @property
    def dimensions(self) -> list[tuple[int, int]]:
        """Stride in bytes and length of dimensions with several elements, by descending stride."""
        dims = zip(self.tensor.strides, self.tensor.shape, strict=True)
        own = [(stride * self.tensor.itemsize, length) for stride, length in dims if length > 1]
        return sorted(own, reverse=True)

    def wrong_strides(self, name: str) -> str:
        """Return advice if the programs do not use the tensor's strides, or if these overlap."""
        own = [stride for stride, _ in self.dimensions if stride > self.factor]
        strides = f"`{name}` has strides ({', '.join(map(str, self.tensor.strides))})"
        if self._overlaps_itself() and any(self.step % stride == 0 for stride in own):
            return (
                f"{strides}, with which its elements overlap: pass a tensor that does not overlap"
            )
        if self._uses_strides() or self._divides(prod(self.tensor.shape)):
            return ""
        return (
            f"consecutive programs along axis {self.axis} are "
            f"{self.step // self.tensor.itemsize:,} elements apart, but {strides}: use its own "
            "strides"
        )

    def advice(self) -> str:
        """Return advice if the parts would leave gaps in the tensor without their common lanes."""
        length = dict(self.dimensions).get(self.factor, 0)
        if not self._uses_strides():
            length = prod(self.tensor.shape)
        programs = self.grid[self.axis]
        if programs * (self.step // self.factor) >= length:
            return ""
        if programs == -(-length // self.extent):
            return f"advance by {self.extent:,} lanes for each program"
        return "correct the stride"

    def _divides(self, length: int) -> bool:
        """Return whether the number of programs follows from the number of elements."""
        parts = (self.extent, self.step // self.factor)
        return self.grid[self.axis] in [-(-length // part) for part in parts]

    def _overlaps_itself(self) -> bool:
        """Return whether a dimension of the tensor has elements within the extent of others."""
        extent = self.tensor.itemsize
        for stride, length in reversed(self.dimensions):
            if stride < extent:
                return True
            extent += stride * (length - 1)
        return False

    def _uses_strides(self) -> bool:
        """Return whether the programs advance along the larger dimensions by their strides.

        This is also true if the other terms of the address do so, for example because a program id
        is multiplied by the stride of the rows; then, the parts are blocks of a row. A term belongs
        to the dimension with the largest stride that divides it. It also advances along larger
        dimensions if it exceeds its own.
        """
        strides = [stride for stride, _ in self.dimensions if stride > self.factor]
        if any(self.step % stride == 0 for stride in strides):
            return True
        advanced = set()
        for atom, other in self.others.items():
            advanced.add(next((stride for stride in strides if other % stride == 0), 0))
            if atom[0] != "axis" and other > 0:
                extent = other * self.grid[int(str(atom[1]))] if atom[0] == "program" else None
                advanced |= {
                    stride
                    for stride in strides
                    if stride % other == 0 and (extent is None or extent > stride)
                }
        return advanced.issuperset(strides)


def _coordinate(op: Operation | None, lane: int, axis: int) -> int:
    """Return the coordinate of a lane along an axis of the tile."""
    shape = _shape(op)
    return lane // prod(shape[axis + 1 :]) % shape[axis]


def _shape(op: Operation | None) -> tuple[int, ...]:
    return () if op is None else shape_of(op.address.type)


def _address(checked: CheckedLaunch, op: Operation | None) -> Pointer | None:
    """Return the address of an access as a linear expression; None if it is not linear."""
    if op is None:
        return None
    grid, scalars = checked.spec.grid, scalars_of(checked)
    address = KernelValues(checked.kernel.module.kernel, grid, scalars).of(op.address)
    return address if isinstance(address, Pointer) else None


def _operation(
    checked: CheckedLaunch, sites: Sequence[ProbeSite], access: AccessRef
) -> Operation | None:
    """Return the operation of an access; None if the location has several."""
    operations = accesses_at(checked, sites[access.site].location)
    return operations[0] if len(operations) == 1 else None
