"""A launch for all sizes, which is the one that was seen at the sizes that it had."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ttools.ir.expr import Expr, as_expr, product
from ttools.prove.grids import grid_limits
from ttools.prove.host.symbolic_numbers import expr_of
from ttools.prove.host.tensors import FakeTensor, Storage
from ttools.prove.trace.launches import TracedLaunch, TracedTensor
from ttools.prove.trace.traced import extents_of, may_be_negative, with_extents

#: Sizes beyond this one are not looked at where the grid is too long for a GPU: that a product of
#: matrices with tiles of 64 cannot be launched with 4,194,241 columns is no news to anybody.
LARGE_SIZE = 1 << 20
#: Elements of a tensor, beyond which sizes are not looked at.
MOST_ELEMENTS = 1 << 33
#: Makes a tensor: the one seen, how many elements its storage has, its shape and strides.
MakeTensor = Callable[[TracedTensor, Any, list[Any], list[Any]], Any]


@dataclass
class Template:
    """A launch for all sizes.

    Attributes:
        launch: the one that was seen.
        sizes: by name, as they were.
        named: their expressions, by the length that they had.
        layouts: of the tensors, by parameter.
        scalars: the numbers passed, by parameter.
        grid: its extents.
        most: elements of a tensor, beyond which nothing is launched.
        assumptions: what was taken for granted, in words.
        computed: constants of the kernel that the script computes from sizes; they stay as they
            were unless `computes`.
        computes: whether they are what the script would compute.
    """

    launch: TracedLaunch
    sizes: dict[str, int]
    named: Mapping[int, Expr]
    layouts: Mapping[str, Layout]
    scalars: Mapping[str, Expr]
    grid: Sequence[Expr]
    most: int = MOST_ELEMENTS
    assumptions: list[str] = field(default_factory=list)
    computed: Mapping[str, Expr] = field(default_factory=dict)
    computes: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two launches the same one for all sizes."""
        dtypes = tuple(str(t.dtype) for t in self.launch.tensors.values())
        return (id(self.launch.function), dtypes, tuple(self.assumptions))

    def has_constants_at(self, sizes: Mapping[str, int]) -> bool:
        """Whether the script would compute the constants that the launch has at these sizes."""
        arguments = self.launch.arguments
        return self.computes or all(
            formula.at(sizes) == arguments[name] for name, formula in self.computed.items()
        )

    def with_computed(self) -> Template:
        """The launch with constants as the script would compute them."""
        texts = [f"{name} = {formula}" for name, formula in self.computed.items()]
        stated = f"of `{self.launch.kernel}`, as the script computes: {', '.join(texts)}"
        return replace(self, computes=True, assumptions=[*self.assumptions, stated])

    def run(self, **sizes: Any) -> None:
        """Makes the launch, given sizes by name, with tensors that have no memory."""
        storages: dict[int, Storage] = {}

        def fake(seen: TracedTensor, elements: Any, shape: list[Any], strides: list[Any]) -> Any:
            if seen.storage not in storages:
                storages[seen.storage] = Storage(expr_of(elements), seen.dtype)
            return FakeTensor(storages[seen.storage], shape, strides, seen.offset)

        self.make(fake, sizes)

    def make(self, tensor: MakeTensor, sizes: Mapping[str, Any]) -> bool:
        """Makes the launch with such tensors; whether it can be made."""
        arguments = dict(self.launch.arguments)
        for name, layout in self.layouts.items():
            shape = [e.at(sizes) for e in layout.shape]
            for extent, source in zip(shape, layout.seen.provenances, strict=False):
                if source is not None and may_be_negative(source) and extent < 0:
                    return False  # nor would torch make it
            if layout.counted.at(sizes) > self.most:
                return False
            elements = layout.elements.at(sizes)
            strides = [s.at(sizes) for s in layout.strides]
            arguments[name] = tensor(layout.seen, elements, shape, strides)
        for name, formula in self.scalars.items():
            arguments[name] = formula.at(sizes)
        if self.computes:
            arguments |= {name: formula.at(sizes) for name, formula in self.computed.items()}
        for name in self.launch.decided:
            del arguments[name]
        extents = tuple(extent.at(sizes) for extent in self.grid)
        is_long = any(e > most for e, most in zip(extents, grid_limits(), strict=True))
        if is_long and any(sizes[name] > LARGE_SIZE for name in self.sizes):
            return False
        called = self.launch.heuristics or self.launch.function
        called[extents](**arguments)
        return True


