"""Decomposes the mask of a tile into conditions on single axes, so that lanes need not be counted.

If the conditions vary along different axes, as in `(rows[:, None] < M) & (columns[None, :] < N)`,
the number of enabled lanes is the number of true rows times the number of true columns.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod

from ttools.ir import Value, shape_of
from ttools.ir.rewriting import Builder
from ttools.ir.semantics import axes_through, conjunction


@dataclass(frozen=True)
class _Factor:
    """A condition, and the axis of the mask that corresponds to each axis of the condition."""

    value: Value
    axes: tuple[int, ...]

    @property
    def varies_along(self) -> tuple[int, ...]:
        extents = shape_of(self.value.type)
        return tuple(axis for axis, extent in zip(self.axes, extents, strict=True) if extent > 1)


def mask_factors(b: Builder, mask: Value) -> tuple[list[Value], int]:
    """Return conditions and a factor that determine the number of true lanes of a mask.

    This number is the product of the numbers of true lanes of all conditions, times the factor.

    Args:
        b: Builder that creates conjunctions of conditions that vary along the same axis.
        mask: A scalar or tensor of type i1.
    """
    shape = shape_of(mask.type)
    groups: defaultdict[tuple[int, ...], list[_Factor]] = defaultdict(list)
    for factor in _factors(mask, tuple(range(len(shape)))):
        groups[factor.varies_along].append(factor)
    used = [axis for along in groups for axis in along]
    alike = all(len({f.value.type for f in own}) == 1 for own in groups.values())
    if len(used) != len(set(used)) or not alike:
        return [mask], 1
    conditions = []
    for own in groups.values():
        first, *rest = dict.fromkeys(factor.value for factor in own)
        for value in rest:
            first = b.binary("andi", first, value)
        conditions.append(first)
    return conditions, prod(extent for axis, extent in enumerate(shape) if axis not in used)


def _factors(value: Value, axes: tuple[int, ...]) -> list[_Factor]:
    """Return the conditions whose conjunction equals a value."""
    op = value.defining_op
    if op is None:
        return [_Factor(value, axes)]
    if conjuncts := conjunction(op):
        return [factor for operand in conjuncts for factor in _factors(operand, axes)]
    if (below := axes_through(value)) is not None:
        # A source axis of extent 1 that the view drops or repeats corresponds to no axis of the
        # mask.
        own = tuple(-1 if axis is None else axes[axis] for axis in below)
        return _factors(op.operands[0], own)
    return [] if op.constant_integers == [1] else [_Factor(value, axes)]
