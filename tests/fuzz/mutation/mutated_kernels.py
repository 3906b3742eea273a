"""Kernels, and functions that launch them, for the tests of mutants."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, factor):
    return x * factor


@triton.jit
def elementwise_kernel(x_ptr, y_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    """Multiply and add."""
    program = tl.program_id(0)
    lanes = program * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < n
    x = tl.load(x_ptr + lanes, mask=mask, other=0.0)
    y = tl.load(y_ptr + lanes, mask=mask, other=0.0)
    total = scaled(x, factor)
    total += y
    tl.store(out_ptr + lanes, total, mask=mask)


@triton.jit
def rows_kernel(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + columns
        total += tl.load(x_ptr + row * stride + at, mask=at < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(total))


def launch() -> None:
    """Launch each kernel once."""
    torch.manual_seed(0)
    x, y, out = torch.randn(300), torch.randn(300), torch.zeros(300)
    elementwise_kernel[(5,)](x, y, out, 300, 1.7, BLOCK=64)
    rows = torch.randn(7, 45)
    rows_kernel[(7,)](rows, torch.zeros(7), 45, 45, BLOCK=16)


@triton.jit
def described_kernel(x_desc, out_desc, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK
    x = x_desc.load([at, 0])
    x += x * 2
    out_desc.store([at, 0], x)


def launch_described() -> None:
    """Launch a kernel on tensor descriptors that the host creates."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    torch.manual_seed(0)
    x, out = torch.randn(24, 8), torch.zeros(24, 8)
    descriptors = (TensorDescriptor.from_tensor(t, [8, 8]) for t in (x, out))
    described_kernel[(3,)](*descriptors, BLOCK=8)


@triton.jit
def tuple_kernel(pointers, numbers, n: tl.constexpr):
    lanes = tl.arange(0, n)
    offset = lanes * numbers[0] + numbers[1]
    total = tl.load(pointers[0] + lanes) + offset
    tl.store(pointers[1] + lanes, total)


def launch_tuples() -> None:
    """Launch a kernel on tuples of tensors and numbers, one of which Triton makes a constant."""
    torch.manual_seed(0)
    tuple_kernel[(1,)]((torch.randn(32), torch.zeros(32)), (3, 1), 32)


def launch_closure() -> None:
    """Launch a kernel that uses variables of the enclosing function."""
    factor = tl.constexpr(3)
    by = scaled

    @triton.jit
    def closure_kernel(x_ptr, out_ptr, n: tl.constexpr):
        lanes = tl.arange(0, n)
        total = by(tl.load(x_ptr + lanes), factor)
        total += factor
        tl.store(out_ptr + lanes, total)

    torch.manual_seed(0)
    closure_kernel[(1,)](torch.randn(32), torch.zeros(32), 32)


class View:
    """A part of a tensor that has an address but is not a tensor, like views of some libraries."""

    def __init__(self, base: torch.Tensor, offset: int) -> None:
        self.base, self.offset, self.dtype = base, offset, base.dtype

    def data_ptr(self) -> int:
        return self.base.data_ptr() + self.offset * self.base.element_size()


def launch_views() -> None:
    """Launch a kernel on objects that have an address but are not tensors."""
    torch.manual_seed(0)
    x, out = View(torch.randn(320), 3), View(torch.zeros(320), 20)
    elementwise_kernel[(5,)](x, View(x.base, 20), out, 300, 1.7, BLOCK=64)
