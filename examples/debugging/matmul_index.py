"""A matrix product with a planted bug in the addresses of `b`.

docs/tutorials/planted_bugs.md shows how to find it step by step.
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, K, stride_a, stride_b, stride_c, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * stride_a + inner[None, :])
        b = tl.load(b_ptr + inner[None, :] * stride_b + columns[:, None])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * stride_c + columns[None, :], acc)


def main() -> int:
    a = torch.arange(32.0 * 32).reshape(32, 32) / 1024
    b = torch.arange(32.0 * 32).reshape(32, 32) % 7
    c = torch.empty(32, 32)
    matmul_kernel[(2, 2)](a, b, c, 32, a.stride(0), b.stride(0), c.stride(0), BLOCK=16)
    wrong = int((~torch.isclose(c, a @ b)).sum())
    print(f"{wrong} of {c.numel()} elements are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
