"""Candidates whose calls are recorded as plans; each doubles its argument, partly in host code."""

import ctypes
import threading

import numpy as np
import torch
import triton
import triton.language as tl

TABLE = torch.full((3,), 2.0)


@triton.jit
def scale_kernel(x_ptr, f_ptr, o_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + o, mask=o < n)
    tl.store(o_ptr + o, x * tl.load(f_ptr), mask=o < n)


@triton.jit
def scale_by_kernel(x_ptr, o_ptr, n, factor, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + o, tl.load(x_ptr + o, mask=o < n) * factor, mask=o < n)


def scaled(x, factor, out=None):
    out = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
    if x.numel():
        scale_kernel[(triton.cdiv(x.numel(), 16),)](x, factor, out, x.numel(), BLOCK=16)
    return out


def scaled_by(x, factor):
    out = torch.empty(x.shape)
    scale_by_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), factor, BLOCK=16)
    return out


def plain(x):
    return scaled(x.contiguous(), torch.tensor([2.0]))


def with_a_table(x):
    return scaled(x.contiguous(), TABLE[1:])


def with_numpy(x):
    return scaled(x.contiguous(), torch.from_numpy(np.full(3, 2.0, np.float32)))


def with_copies(x):
    padded = torch.nn.functional.pad(x.to(torch.float64), (1, 2)).float()
    rows = [scaled(row.clone(), torch.full((1,), 2.0)) for row in padded.unbind()]
    return torch.stack(rows)[:, 1:-2].contiguous()


def in_place(x):
    copy = torch.zeros(x.shape)
    copy.copy_(x)
    copy.add_(0)
    return scaled(copy, torch.ones(1).mul_(2), copy)


def in_a_thread(x):
    doubled = []
    thread = threading.Thread(target=lambda: doubled.append(x.contiguous()))
    thread.start()
    thread.join()
    return scaled(doubled[0], torch.tensor([2.0]))


def as_a_view(x):
    whole = torch.empty(2, x.numel())
    scaled(x.contiguous(), torch.tensor([2.0]), whole[1])
    return whole[1].view(x.shape)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return plain(x)

    @staticmethod
    def backward(ctx, gradient):
        return plain(gradient)


def with_gradient(x):
    return Doubled.apply(x)


def by_a_number_that_it_reads(x):
    return scaled_by(x.contiguous(), 2.0 * float(x.reshape(-1)[0] == x.reshape(-1)[0]))


def by_a_condition(x):
    return scaled_by(x.contiguous(), 2.0 if torch.equal(x, x) else 3.0)


def by_numpy(x):
    return scaled_by(x.contiguous(), 2.0 if x.numpy()[0, 0] < 100 else 3.0)


def of_another_process(x):
    memory = ctypes.string_at(x.contiguous().data_ptr(), 4 * x.numel())
    half = torch.frombuffer(bytearray(memory), dtype=torch.float32)
    return scaled(half, torch.tensor([2.0])).view(x.shape)


def random(x):
    return scaled(x.contiguous(), torch.rand(1))


def inverse(x):
    return scaled(x @ torch.linalg.inv(torch.eye(7)), torch.tensor([2.0]))


def doubles_argument(x):
    scaled(x, torch.tensor([2.0]), x)
