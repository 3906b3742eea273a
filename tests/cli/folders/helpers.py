"""Functions that the kernels and programs of the other files in this folder call."""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x_ptr, offsets, columns):
    return tl.load(x_ptr + offsets) * columns


def launch(kernel, x, out):
    rows, columns = x.shape
    kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))


def checked(x):
    if x.ndim != 2:
        raise ValueError(f"a matrix is needed, not {x.ndim} dimensions")
    return x


def through_numpy(x):
    return torch.from_numpy(x.numpy().sum(axis=1))
