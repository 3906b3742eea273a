"""The cost of masks of loads in loops, determined by compiling a kernel again without them.

The mask of a load costs more than its comparison: the load becomes conditional, its disabled lanes
must be filled, and the compiler may choose narrower instructions. The cost is therefore measured as
the difference between the numbers of instructions of two compilations.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from ttools.core.compilation.inspection import Inspection
from ttools.core.location import SourceLocation
from ttools.ir import Value
from ttools.ir.dataflow import reachable
from ttools.ir.dialects.traits import LOADS
from ttools.ir.nesting import definition_depth, loop_depth
from ttools.ir.parser import parse_module
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.report.changed_kernels import saved_share, with_changes

#: A load of a tile through pointers, possibly with a mask and with values for the disabled lanes.
_MASKED_LOAD = re.compile(r"(?P<load>\btt\.load %[\w#:]+)(?P<mask>, %[\w#:]+(?:, %[\w#:]+)?)?")


@lru_cache(maxsize=64)
def masked_loads_in_loops(ttir: str) -> dict[SourceLocation, tuple[int, ...]]:
    """Return the numbers of the loads in loops whose masks are computed there, by location.

    The loads of the text are numbered in order. Masks that depend on loaded tiles, such as `index
    >= 0`, are left out, because they are not determined by the sizes of a launch.
    """
    loads = [op for op in parse_module(ttir).walk() if op.has(LOADS) and op.name == "tt.load"]
    if len(loads) != len(_MASKED_LOAD.findall(ttir)):
        return {}
    numbers: dict[SourceLocation, tuple[int, ...]] = {}
    for number, op in enumerate(loads):
        if op.mask is None or op.location is None or not loop_depth(op.parent):
            continue
        if definition_depth(op.mask) == loop_depth(op.parent) and not _depends_on_tile(op.mask):
            numbers[op.location] = (*numbers.get(op.location, ()), number)
    return numbers


def _depends_on_tile(mask: Value) -> bool:
    """Return whether a mask depends on loaded tiles; loaded scalars count as lengths of loops."""

    def operands(value: Value) -> list[Value]:
        return [] if value.defining_op is None else list(value.defining_op.operands)

    return any(
        value.is_tensor and value.defining_op is not None and value.defining_op.has(LOADS)
        for value in reachable([mask], operands)
    )


def without_masks(ttir: str, numbers: Collection[int]) -> str:
    """Return TTIR in which some loads have no mask.

    Args:
        ttir: Text of a kernel.
        numbers: Numbers of the loads, see `masked_loads_in_loops`.
    """
    return with_changes(ttir, _MASKED_LOAD, numbers, lambda _, match: match["load"])


def share_of_masks(
    inspection: Inspection, counts: WorkCounts, numbers: Collection[int]
) -> float | None:
    """Return the share of the executed instructions that masks of loads cost; None if unknown.

    Args:
        inspection: The kernel, compiled for an NVIDIA GPU.
        counts: Work of a launch in which these masks disable no lane.
        numbers: Numbers of the loads, see `masked_loads_in_loops`.
    """
    text = without_masks(inspection.compilation.texts["ttir"], numbers)
    return saved_share(inspection, counts, text)
