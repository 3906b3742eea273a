"""Warnings about kernels that overwrite tensors which autograd has saved."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize

N = 64


@triton.jit
def doubles(x_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i))


def double(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    doubles[(1,)](x, out, B=N)
    return out


class Double(torch.autograd.Function):
    """Doubles its argument, in place or not, and saves its result."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, in_place: bool, is_marked: bool) -> torch.Tensor:
        out = double(x, x if in_place else torch.empty_like(x))
        if is_marked:
            ctx.mark_dirty(x)
        ctx.save_for_backward(out)
        return out if is_marked or not in_place else out.view_as(out)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (out,) = ctx.saved_tensors
        return 2 * gradient + 0 * out, None, None


class DoubleWithContext(torch.autograd.Function):
    """Doubles its argument; `forward` does not receive the node."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return double(x, torch.empty_like(x))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return 2 * gradient + 0 * ctx.saved_tensors[0]


class ZeroSaved(torch.autograd.Function):
    """Overwrites in its backward pass the tensor that it has saved."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return double(gradient.contiguous(), x)


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    x, weight = torch.rand(N, requires_grad=True), torch.rand(N, requires_grad=True)
    return x * 1.0, weight


def warnings(report: Any) -> list[Finding]:
    assert all(finding.kind == "saved_tensor" for finding in report.findings)
    return list(report.findings)


def test_a_saved_tensor_is_overwritten() -> None:
    hidden, weight = operands()
    with sanitize() as report:
        product = hidden * weight
        result = Double.apply(hidden, True, False)
        (product.sum() + result.sum()).backward()
    (warning,) = warnings(report)
    assert warning.severity == "warning"
    assert warning.message == (
        "the kernel stores to `out_ptr`, which autograd had saved for the backward pass of `Mul`; "
        "that pass uses the new values and gives wrong gradients"
    )
    assert warning.location is not None
    assert warning.location.line == doubles.starting_line_number + 3
    assert warning.argument is not None
    assert warning.argument.name == "out_ptr"


@pytest.mark.parametrize("function", [lambda x: Double.apply(x, False, False), double])
def test_a_saved_tensor_is_only_read(function: Any) -> None:
    hidden, weight = operands()
    with sanitize() as report:
        product = hidden * weight
        if function is double:
            with torch.no_grad():
                double(hidden, torch.empty_like(hidden))
        else:
            product = product + function(hidden)
        product.sum().backward()
    assert not warnings(report)


def test_a_launch_before_the_tensor_is_saved() -> None:
    hidden, weight = operands()
    with sanitize() as report:
        with torch.no_grad():
            double(hidden, hidden)
        (hidden * weight).sum().backward()
    assert not warnings(report)


def test_functions_that_save_what_their_own_launch_stores() -> None:
    hidden, _ = operands()
    with sanitize() as report:
        (Double.apply(hidden, False, False) + DoubleWithContext.apply(hidden)).sum().backward()
    assert not warnings(report)


def test_torch_itself_reports_a_tensor_that_is_marked() -> None:
    hidden, weight = operands()
    with sanitize() as report:
        product = hidden * weight
        result = Double.apply(hidden, True, True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            (product.sum() + result.sum()).backward()
    assert not warnings(report)


def test_a_backward_pass_may_overwrite_what_its_own_node_has_saved() -> None:
    hidden, _ = operands()
    with sanitize() as report:
        ZeroSaved.apply(hidden).sum().backward()
    assert not warnings(report)


def test_a_second_pass_through_the_node_that_overwrites_its_tensor() -> None:
    hidden, _ = operands()
    with sanitize() as report:
        total = ZeroSaved.apply(hidden).sum()
        total.backward(retain_graph=True)
        total.backward()
    (warning,) = warnings(report)
    assert "for the backward pass of `ZeroSaved`" in warning.message


@triton.jit
def negates(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, -tl.load(x_ptr + i), mask=i < n)


class Square(torch.autograd.Function):
    """Squares its argument; its backward pass changes the tensor that it has saved."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.sizes = sizes
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        result = 2 * x * gradient
        for size in ctx.sizes:
            negates[(1,)](x, size, B=N)
        return result, None


@pytest.mark.parametrize(
    ("sizes", "is_restored"), [((N,), False), ((N, N), True), ((0,), True), ((N, N - 1), False)]
)
def test_a_second_pass_after_the_first_has_restored_the_tensor(
    sizes: tuple[int, ...], is_restored: bool
) -> None:
    x, _ = operands()
    with sanitize() as report:
        total = Square.apply(x, sizes).sum()
        (first,) = torch.autograd.grad(total, x, retain_graph=True)
        (second,) = torch.autograd.grad(total, x)
    assert torch.equal(first, second) == is_restored
    assert bool(warnings(report)) != is_restored


@pytest.mark.parametrize("is_leaf", [True, False])
def test_a_second_pass_that_does_not_reach_the_node(is_leaf: bool) -> None:
    x, weight = operands()
    if not is_leaf:
        weight = weight * 1.0
    with sanitize() as report:
        total = (Square.apply(x, (N,)) * weight).sum()
        torch.autograd.grad(total, [x, weight], retain_graph=True)
        torch.autograd.grad(total, weight, retain_graph=True)
        assert not warnings(report)
        torch.autograd.grad(total, [weight, x])
    assert warnings(report)


class DoubleInWorkspace(torch.autograd.Function):
    """Doubles its argument; its backward pass computes in a tensor that it has saved."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(torch.zeros_like(x))
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return double(gradient.contiguous(), *ctx.saved_tensors).clone()


@pytest.mark.xfail(strict=True, reason="reads of a saved tensor by torch are not recorded")
def test_a_second_pass_overwrites_a_workspace_before_it_reads_it() -> None:
    x, _ = operands()
    with sanitize() as report:
        total = DoubleInWorkspace.apply(x).sum()
        total.backward(retain_graph=True)
        total.backward()
    assert not warnings(report)


def test_a_second_backward_pass_needs_the_tensor() -> None:
    hidden, weight = operands()
    with sanitize() as report:
        product = (hidden * weight).sum()
        product.backward(retain_graph=True)
        with torch.no_grad():
            double(hidden, weight)
        product.backward()
    (warning,) = warnings(report)
    assert warning.argument is not None
    assert warning.argument.name == "out_ptr"


def test_parts_of_one_storage() -> None:
    whole = torch.rand(N, 2, requires_grad=True) * 1.0
    with sanitize() as report:
        product = (whole[:, 0] * torch.rand(N, requires_grad=True)).sum()
        other = whole.detach()[:, 1]
        assert other.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
        doubles_second[(1,)](other, B=N)
        product.backward()
    assert not warnings(report)


@triton.jit
def doubles_second(x_ptr, B: tl.constexpr):
    i = 2 * tl.arange(0, B)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i))


def test_tensors_that_hooks_have_packed_are_not_unpacked() -> None:
    hidden, weight = operands()
    unpacked: list[object] = []

    def unpack(copy: torch.Tensor) -> torch.Tensor:
        unpacked.append(copy)
        return copy

    with sanitize() as report:
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, unpack):
            product = hidden * weight
        with torch.no_grad():
            double(hidden, hidden)
        product.sum().backward()
    assert not warnings(report)
    assert len(unpacked) == 2  # by the backward pass itself
