"""Grids that a GPU rejects: the limits, and the operation at which the finding is reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttools.interpreter.run.launch_rules import limits_in_force
from ttools.ir import Module, Operation
from ttools.prove.attributes import axis_of

#: The kind of finding that is reported for a grid that a GPU rejects.
REFUSED = "refused_launch"


def grid_limits() -> tuple[int, int, int]:
    """Return the maximum number of programs along each axis of a grid."""
    return limits_in_force().grid


def axis_operation(module: Module, axis: int) -> Operation:
    """Return the operation that reads the program id along an axis.

    If there is none, the kernel's first operation is returned.

    Args:
        module: The kernel and the functions that it calls.
        axis: 0, 1 or 2.
    """
    every = list(module.kernel.walk())
    asking = (op for op in every if op.name == "tt.get_program_id" and axis_of(op) == axis)
    return next(asking, next(op for op in every if op is not module.kernel))


def refused_axes(module: Module, grid: Sequence[int]) -> Iterator[tuple[Operation, str]]:
    """Yield the operation to report and a description, for each axis with too many programs.

    Args:
        grid: Number of programs along the three axes.
    """
    for axis, (extent, limit) in enumerate(zip(grid, grid_limits(), strict=True)):
        if extent > limit and 0 not in grid:
            reason = (
                f"axis {axis} of the grid has {extent:,} programs, but at most {limit:,} "
                "are allowed"
            )
            yield axis_operation(module, axis), reason
