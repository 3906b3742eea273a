"""Facts about a launch's grid: why elements are stored by no program or by several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ttools.interpreter.analysis.launch_values import KernelValues
from ttools.interpreter.analysis.linear import Linear
from ttools.ir import Module, Operation, Value
from ttools.ir.dataflow import passings
from ttools.ir.dialects.traits import LOOP
from ttools.sanitizer.analysis.dataflow import program_axis
from ttools.sanitizer.causes.failed_access import scalars_of
from ttools.sanitizer.launch.checked import CheckedLaunch


def axes_read(module: Module) -> frozenset[int]:
    """Return the axes of the grid whose program id a kernel reads."""
    axes = map(program_axis, module.kernel.walk())
    return frozenset(axis for axis in axes if axis is not None)


def grid_notes(checked: CheckedLaunch) -> tuple[str, ...]:
    """Return sentences about axes that the kernel does not read and about steps of loops.

    They explain findings and are not defects by themselves: for example, programs may take their
    work from an atomic counter.
    """
    unread = _unread_axes(checked.kernel.module, checked.spec.grid)
    return (*unread, *(step.text for step in wrong_steps(checked)))


@dataclass(frozen=True)
class WrongStep:
    """A loop that starts at the program id and does not step by the number of programs.

    Attributes:
        loop: Operation of the loop.
        line: Line of the loop.
        step: Step by which the loop advances.
        programs: Number of programs along the axes of the program id.
    """

    loop: Operation
    line: int
    step: int
    programs: int

    @property
    def text(self) -> str:
        return (
            f"the loop in line {self.line} steps by {self.step:,}, and the launch has "
            f"{self.programs:,} {'program' if self.programs == 1 else 'programs'}: step by "
            "num_programs"
        )


def wrong_steps(checked: CheckedLaunch) -> tuple[WrongStep, ...]:
    """Return the loops of a launch whose step differs from the number of programs."""
    grid, scalars = checked.spec.grid, scalars_of(checked)
    key = (wrong_steps, grid, *scalars.items())
    module = checked.kernel.module
    return checked.kernel.remember(key, lambda: tuple(_wrong_steps(module, grid, scalars)))


def _unread_axes(module: Module, grid: Sequence[int]) -> Iterator[str]:
    read = axes_read(module)
    for axis, count in enumerate(grid):
        if count > 1 and axis not in read:
            yield (
                f"the kernel does not read program_id({axis}), and the grid has {count:,} "
                f"programs along axis {axis}"
            )


def _wrong_steps(
    module: Module, grid: Sequence[int], scalars: Mapping[int, int]
) -> Iterator[WrongStep]:
    values = KernelValues(module.kernel, grid, scalars)
    for loop in module.kernel.walk():
        if loop.has(LOOP):
            for lower, step in _counters(loop):
                yield from _of_loop(loop, values.of(lower), values.of(step), values, (*grid, 1, 1))


def _counters(loop: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield the first value and the step of each counter of a loop.

    The counters of a `while` loop are the values to which each iteration adds a step.
    """
    if loop.loop_bounds is not None:
        lower, _, step = loop.loop_bounds
        yield lower, step
        return
    passed: dict[Value, list[Value]] = {}
    for passing in passings(loop):
        for value, receiver in zip(passing.values, passing.receivers, strict=True):
            passed.setdefault(receiver, []).append(value)
    for values in passed.values():
        if len(values) != 2:
            continue
        lower, following = values
        add = following.defining_op
        if add is not None and add.declaration.python == "Add":
            for own, step in (add.operands, add.operands[::-1]):
                # The block with the loop's condition passes the value on to the body.
                if any(values is passed.get(before) for before in passed.get(own, ())):
                    yield lower, step


def _of_loop(
    loop: Operation, lower: object, step: object, values: KernelValues, grid: Sequence[int]
) -> Iterator[WrongStep]:
    """Yield a loop that starts at the program id if its step is not the number of programs.

    A step of 1 is not reported, as in a loop over the part of a matrix above its diagonal.
    """
    if not isinstance(lower, Linear) or not isinstance(step, Linear) or step.terms:
        return
    axes = [int(str(atom[1])) for atom in lower.terms if atom[0] == "program"]
    programs = prod(grid[axis] for axis in axes)
    is_number = len(axes) == len(lower.terms) > 0 and values.bounds.interval(lower) == (
        0,
        programs - 1,
    )
    if is_number and step.constant not in (1, programs) and loop.location is not None:
        yield WrongStep(loop, loop.location.line, step.constant, programs)
