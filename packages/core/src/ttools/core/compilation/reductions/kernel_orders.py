"""The orders in which a compiled kernel evaluates its sums and matrix products, by source line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ttools.core.compilation.annotation import annotate, call_chains
from ttools.core.compilation.layouts.terms import Layout
from ttools.core.compilation.layouts.ttgir import layouts_of
from ttools.core.compilation.reductions.order import (
    Reduction,
    ReductionOrder,
    UnknownOrderError,
    order_of,
    reductions_of,
)
from ttools.core.compilation.stages import Compilation
from ttools.core.location import SourceLocation

#: Number of bits of each operand's row that one tensor core instruction multiplies.
_STEP_BITS = 256
_BITS = {"f16": 16, "bf16": 16, "f32": 32}
_DOT = re.compile(
    r"^\s*(?P<result>%[\w#]+) = (?:tt\.dot|ttng\.warp_group_dot) (?P<a>%[\w#]+), (?P<b>%[\w#]+), "
    r"(?P<c>%[\w#]+)(?P<use>, %[\w#]+)?[ ,]"
)
_TYPES = re.compile(
    r" : (?:tensor|!ttg\.memdesc)<(?P<a>[^ ]*).* \* (?:tensor|!ttg\.memdesc)<(?P<b>[^ ]*).*"
    r" -> tensor<(?P<result>(?:\d+x)+)(?P<element>\w+), (?P<layout>#.*)>$"
)
_ZERO = re.compile(r"^\s*(%[\w#]+) = arith\.constant dense<0\.0+e\+00>")
_ADDITION = re.compile(r"= arith\.(?:addf|subf) .* : tensor<((?:\d+x)+)")
_WIDTH = re.compile(r"kWidth = (\d+)")


@dataclass(frozen=True)
class ProductOrder:
    """The order in which the target adds the terms of a matrix product, along the K axis.

    Attributes:
        unit: `mma`, `wgmma` or `fma`: the kind of instruction.
        step: Number of terms that one instruction adds to the accumulator.
        from_zero: True if the accumulator of the compiled product is the constant zero.
        skips_zero: True if the compiled product may ignore an accumulator that is zero.
    """

    unit: str
    step: int
    from_zero: bool
    skips_zero: bool

    def __str__(self) -> str:
        """Describe the order, for example `tensor cores, 16 terms at a time`."""
        unit = self.unit if self.unit == "fma" else "tensor cores"
        return f"{unit}, {self.step} term{'s' if self.step > 1 else ''} at a time"


@dataclass(frozen=True, kw_only=True)
class Product:
    """A matrix product in TTGIR.

    Attributes:
        places: Source lines of the product: its own, then those of the calls that led to it,
            innermost first.
        shape: Extents of the result.
        element: MLIR type of the operands.
        order: The order of its terms, or the reason why it is unknown.
        continues: True if its accumulator is the result of another product of the kernel.
    """

    places: tuple[SourceLocation, ...]
    shape: tuple[int, ...]
    element: str
    order: ProductOrder | str
    continues: bool


class KernelOrders:
    """The orders in which a compiled kernel adds the terms of sums and matrix products.

    Args:
        compilation: The kernel, compiled for the target.
    """

    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation

    @cached_property
    def _reductions(self) -> list[Reduction]:
        return reductions_of(self.compilation)

    @cached_property
    def _products(self) -> list[Product]:
        return list(_products(self.compilation.texts["ttgir"]))

    def reduction(
        self, place: SourceLocation | None, shape: tuple[int, ...], axis: int
    ) -> ReductionOrder | str:
        """Return the order of a sum, or the reason why it is unknown.

        Args:
            place: Line of the sum in the user's program.
            shape: Extents of the tile.
            axis: The axis along which the elements are added.
        """
        here = [reduction for reduction in self._reductions if _is_at(reduction.places, place)]
        same = [
            reduction for reduction in here if (reduction.shape, reduction.axis) == (shape, axis)
        ]
        if not same or any(reduction.combines != ("arith.addf",) for reduction in same):
            return "the compiler has replaced the sum by other operations"
        orders = set()
        for reduction in dict.fromkeys(same):
            try:
                orders.add(order_of(reduction, self.compilation))
            except UnknownOrderError as error:
                return str(error)
        if len(orders) > 1:
            return "the line has several sums of this shape, in different orders"
        return orders.pop()

    def has_addition(self, place: SourceLocation | None, shape: tuple[int, ...]) -> bool:
        """Return whether the compiled kernel adds floats in tiles of a shape at a line."""
        return any(extents == shape and _is_at(at, place) for at, extents in self._additions)

    @cached_property
    def _additions(self) -> list[tuple[tuple[SourceLocation, ...], tuple[int, ...]]]:
        ttgir = self.compilation.texts["ttgir"]
        chains = call_chains(ttgir)
        return [
            (tuple(chains.get(line.number, ())), tuple(int(n) for n in match[1].split("x") if n))
            for line in annotate("ttgir", ttgir)
            if (match := _ADDITION.search(line.text))
        ]

    def product(self, place: SourceLocation | None, shape: tuple[int, ...]) -> ProductOrder | str:
        """Return the order of a matrix product, or the reason why it is unknown.

        Args:
            place: Line of the product in the user's program.
            shape: Extents of the result.
        """
        here = [product for product in self._products if _is_at(product.places, place)]
        if not here or any(product.shape != shape for product in here):
            return "the compiler has replaced the product by other operations"
        # A product may be divided along the K axis; each part after the first one continues the
        # accumulation.
        first = [product for product in here if not product.continues]
        orders = {product.order for product in first}
        if len(orders) != 1:
            return "the line has several products, with different instructions"
        order = orders.pop()
        if isinstance(order, str):
            return order
        for product in here:
            other = product.order
            if isinstance(other, str) or (other.unit, other.step) != (order.unit, order.step):
                return "the line has several products, with different instructions"
        return order


def _is_at(places: tuple[SourceLocation, ...], place: SourceLocation | None) -> bool:
    return place is not None and any(
        (one.file, one.line) == (place.file, place.line) for one in places
    )


def _products(ttgir: str) -> Iterator[Product]:
    layouts = {layout.name: layout for layout in layouts_of(ttgir)}
    chains, zeros, results = call_chains(ttgir), set(), set()
    for line in annotate("ttgir", ttgir):
        if zero := _ZERO.match(line.text):
            zeros.add(zero[1])
        dot = _DOT.match(line.text)
        types = _TYPES.search(line.text) if dot else None
        if dot is None or types is None:
            continue
        extents = tuple(int(n) for n in types["result"].split("x") if n)
        element = types["a"].rstrip(",").rpartition("x")[2]
        other = types["b"].rstrip(",").rpartition("x")[2]
        order: ProductOrder | str
        if element != other:
            order = f"the operands have different types ({element} and {other})"
        else:
            order = _order(line.text, layouts.get(types["layout"]), element, types["element"])
        if isinstance(order, ProductOrder):
            order = ProductOrder(order.unit, order.step, dot["c"] in zeros, bool(dot["use"]))
        yield Product(
            places=tuple(chains.get(line.number, ())),
            shape=extents,
            element=element,
            order=order,
            continues=dot["c"] in results,
        )
        results.add(dot["result"])


def _order(text: str, layout: Layout | None, element: str, result: str) -> ProductOrder | str:
    if element not in _BITS or result not in _BITS:
        return f"orders of products are known for f16, bf16 and f32, not {element}"
    if layout is None:
        return "the layout of the product is unknown"
    if layout.kind == "blocked" and (element, result) != ("f32", "f32"):
        return f"orders of products without tensor cores are known for f32, not {element}"
    if layout.kind == "blocked":
        return ProductOrder("fma", 1, False, False)
    if layout.kind != "nvidia_mma" or layout.number("versionMinor", 1) != 0:
        return "orders of products are known for mma.sync of sm_80 and for wgmma"
    version = layout.number("versionMajor", 0)
    if version not in (2, 3):
        return "orders of products are known for mma.sync of sm_80 and for wgmma"
    # If the operands are wider, the columns that one instruction multiplies are not consecutive.
    widths = {int(width) for width in _WIDTH.findall(text)}
    if (version == 2 or widths) and widths != {32 // _BITS[element]}:
        return "the columns of the operands are permuted"
    return ProductOrder(
        "mma" if version == 2 else "wgmma", _STEP_BITS // _BITS[element], False, False
    )
