"""Tensors of a launch with formulas for their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttools.ir.expr import Expr, as_expr, product
from ttools.prove.trace.seen import SeenLaunch, SeenTensor
from ttools.prove.trace.traced import extents_of, with_extents


@dataclass(frozen=True)
class Layout:
    """A tensor with formulas for numbers.

    Attributes:
        elements: of its storage.
        counted: its own; those of its storage if there are gaps between them.
    """

    seen: SeenTensor
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    elements: Expr
    counted: Expr


def shape_of(tensor: SeenTensor, named: Mapping[int, Expr]) -> tuple[Expr, ...]:
    """Exprs of its extents: of what they come from, or of what is as large."""
    return tuple(
        named.get(extent, as_expr(extent)) if note is None else with_extents(note, named)
        for extent, note in zip(tensor.shape, map(tensor.note, _axes(tensor)), strict=True)
    )


def _axes(tensor: SeenTensor) -> range:
    return range(len(tensor.shape))


def kept_extents(launch: SeenLaunch) -> set[int]:
    """Extents that stay: within gaps of a view, and of views that share a storage."""
    tensors = launch.tensors.values()
    found: set[int] = set()
    for tensor in tensors:
        shared = any(t.storage == tensor.storage and t != tensor for t in tensors)
        axes = [n for n in _order(tensor) if tensor.strides[n]]
        within = axes if shared else axes[: _last_gap(tensor, axes)]
        for axis in within:
            note = tensor.note(axis)
            found |= {tensor.shape[axis]} if note is None else extents_of(note)
    return found


def _last_gap(tensor: SeenTensor, axes: Sequence[int]) -> int:
    """How many of its axes, from the innermost on, lie within gaps of its elements."""
    step, found = 1, 0
    for place, axis in enumerate(axes):
        if tensor.strides[axis] != step:
            found, step = place, tensor.strides[axis]
        step *= tensor.shape[axis]
    return found


def _order(tensor: SeenTensor) -> list[int]:
    """Its axes from the innermost on, without those that are always of one element."""
    notes = map(tensor.note, _axes(tensor))
    axes = [
        n
        for n, (extent, note) in enumerate(zip(tensor.shape, notes, strict=True))
        if extent != 1 or (note is not None and note.constant is None)
    ]
    return sorted(axes, key=lambda n: (tensor.strides[n], tensor.shape[n] != 1, -n))


def is_dense(tensor: SeenTensor) -> bool:
    """Whether its elements are all of its storage."""
    last = sum((e - 1) * s for e, s in zip(tensor.shape, tensor.strides, strict=True))
    whole = tensor.elements == (last + 1 if math.prod(tensor.shape) else 0)
    return _is_packed(tensor) and tensor.offset == 0 and whole


def _is_packed(tensor: SeenTensor) -> bool:
    """Whether there is no gap between its elements."""
    step = 1
    for axis in _order(tensor):
        if tensor.strides[axis] != step:
            return False
        step *= tensor.shape[axis]
    return True


def layout_of(tensor: SeenTensor, shape: Sequence[Expr]) -> Layout:
    """The tensor with that shape; strides follow as far in as there is no gap."""
    strides = [as_expr(s) for s in tensor.strides]
    step, inner = 1, [as_expr(1)]
    for axis in _order(tensor):
        if tensor.strides[axis] == 0:
            continue
        if tensor.strides[axis] != step:
            step, inner = tensor.strides[axis], [as_expr(tensor.strides[axis])]
        strides[axis] = product(reversed(inner))
        inner.append(shape[axis])
        step *= tensor.shape[axis]
    if is_dense(tensor):
        whole = product(shape)
        return Layout(tensor, tuple(shape), tuple(strides), whole, whole)
    last = sum((e - 1) * s for e, s in zip(tensor.shape, tensor.strides, strict=True))
    whole = as_expr(tensor.elements - last)
    for extent, stride in zip(shape, strides, strict=True):
        whole = whole + (extent - 1) * stride
    counted = product(shape) if _is_packed(tensor) else whole
    return Layout(tensor, tuple(shape), tuple(strides), whole, counted)


def of_shared_storages(layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    """Tensors that share a storage keep their sizes unless they are the same tensor."""
    by_storage: dict[int, set[SeenTensor]] = {}
    for each in layouts.values():
        by_storage.setdefault(each.seen.storage, set()).add(each.seen)
    return {
        name: each if len(by_storage[each.seen.storage]) == 1 else _fixed(each.seen)
        for name, each in layouts.items()
    }


def _fixed(tensor: SeenTensor) -> Layout:
    shape, strides = map(as_expr, tensor.shape), map(as_expr, tensor.strides)
    whole = as_expr(tensor.elements)
    return Layout(tensor, tuple(shape), tuple(strides), whole, whole)
