"""A kernel with a Python breakpoint, where a GPU could not stop.

The page docs/tutorials/breakpoints.md explains it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def clip_kernel(x_ptr, n, limit, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    clipped = tl.minimum(x, limit)
    breakpoint()
    tl.store(x_ptr + offsets, clipped, mask=offsets < n)


def main() -> None:
    x = torch.arange(6.0)
    clip_kernel[(1,)](x, 6, 3.5, BLOCK=8)
    print(x.tolist())


if __name__ == "__main__":
    main()
