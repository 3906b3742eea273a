"""Shows the purpose of masks: blocks are powers of two, and data is not.

The page docs/tutorials/masks.md explains it. With `python masks.py unmasked` the mask is missing.
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def largest_kernel(x_ptr, out_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    if MASKED:
        x = tl.load(x_ptr + offsets, mask=offsets < n, other=float("-inf"))
    else:
        x = tl.load(x_ptr + offsets)
    tl.store(out_ptr, tl.max(x, axis=0))


def main(masked: bool) -> None:
    scores = torch.tensor([-5.0, -2.0, -7.0, -1.0, -3.0])
    out = torch.zeros(1)
    largest_kernel[(1,)](scores, out, 5, MASKED=masked, BLOCK=8)
    print("largest:", float(out))


if __name__ == "__main__":
    main(masked=sys.argv[1:] != ["unmasked"])
