"""Tests of the orders of products of matrices, and of the lines at which orders are looked up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.compilation.compiled_kernels import inspected, line_of, matmul_kernel
from tests.core.compilation.reductions.test_order import reduction, sum_rows

from ttools.core.compilation.reductions.kernel_orders import KernelOrders, ProductOrder
from ttools.core.compilation.reductions.order import order_of
from ttools.core.location import SourceLocation

DOT = SourceLocation(matmul_kernel.fn.__code__.co_filename, line_of(matmul_kernel, "tl.dot"), 0)


@pytest.mark.parametrize(
    ("name", "target", "warps", "shape", "expected"),
    [
        ("matmul", "sm_90", 4, (64, 64), ("wgmma", 16)),
        ("matmul", "sm_90", 2, (64, 64), ("mma", 16)),
        ("matmul", "sm_80", 4, (64, 64), ("mma", 16)),
        ("matmul", "sm_75", 4, (64, 64), ("fma", 1)),
        ("float matmul", "sm_80", 4, (16, 16), ("mma", 8)),
    ],
)
def test_instructions(
    name: str, target: str, warps: int, shape: tuple[int, int], expected: tuple[str, int]
) -> None:
    orders = KernelOrders(inspected(name, target, num_warps=warps).compilation)
    order = orders.product(DOT, shape)
    assert isinstance(order, ProductOrder), order
    assert (order.unit, order.step) == expected
    assert not order.from_zero  # the sum of the loop has become the accumulator
    assert not orders.has_addition(DOT, shape)
    unit = "fma" if expected[0] == "fma" else "tensor cores"
    assert str(order).startswith(f"{unit}, {expected[1]} term")


def test_tensor_memory_is_not_modelled() -> None:
    order = KernelOrders(inspected("matmul", "sm_100").compilation).product(DOT, (64, 64))
    assert order == "the compiler has replaced the product by other operations"


def test_products_elsewhere_or_of_another_shape_are_unknown() -> None:
    orders = KernelOrders(inspected("matmul", "sm_90").compilation)
    for place, shape in ((replace(DOT, line=1), (64, 64)), (None, (64, 64)), (DOT, (32, 64))):
        assert orders.product(place, shape) == (
            "the compiler has replaced the product by other operations"
        )


def test_sums_are_looked_up_by_line_shape_and_axis() -> None:
    found, compilation = reduction("rows", 4)
    orders = KernelOrders(compilation)
    place = SourceLocation(sum_rows.fn.__code__.co_filename, line_of(sum_rows, "tl.sum"), 0)
    assert orders.reduction(place, (4, 256), 1) == order_of(found, compilation)
    for other in (
        orders.reduction(place, (4, 256), 0),
        orders.reduction(place, (8, 256), 1),
        orders.reduction(replace(place, line=1), (4, 256), 1),
    ):
        assert other == "the compiler has replaced the sum by other operations"
