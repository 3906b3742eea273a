"""Tests of the order of sums, compared with the elements that threads and warps hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import triton
import triton.language as tl
from tests.core.compilation.compiled_kernels import line_of

from ttools.core.compilation.kernel_source import source_of_signature
from ttools.core.compilation.layouts.ttgir import holder, layouts_of
from ttools.core.compilation.reductions.order import (
    Reduction,
    ReductionOrder,
    UnknownOrderError,
    order_of,
    reductions_of,
)
from ttools.core.compilation.stages import Compilation, compile_for
from ttools.core.gpus.targets import read_target


@triton.jit
def sum_rows(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr + tl.arange(0, M), tl.sum(x, 1))


@triton.jit
def sum_columns(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr + tl.arange(0, N), tl.sum(x, 0))


@triton.jit
def sum_vector(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.sum(x, 0))


@triton.jit
def sum_product(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    offs = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + offs)
    products = tl.dot(x, tl.trans(x))
    tl.store(out_ptr + tl.arange(0, M), tl.sum(products, 1))


KERNELS = {
    "rows": (sum_rows, "*fp32:16,*fp32:16,4,256"),
    "columns": (sum_columns, "*fp32:16,*fp32:16,64,32"),
    "vector": (sum_vector, "*fp32:16,*fp32:16,1024"),
    "short": (sum_vector, "*fp32:16,*fp32:16,16"),
    "product": (sum_product, "*fp16:16,*fp32:16,64,64"),
    "half": (sum_rows, "*fp16:16,*fp16:16,4,256"),
}


@cache
def reduction(name: str, warps: int, target: str = "sm_90") -> tuple[Reduction, Compilation]:
    function, signature = KERNELS[name]
    source = source_of_signature(function, signature, {"num_warps": warps})
    compilation = compile_for(source, read_target(target))
    (only,) = reductions_of(compilation)
    return only, compilation


def below(order: ReductionOrder, is_wanted: Callable[[int], bool]) -> list[frozenset[int]]:
    """Return the elements below the largest nodes whose number of elements is wanted."""
    sets = [frozenset([n]) for n in range(order.extent)]
    largest: dict[int, frozenset[int]] = dict(enumerate(sets))
    for number, (a, b) in enumerate(order.operands, order.extent):
        sets.append(sets[a] | sets[b])
        if is_wanted(len(sets[-1])):
            largest = {n: s for n, s in largest.items() if n not in (a, b)}
            largest[number] = sets[-1]
    return list(largest.values())


def elements(found: Reduction, compilation: Compilation, threads: Any) -> set[frozenset[int]]:
    """Return the positions along the axis that groups of threads hold in row 0."""
    named = {layout.name: layout for layout in layouts_of(compilation.texts["ttgir"])}
    tile = holder(named[found.layout], found.shape, 32)
    assert tile is not None
    groups: dict[int, set[int]] = {}
    for thread in range(tile.lanes * tile.warps):
        for element in tile.elements(thread):
            rest = (*element[: found.axis], *element[found.axis + 1 :])
            if not any(rest):
                groups.setdefault(threads(thread), set()).add(element[found.axis])
    return {frozenset(group) for group in groups.values()}


@pytest.mark.parametrize(
    ("name", "warps"),
    [("rows", 4), ("columns", 4), ("vector", 4), ("vector", 1), ("short", 4), ("product", 4)],
)
def test_threads_and_warps_first_add_what_they_hold(name: str, warps: int) -> None:
    found, compilation = reduction(name, warps)
    order = order_of(found, compilation)
    assert order.extent == found.shape[found.axis]
    assert len(order.operands) == order.extent - 1
    used = sorted(node for pair in order.operands for node in pair)
    assert used == list(range(2 * order.extent - 2))  # each node but the last is used once
    in_threads = set(below(order, lambda size: size <= order.per_thread))
    assert in_threads == elements(found, compilation, lambda thread: thread)
    in_warps = set(below(order, lambda size: size <= order.per_warp))
    assert in_warps == elements(found, compilation, lambda thread: thread // 32)


def test_location_and_combine_function() -> None:
    found, _ = reduction("rows", 4)
    assert found.combines == ("arith.addf",)
    lines = [place.line for place in found.places if place.file == __file__]
    assert lines == [line_of(sum_rows, "tl.sum")]


def test_configurations_have_different_orders() -> None:
    orders = {order_of(*reduction("vector", warps)) for warps in (1, 4)}
    assert len(orders) == 2
    assert str(order_of(*reduction("vector", 4))).startswith("1024 elements, of which a thread ")


def test_unknown_orders_have_reasons() -> None:
    found, compilation = reduction("rows", 4)
    with pytest.raises(UnknownOrderError, match="only for f32, not for f16"):
        order_of(*reduction("half", 4))
    with pytest.raises(UnknownOrderError, match="does not compile"):
        order_of(replace(found, layout="#missing"), compilation)
    with pytest.raises(UnknownOrderError, match="too large"):
        order_of(replace(found, shape=(1 << 10, 1 << 10)), compilation)
    amd = replace(compilation, target=read_target("gfx942"))
    with pytest.raises(UnknownOrderError, match="NVIDIA"):
        order_of(found, amd)
