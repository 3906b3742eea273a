"""A launch for all sizes, which is the one that was seen at the sizes that it had."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ttools.ir.expr import Expr
from ttools.prove.grids import grid_limits
from ttools.prove.host.paths import expr_of
from ttools.prove.host.storage import Storage
from ttools.prove.host.tensors import FakeTensor
from ttools.prove.trace.layouts import Layout
from ttools.prove.trace.seen import SeenLaunch, SeenTensor
from ttools.prove.trace.traced import may_be_negative

#: Sizes beyond this one are not looked at where the grid is too long for a GPU: that a product of
#: matrices with tiles of 64 cannot be launched with 4,194,241 columns is no news to anybody.
LARGE_SIZE = 1 << 20
#: Elements of a tensor, beyond which sizes are not looked at.
MOST_ELEMENTS = 1 << 33
#: Makes a tensor: the one seen, how many elements its storage has, its shape and strides.
MakeTensor = Callable[[SeenTensor, Any, list[Any], list[Any]], Any]


@dataclass
class General:
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

    launch: SeenLaunch
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

    def with_computed(self) -> General:
        """The launch with constants as the script would compute them."""
        texts = [f"{name} = {formula}" for name, formula in self.computed.items()]
        stated = f"of `{self.launch.kernel}`, as the script computes: {', '.join(texts)}"
        return replace(self, computes=True, assumptions=[*self.assumptions, stated])

    def run(self, **sizes: Any) -> None:
        """Makes the launch, given sizes by name, with tensors that have no memory."""
        storages: dict[int, Storage] = {}

        def fake(seen: SeenTensor, elements: Any, shape: list[Any], strides: list[Any]) -> Any:
            if seen.storage not in storages:
                storages[seen.storage] = Storage(expr_of(elements), seen.dtype)
            return FakeTensor(storages[seen.storage], shape, strides, seen.offset)

        self.make(fake, sizes)

    def make(self, tensor: MakeTensor, sizes: Mapping[str, Any]) -> bool:
        """Makes the launch with such tensors; whether it can be made."""
        arguments = dict(self.launch.arguments)
        for name, layout in self.layouts.items():
            shape = [e.at(sizes) for e in layout.shape]
            for extent, note in zip(shape, layout.seen.notes, strict=False):
                if note is not None and may_be_negative(note) and extent < 0:
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
