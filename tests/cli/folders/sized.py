"""Two functions of a size: a kernel that is wrong for some sizes, and one that cannot be traced."""

import helpers
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets), mask=offsets < n)


def run(n):
    x = torch.ones(n)
    copy_kernel[(triton.cdiv(n, 64),)](x, torch.empty_like(x), n, BLOCK=64)


def unfollowed(n):
    helpers.checked(torch.zeros(n))


if __name__ == "__main__":
    run(128)
