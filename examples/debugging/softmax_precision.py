"""A softmax of long rows, with a planted bug: its results are wrong by a few per cent.

docs/tutorials/planted_bugs.md shows how to find it step by step.
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, x_ptr, n_columns, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * n_columns
    out_ptr += tl.program_id(0) * n_columns
    columns = tl.arange(0, BLOCK)
    peak = tl.full((1,), float("-inf"), tl.float32)
    for start in range(0, n_columns, BLOCK):
        x = tl.load(x_ptr + start + columns).to(tl.float32)
        peak = tl.maximum(peak, tl.max(x, axis=0))
    total = tl.zeros((1,), x_ptr.dtype.element_ty)
    for start in range(0, n_columns, BLOCK):
        x = tl.load(x_ptr + start + columns).to(tl.float32)
        part = tl.sum(tl.exp(x - peak), axis=0)
        total += part.to(total.dtype)
    for start in range(0, n_columns, BLOCK):
        x = tl.load(x_ptr + start + columns).to(tl.float32)
        tl.store(out_ptr + start + columns, tl.exp(x - peak) / total)


def main() -> int:
    x = torch.full((2, 2048), -11.3, dtype=torch.float16)
    x[:, 0] = 0.0  # one column has nearly all the weight
    out = torch.empty_like(x)
    softmax_kernel[(2,)](out, x, x.shape[1], BLOCK=32)
    expected = torch.softmax(x.float(), dim=1)
    error = float(((out.float() - expected).abs() / expected).max())
    print(f"off by up to {error:.1%}")
    return 1 if error > 0.01 else 0


if __name__ == "__main__":
    sys.exit(main())
