"""Advice on races whose cause is a mask, an index, a stride or the grid.

An atomic or a barrier would only hide such a defect. The advice is given if one of these holds:

- The race disappears without the lanes that a mask wrongly admits (`races.causes_of`).
- The two programs differ only along an axis of the grid whose program id the kernel does not read.
- The accesses are in a loop that starts at the program id and whose step differs from the number of
  programs.
- Both programs compute the same address apart from the terms with their ids, and the step from one
  program to the next is less than the extent of the tile. With `row * 64 + tl.arange(0, 128)`, the
  lanes from 64 on are the elements of the next row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.core.findings.causes import Cause
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.analysis.launch_values import KernelValues, Pointer
from ttools.ir import Module, Operation, shape_of
from ttools.ir.dialects.traits import ATOMIC
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
        or _of_strides(checked, operations, programs, differing)
    )


def _of_lanes(cause: Cause) -> str:
    lanes = cause.lanes_text or "the lanes outside the tensor"
    if cause.kind == "index":
        return f"bound {cause.phrase} by a mask; without {lanes}, these accesses do not conflict"
    return f"correct the mask {cause.phrase}; without {lanes}, these accesses do not conflict"


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
    operations: Sequence[Operation | None],
    programs: Sequence[Sequence[int]],
    differing: Sequence[int],
) -> str:
    """Return advice if consecutive programs are closer to each other than the extent of the tile.

    Args:
        checked: The launch in which the race occurs.
        operations: The two accesses; None if they are unknown.
        programs: Coordinates of their programs.
        differing: The axes along which the programs differ.
    """
    first, second = (_address(checked, op) for op in operations)
    if first is None or second is None or len(differing) != 1 or first != second:
        return ""
    (axis,) = differing
    terms = first.distance.terms
    if any(atom[0] not in ("program", "axis", "iteration") for atom in terms):
        return ""
    step = terms.get(("program", axis), 0)
    apart = abs(programs[0][axis] - programs[1][axis])
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
    argument = checked.spec.argument(first.parameter)
    tensor = argument.tensor if argument is not None else None
    if argument is not None and tensor is not None and len(tensor.shape) > 1:
        strides = [
            stride * tensor.itemsize
            for stride, length in zip(tensor.strides, tensor.shape, strict=True)
            if length > 1 and stride * tensor.itemsize > factor
        ]
        # If other program ids or loops advance by all of these strides, such as a program id by
        # rows, the programs along this axis divide a row into blocks.
        others = [other for atom, other in terms.items() if atom != ("program", axis)]
        is_block = all(any(other % stride == 0 for other in others) for stride in strides)
        if not is_block and not any(step % stride == 0 for stride in strides):
            return (
                f"consecutive programs along axis {axis} are {step // tensor.itemsize:,} elements "
                f"apart, but `{argument.name}` has strides ({', '.join(map(str, tensor.strides))}):"
                " use its own strides"
            )
    where = f" along axis {tile_axis} of the tile" if len(_shape(operations[0])) > 1 else ""
    return (
        f"consecutive programs along axis {axis} are {lanes:,} lanes apart{where}, but the tile "
        f"has {extent:,}: mask the lanes from {lanes:,} on, or correct the stride"
    )


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
