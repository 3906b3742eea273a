"""Launches a kernel that Triton refuses, for which it raises an error in a file of its own."""

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


def main(**given):
    refused_kernel[(1,)](torch.ones(16), **given)


main(**({} if "incomplete" in sys.argv else {"BLOCK": 16}))
