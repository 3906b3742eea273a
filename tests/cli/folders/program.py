"""Launches two kernels, one of them with a defect, the other inside a context manager."""

import atexit
from contextlib import contextmanager

import helpers
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    offsets = tl.program_id(0) * columns + lanes
    x = helpers.scaled(x_ptr, offsets, columns)
    tl.store(out_ptr + offsets, x, mask=lanes < columns)


@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + lanes, mask=lanes < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0))


@contextmanager
def step():
    x = torch.ones(3, 100)
    yield x
    out = torch.empty(3)
    sum_kernel[(3,)](x, out, 100, BLOCK=128)


def main():
    x = torch.ones(3, 100)
    helpers.launch(scale_kernel, x, torch.empty_like(x))
    with step() as x:
        x += 1
    atexit.register(print, "the program ends")


if __name__ == "__main__":
    main()
