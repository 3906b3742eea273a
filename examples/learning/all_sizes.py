"""A copy that is correct up to 2**31 elements; see docs/tutorials/all_sizes.md."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


def run(n):
    x = torch.zeros(n, dtype=torch.int8)
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)


if __name__ == "__main__":
    run(4096)