@dataclass(frozen=True)
class Layout:
    """A tensor with formulas for numbers.

    Attributes:
        elements: of its storage.
        counted: its own; those of its storage if there are gaps between them.
    """

    seen: TracedTensor
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    elements: Expr
    counted: Expr


def shape_of(tensor: TracedTensor, named: Mapping[int, Expr]) -> tuple[Expr, ...]:
    """Exprs of its extents: of what they come from, or of what is as large."""
    return tuple(
        named.get(extent, as_expr(extent)) if source is None else with_extents(source, named)
        for extent, source in zip(tensor.shape, map(tensor.provenance, _axes(tensor)), strict=True)
    )


def _axes(tensor: TracedTensor) -> range:
    return range(len(tensor.shape))


def kept_extents(launch: TracedLaunch) -> set[int]:
    """Extents that stay: within gaps of a view, and of views that share a storage."""
    tensors = launch.tensors.values()
    found: set[int] = set()
    for tensor in tensors:
        shared = any(t.storage == tensor.storage and t != tensor for t in tensors)
        axes = [n for n in _order(tensor) if tensor.strides[n]]
        within = axes if shared else axes[: _last_gap(tensor, axes)]
        for axis in within:
            source = tensor.provenance(axis)
            found |= {tensor.shape[axis]} if source is None else extents_of(source)
    return found


def _last_gap(tensor: TracedTensor, axes: Sequence[int]) -> int:
    """How many of its axes, from the innermost on, lie within gaps of its elements."""
    step, found = 1, 0
    for place, axis in enumerate(axes):
        if tensor.strides[axis] != step:
            found, step = place, tensor.strides[axis]
        step *= tensor.shape[axis]
    return found


def _order(tensor: TracedTensor) -> list[int]:
    """Its axes from the innermost on, without those that are always of one element."""
    sources = map(tensor.provenance, _axes(tensor))
    axes = [
        n
        for n, (extent, source) in enumerate(zip(tensor.shape, sources, strict=True))
        if extent != 1 or (source is not None and source.constant is None)
    ]
    return sorted(axes, key=lambda n: (tensor.strides[n], tensor.shape[n] != 1, -n))


def is_dense(tensor: TracedTensor) -> bool:
    """Whether its elements are all of its storage."""
    last = sum((e - 1) * s for e, s in zip(tensor.shape, tensor.strides, strict=True))
    whole = tensor.elements == (last + 1 if math.prod(tensor.shape) else 0)
    return _is_packed(tensor) and tensor.offset == 0 and whole


def _is_packed(tensor: TracedTensor) -> bool:
    """Whether there is no gap between its elements."""
    step = 1
    for axis in _order(tensor):
        if tensor.strides[axis] != step:
            return False
        step *= tensor.shape[axis]
    return True


def layout_of(tensor: TracedTensor, shape: Sequence[Expr]) -> Layout:
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
    by_storage: dict[int, set[TracedTensor]] = {}
    for each in layouts.values():
        by_storage.setdefault(each.seen.storage, set()).add(each.seen)
    return {
        name: each if len(by_storage[each.seen.storage]) == 1 else _fixed(each.seen)
        for name, each in layouts.items()
    }


def _fixed(tensor: TracedTensor) -> Layout:
    shape, strides = map(as_expr, tensor.shape), map(as_expr, tensor.strides)
    whole = as_expr(tensor.elements)
    return Layout(tensor, tuple(shape), tuple(strides), whole, whole)
