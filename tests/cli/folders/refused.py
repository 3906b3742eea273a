"""Launches a kernel that does not compile; Triton raises the error in one of its own files."""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def inner(x):
    return x & 1.5


@triton.jit
def refused_kernel(x_ptr, BLOCK: tl.constexpr):
    inner(tl.load(x_ptr + tl.arange(0, BLOCK)))


def main(**arguments):
    refused_kernel[(1,)](torch.ones(16), **arguments)


main(**({} if "incomplete" in sys.argv else {"BLOCK": 16}))
