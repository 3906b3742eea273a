"""Masks that compare the index along one axis of a tensor with the extent of another axis.

For example, the limits of the two axes are swapped in the following mask of a tensor with `M` rows
and `N` columns:

    tl.store(y_ptr + rows[:, None] * N + columns, y, mask=(rows[:, None] < N) & (columns < M))
"""

from __future__ import annotations

from dataclasses import dataclass

from ttools.core.spec import ArgumentSpec, TensorSpec
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.analysis.launch_values import KernelValues, Pointer
from ttools.ir import Operation
from ttools.ir.semantics import comparison
from ttools.sanitizer.causes.failed_access import accesses_at, scalars_of
from ttools.sanitizer.causes.index_parts import parts_of
from ttools.sanitizer.causes.local_masks import difference_of, sides_of, unit_of
from ttools.sanitizer.causes.masks import Conjunct, conjuncts
from ttools.sanitizer.launch.checked import CheckedLaunch


@dataclass(frozen=True)
class _Limit:
    """The number with which a mask compares the index along one axis.

    Attributes:
        number: The smallest index that the mask rejects.
        name: Name of the variable that holds the number; empty if there is none.
    """

    number: int
    name: str

    @property
    def text(self) -> str:
        return f"`{self.name}` = {self.number:,}" if self.name else f"{self.number:,}"


def swapped_limits(checked: CheckedLaunch, site: ProbeSite) -> str:
    """Return a sentence on an axis that is compared with the extent of another; empty if none is.

    Args:
        checked: The launch in which the access fails.
        site: The access that leaves the tensor in spite of its mask.
    """
    argument = checked.spec.argument(site.parameter)
    operations = accesses_at(checked, site.location)
    if argument is None or argument.tensor is None or len(operations) != 1:
        return ""
    limits = _limits(checked, operations[0], site.parameter, argument.tensor)
    shape = argument.tensor.shape
    for axis, limit in limits.items():
        other = next(
            (n for n, extent in enumerate(shape) if n != axis and extent == limit.number), -1
        )
        if other >= 0 and limit.number > shape[axis]:
            return _text(argument, axis, limit, other, limits.get(other))
    return ""


def _text(argument: ArgumentSpec, axis: int, limit: _Limit, other: int, its: _Limit | None) -> str:
    assert argument.tensor is not None
    extent = argument.tensor.shape[axis]
    text = (
        f"the mask compares the index along axis {axis} of `{argument.name}` with {limit.text}, "
        f"the extent of axis {other}"
    )
    if its is None or its.number != extent:
        return f"{text}: compare it with the extent of axis {axis}, which is {extent:,}"
    swapped = f"`{limit.name}` and `{its.name}`" if limit.name and its.name else "the limits"
    return f"{text}, and the index along axis {other} with {its.text}: did you swap {swapped}?"


def _limits(
    checked: CheckedLaunch, access: Operation, parameter: int, tensor: TensorSpec
) -> dict[int, _Limit]:
    """Return the limits in the mask of an access, by axis of the tensor."""
    values = KernelValues(checked.kernel.module.kernel, checked.spec.grid, scalars_of(checked))
    pointer = values.of(access.address)
    if not isinstance(pointer, Pointer) or pointer.parameter != parameter:
        return {}
    limits: dict[int, _Limit] = {}
    for part in conjuncts(access.mask):
        difference = difference_of(part, values)
        if difference is None or not difference.terms:
            continue
        unit = unit_of(difference, pointer.distance)
        axes = [
            axis
            for axis, (stride, extent) in enumerate(zip(tensor.strides, tensor.shape, strict=True))
            if extent > 1 and unit == stride * tensor.itemsize
        ]
        if len(axes) == 1:
            limits[axes[0]] = _Limit(-difference.constant, _name(checked, part))
    return limits


def _name(checked: CheckedLaunch, part: Conjunct) -> str:
    """Return the variable with which a condition compares an index; empty if there is none."""
    op, sides = part.condition.defining_op, sides_of(part)
    compared = comparison(op) if op is not None else None
    if sides is None or compared is None:
        return ""
    arguments = checked.kernel.module.kernel.regions[0].entry.arguments
    names = dict(zip(arguments, checked.spec.names, strict=False))
    limit = (compared.left, compared.right)[sides[1]]
    return next(filter(None, (p.name or names.get(p.value) for p in parts_of(limit))), "")
