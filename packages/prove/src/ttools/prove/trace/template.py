"""Templates of a script's launches, in which numbers are expressions over sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ttools.core.gpus.memory import memory_text
from ttools.core.reports.sizes import SizeRelation, ranges_text
from ttools.ir.expr import SIZE, Expr, Symbol, as_expr, product, with_symbols
from ttools.prove.grids import grid_limits
from ttools.prove.host.regions import Box, region
from ttools.prove.host.symbolic_numbers import Condition, expr_of
from ttools.prove.host.tensors import FakeTensor, Storage
from ttools.prove.trace.launches import TracedCall, TracedTensor
from ttools.prove.trace.traced import extents_of, may_be_negative, with_extents

#: Larger sizes are skipped if the grid exceeds a GPU's limit, because such a finding would not be
#: useful: for example, a matrix product with tiles of 64 cannot be launched with 4,194,241 columns.
LARGE_SIZE = 1 << 20
#: Last value of a size that hardly affects the memory that is needed, such as an extent with stride
#: 0.
MOST_WITHOUT_MEMORY = 1 << 33
#: Larger than every size for which the tensors fit in memory.
_UNLIMITED = 1 << 62
#: Called with a recorded tensor and with three properties of the tensor to return: the number of
#: elements of its storage, its shape and its strides.
MakeTensor = Callable[[TracedTensor, Any, list[Any], list[Any]], Any]


@dataclass(frozen=True)
class Layout:
    """A tensor whose extents, strides and numbers of elements are expressions.

    Attributes:
        strides: Strides of the tensor in elements.
        elements: Number of elements of its storage.
    """

    tensor: TracedTensor
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    elements: Expr


@dataclass(frozen=True)
class Relation:
    """An assumed relation between sizes of a launch, such as `offsets_ptr.shape[0] = n + 1`.

    Attributes:
        places: The names, as in reports, of the numbers of the launch that the relation determines.
        number: Value of these numbers in the recorded launch.
        formula: The expression over sizes that these numbers are assumed to equal.
        launches: Number of recorded launches with different sizes for which the relation holds.
    """

    places: tuple[str, ...]
    number: int
    formula: Expr
    launches: int

    @property
    def stated(self) -> SizeRelation:
        """The relation in words, for the report."""
        return SizeRelation(" = ".join((*self.places, str(self.formula))), self.launches)


@dataclass
class Template:
    """A launch whose numbers are expressions over sizes.

    Attributes:
        sizes: Values of the sizes in the recorded launch, by name.
        layouts: Layouts of the tensors, by parameter.
        scalars: Expressions of the numbers passed, by parameter.
        grid: Expressions of the extents of the grid.
        memory: Bytes that the tensors of the launch may take; sizes at which they take more are not
            considered. None for no limit.
        assumptions: Guesses about the launch, as sentences.
        computed: Constants of the kernel that the script computes from sizes.
        computes: If True, the constants in `computed` are computed for each size; otherwise they
            keep their recorded values.
        by_axis: What an extent of the grid is assumed to be, see `infer_template`.
        relations: Relations between sizes that are assumed in addition to equal values.
        kept: Integers passed, by parameter, that keep their recorded values although they equal no
            stride; no size explains them.
    """

    launch: TracedCall
    sizes: dict[str, int]
    layouts: Mapping[str, Layout]
    scalars: Mapping[str, Expr]
    grid: Sequence[Expr]
    memory: int | None = None
    assumptions: list[str] = field(default_factory=list)
    computed: Mapping[str, Expr] = field(default_factory=dict)
    computes: bool = False
    by_axis: bool = False
    relations: Sequence[Relation] = ()
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for launches with the same template."""
        dtypes = tuple(str(t.dtype) for t in self.launch.tensors.values())
        return (id(self.launch.function), dtypes, tuple(self.assumptions))

    @property
    def within(self) -> list[Expr]:
        """Expressions over sizes that are at least 0 if the tensors fit in memory.

        The last expression is the condition for all storages together. The conditions for single
        storages follow from it, but make proofs easier.
        """
        if self.memory is None:
            return []
        storages = {
            layout.tensor.storage: layout.elements * layout.tensor.dtype.itemsize
            for layout in self.layouts.values()
        }
        total = as_expr(0)
        for storage in storages.values():
            total = total + storage
        return list(dict.fromkeys(self.memory - e for e in (*storages.values(), total)))

    def ends(self, ranges: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        """Return the first and the last value of each size.

        The last value of a size without a range is the largest value at which the tensors fit in
        memory if all other sizes have their first values.

        Args:
            ranges: Ranges that the user gives, by name.
        """
        symbols = {name: Symbol(name, "size", SIZE) for name in self.sizes}
        box: Box = {s: ranges.get(name, (1, _UNLIMITED)) for name, s in symbols.items()}
        fits = [Condition(with_symbols(e, symbols), "ge", True) for e in self.within]
        highs = {s: high for s, (_, high) in region(box, fits).box.items()}
        return {
            name: ranges.get(
                name, (1, MOST_WITHOUT_MEMORY if highs[s] >= _UNLIMITED else max(1, highs[s]))
            )
            for name, s in symbols.items()
        }

    def scope(self, ranges: Mapping[str, tuple[int, int]]) -> str:
        """Return the checked sizes in words, such as `all sizes whose tensors fit in 80 GB`."""
        ends = self.ends(ranges)
        if self.memory is None:
            return ranges_text(ends)
        stated = {
            name: (low, high)
            for name, (low, high) in ends.items()
            if name in ranges or high == MOST_WITHOUT_MEMORY
        }
        text = f"all sizes whose tensors fit in {memory_text(self.memory)}"
        return f"{text} ({ranges_text(stated)})" if stated else text

    def has_constants_at(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the script would also compute the recorded constants at these sizes."""
        arguments = self.launch.arguments
        return self.computes or all(
            formula.at(sizes) == arguments[name] for name, formula in self.computed.items()
        )

    def with_computed(self) -> Template:
        """Return the template with constants computed for each size, as the script does it."""
        texts = [f"{name} = {formula}" for name, formula in self.computed.items()]
        stated = f"for `{self.launch.kernel}`, as computed by the script: {', '.join(texts)}"
        return replace(self, computes=True, assumptions=[*self.assumptions, stated])

    def run(self, **sizes: Any) -> None:
        """Launch at the given sizes with fake tensors."""
        storages: dict[int, Storage] = {}

        def fake(
            recorded: TracedTensor, elements: Any, shape: list[Any], strides: list[Any]
        ) -> Any:
            if recorded.storage not in storages:
                storages[recorded.storage] = Storage(expr_of(elements), recorded.dtype)
            return FakeTensor(storages[recorded.storage], shape, strides, recorded.offset)

        self.make(fake, sizes)

    def make(self, tensor: MakeTensor, sizes: Mapping[str, Any]) -> bool:
        """Launch at given sizes; return False if the template has no launch at these sizes."""
        arguments = dict(self.launch.arguments)
        for name, layout in self.layouts.items():
            shape = [e.at(sizes) for e in layout.shape]
            for extent, formula in zip(shape, layout.shape, strict=True):
                if may_be_negative(formula) and extent < 0:
                    return False  # torch refuses a negative extent, too
            elements = layout.elements.at(sizes)
            strides = [s.at(sizes) for s in layout.strides]
            arguments[name] = tensor(layout.tensor, elements, shape, strides)
        for name, formula in self.scalars.items():
            arguments[name] = formula.at(sizes)
        if self.computes:
            arguments |= {name: formula.at(sizes) for name, formula in self.computed.items()}
        for name in self.launch.decided:
            del arguments[name]
        extents = tuple(extent.at(sizes) for extent in self.grid)
        if self.relations and any(map(may_be_negative, self.grid)) and min(extents) < 0:
            return False
        is_long = any(e > most for e, most in zip(extents, grid_limits(), strict=True))
        if is_long and any(sizes[name] > LARGE_SIZE for name in self.sizes):
            return False
        called = self.launch.heuristics or self.launch.function
        called[extents](**arguments)
        return True


def shape_of(tensor: TracedTensor, named: Mapping[int, Expr]) -> tuple[Expr, ...]:
    """Return expressions for a tensor's extents, from their provenance or else an equal size."""
    return tuple(
        named.get(extent, as_expr(extent)) if source is None else with_extents(source, named)
        for extent, source in zip(tensor.shape, map(tensor.provenance, _axes(tensor)), strict=True)
    )


def _axes(tensor: TracedTensor) -> range:
    return range(len(tensor.shape))


def kept_extents(launch: TracedCall) -> set[int]:
    """Return the extents that stay constant.

    These are the extents of the axes inside the gaps of a view, and the extents of different views
    of one storage.
    """
    tensors = launch.tensors.values()
    kept: set[int] = set()
    for tensor in tensors:
        shared = any(t.storage == tensor.storage and t != tensor for t in tensors)
        axes = [n for n in _order(tensor) if tensor.strides[n]]
        within = axes if shared else axes[: _last_gap(tensor, axes)]
        for axis in within:
            source = tensor.provenance(axis)
            kept |= {tensor.shape[axis]} if source is None else extents_of(source)
    return kept


def _last_gap(tensor: TracedTensor, axes: Sequence[int]) -> int:
    """Return the number of axes that are inside the outermost gap.

    Args:
        axes: Axes of the tensor, the innermost one first.
    """
    step, inside = 1, 0
    for place, axis in enumerate(axes):
        if tensor.strides[axis] != step:
            inside, step = place, tensor.strides[axis]
        step *= tensor.shape[axis]
    return inside


def _order(tensor: TracedTensor) -> list[int]:
    """Return a tensor's axes, the innermost first, without those that always have extent 1."""
    sources = map(tensor.provenance, _axes(tensor))
    axes = [
        n
        for n, (extent, source) in enumerate(zip(tensor.shape, sources, strict=True))
        if extent != 1 or (source is not None and source.constant is None)
    ]
    return sorted(axes, key=lambda n: (tensor.strides[n], tensor.shape[n] != 1, -n))


def is_dense(tensor: TracedTensor) -> bool:
    """Return whether the elements of a tensor fill its storage."""
    last = sum((e - 1) * s for e, s in zip(tensor.shape, tensor.strides, strict=True))
    whole = tensor.elements == (last + 1 if math.prod(tensor.shape) else 0)
    return _is_packed(tensor) and tensor.offset == 0 and whole


def _is_packed(tensor: TracedTensor) -> bool:
    """Return whether there are no gaps between the elements of a tensor."""
    step = 1
    for axis in _order(tensor):
        if tensor.strides[axis] != step:
            return False
        step *= tensor.shape[axis]
    return True


def layout_of(tensor: TracedTensor, shape: Sequence[Expr]) -> Layout:
    """Return the layout of a tensor with a given shape.

    Strides are products of extents; a stride that leaves a gap keeps its recorded value.
    """
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
        return Layout(tensor, tuple(shape), tuple(strides), product(shape))
    last = sum((e - 1) * s for e, s in zip(tensor.shape, tensor.strides, strict=True))
    whole = as_expr(tensor.elements - last)
    for extent, stride in zip(shape, strides, strict=True):
        whole = whole + (extent - 1) * stride
    return Layout(tensor, tuple(shape), tuple(strides), whole)


def of_shared_storages(layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    """Return layouts in which different tensors that share a storage keep their recorded sizes."""
    by_storage: dict[int, set[TracedTensor]] = {}
    for layout in layouts.values():
        by_storage.setdefault(layout.tensor.storage, set()).add(layout.tensor)
    return {
        name: layout if len(by_storage[layout.tensor.storage]) == 1 else _fixed(layout.tensor)
        for name, layout in layouts.items()
    }


def _fixed(tensor: TracedTensor) -> Layout:
    shape, strides = map(as_expr, tensor.shape), map(as_expr, tensor.strides)
    return Layout(tensor, tuple(shape), tuple(strides), as_expr(tensor.elements))
