"""Defects around launches: backward passes, threads, tables, pickles."""

from __future__ import annotations

import io
import threading
from typing import Any

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def copied(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)  # BUG: unwritten_output


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, missing: int) -> torch.Tensor:
        ctx.missing = missing
        out = torch.empty_like(x)
        copied[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), B=16)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = gradients
        dx, n = torch.empty_like(gradient), gradient.numel() - ctx.missing
        copied[(triton.cdiv(n, 16),)](gradient.contiguous(), dx, n, B=16)
        return dx, None


@buggy("unwritten_output", "o_ptr")
def a_gradient_lacks_its_tail(fixed: bool) -> None:
    x = torch.rand(40, requires_grad=True)
    (Copied.apply(x, 0 if fixed else 7) * 2).sum().backward()
    assert x.grad is not None
    x.grad.add_(1)


@buggy("unwritten_output", "o_ptr")
def a_gradient_of_padding_reaches_the_weights(fixed: bool) -> None:
    layer = torch.nn.Linear(40, 40)
    layer.weight.requires_grad_(False)
    Copied.apply(layer(torch.rand(40)), 0 if fixed else 7).square().sum().backward()
    layer.zero_grad()


def _tail_left(fixed: bool) -> torch.Tensor:
    out = torch.empty(64)
    copied[(2,)](torch.rand(64), out, 64 if fixed else 50, B=32)
    return out


@buggy("unwritten_output", "o_ptr")
def a_thread_reads_unwritten_elements(fixed: bool) -> None:
    out = _tail_left(fixed)
    thread = threading.Thread(target=lambda: out.sum().item())
    thread.start()
    thread.join()


@buggy("unwritten_output", "o_ptr")
def a_result_is_saved_with_its_tail(fixed: bool) -> None:
    torch.save({"out": _tail_left(fixed)}, io.BytesIO())


@triton.jit
def scattered(table_ptr, n, B: tl.constexpr):
    out = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(out + i, 1.0, mask=i < n)  # BUG: unwritten_output


@buggy("unwritten_output", "table_ptr")
def tensors_of_a_table_lack_their_tails(fixed: bool) -> None:
    outs = [torch.empty(16) for _ in range(2)]
    scattered[(2,)](torch.tensor([out.data_ptr() for out in outs]), 16 if fixed else 13, B=16)
    sum(outs).tolist()  # type: ignore[union-attr]


@triton.autotune([triton.Config({"B": 16}), triton.Config({"B": 32})], key=["n"])
@triton.jit
def doubled(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(x_ptr + i, x * 2, mask=i < n)  # BUG: not_restored


doubled_and_restored = triton.autotune(
    [triton.Config({"B": 16}), triton.Config({"B": 32})], key=["n"], restore_value=["x_ptr"]
)(doubled.fn)


@buggy("not_restored", "x_ptr")
def a_tuner_scales_what_it_times(fixed: bool) -> None:
    kernel = doubled_and_restored if fixed else doubled
    kernel[lambda c: (triton.cdiv(60, c["B"]),)](torch.ones(60), 60)


@triton.jit
def summed(x_ptr, o_ptr, B: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, B))))  # BUG: uninit_read


@buggy(
    "uninit_read", "x_ptr", missed="results of elementwise operations on the host count as written"
)
def unwritten_elements_are_doubled_and_summed(fixed: bool) -> None:
    x = (torch.zeros(64) if fixed else torch.empty(64)) * 2
    summed[(1,)](x, torch.empty(1), B=64)
