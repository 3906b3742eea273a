"""Extents and strides of views, as torch computes them, for symbolic sizes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from ttools.ir.expr import (
    as_expr,
)
from ttools.prove.host.symbolic_numbers import NotModelledError, expr_of


def contiguous_strides(shape: Sequence[Any]) -> list[Any]:
    """Return row-major strides."""
    strides: list[Any] = []
    step: Any = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        # torch counts the extent of an empty axis as 1 here. The difference does not matter,
        # because no element of an empty tensor is accessed.
        step = step * extent
    return strides


def like_strides(shape: Sequence[Any], strides: Sequence[Any]) -> list[Any]:
    """Return the strides that `torch.empty_like` gives to a new tensor.

    torch keeps the order of the axes of the old tensor.

    Raises:
        NotModelledError: The tensor has gaps, and the order of its axes is not row-major.
    """
    left = [n for n, extent in enumerate(shape) if expr_of(extent) != as_expr(1)]
    apart = [strides[n] for n in left if expr_of(strides[n]) != as_expr(0)]
    step: Any = 1
    while left:
        inner = [n for n in left if expr_of(strides[n]) == expr_of(step)]
        if not inner:
            break
        step = step * shape[inner[-1]]
        left.remove(inner[-1])
    if not left:
        return list(strides)
    if not all(a >= b for a, b in itertools.pairwise(apart)):
        raise NotModelledError("a new tensor like one that has gaps and permuted axes")
    return contiguous_strides(shape)


def keeps_order(memory_format: Any) -> bool:
    """Return whether a memory format keeps the order of axes of the old tensor.

    Raises:
        NotModelledError: The format prescribes another order, such as channels last.
    """
    if memory_format in (None, torch.preserve_format):
        return True
    if memory_format is not torch.contiguous_format:
        raise NotModelledError(f"the memory format {memory_format}")
    return False


def product(extents: Sequence[Any]) -> Any:
    """Return the number of elements of a tensor with these extents."""
    total: Any = 1
    for extent in extents:
        total = total * extent
    return total


def flat(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return extents that are passed as separate arguments or as one tuple or list."""
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        return tuple(values[0])
    return tuple(values)


def slice_ends(item: slice, extent: Any) -> tuple[Any, Any, Any]:
    """Return the start, end and step of a slice of an axis, clamped to its extent."""
    step = 1 if item.step is None else item.step
    if step < 1:
        raise ValueError("step must be greater than zero")

    def clamped(end: Any, otherwise: Any) -> Any:
        if end is None:
            return otherwise
        end = end + extent if end < 0 else end
        if end < 0:
            return 0
        return extent if end > extent else end

    start, stop = clamped(item.start, 0), clamped(item.stop, extent)
    return start, stop if stop >= start else start, step


def view_strides(
    shape: Sequence[Any], strides: Sequence[Any], wanted: Sequence[Any]
) -> list[Any] | None:
    """Return the strides of a view with the shape `wanted`; None unless it only splits axes."""
    result: list[Any] = []
    at = 0
    for extent, stride in zip(shape, strides, strict=True):
        inner: list[Any] = []
        total: Any = 1
        while expr_of(total) != expr_of(extent):
            if at >= len(wanted):
                return None
            inner.append(wanted[at])
            total = total * wanted[at]
            at += 1
            if len(inner) > len(wanted):
                return None
        steps: list[Any] = []
        step = stride
        for extent_inside in reversed(inner):
            steps.insert(0, step)
            step = step * extent_inside
        result += steps
    while at < len(wanted):
        if expr_of(wanted[at]) != as_expr(1):
            return None
        result.append(1)
        at += 1
    return result


def strides_as_torch(
    shape: Sequence[Any], strides: Sequence[Any], wanted: Sequence[Any]
) -> list[Any] | None:
    """Return the strides of a view with the shape `wanted`; None if torch would have to copy.

    Adjacent axes without gaps between them form one contiguous run of elements. The length of a run
    must be the product of some of the extents in `wanted` (see ATen's `computeStride`).
    """
    if not shape:
        return [1] * len(wanted)
    result: list[Any] = [1] * len(wanted)
    left, step = len(wanted) - 1, strides[-1]
    run: Any = 1
    covered: Any = 1
    for axis in range(len(shape) - 1, -1, -1):
        run = run * shape[axis]
        if axis and (strides[axis - 1] == run * step or shape[axis - 1] == 1):
            continue
        while left >= 0 and (covered < run or wanted[left] == 1):
            result[left] = covered * step
            covered = covered * wanted[left]
            left -= 1
        if covered != run:
            return None
        if axis:
            step, run, covered = strides[axis - 1], 1, 1
    return result if left < 0 else None
