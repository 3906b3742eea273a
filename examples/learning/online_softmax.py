"""Softmax in one pass, as in flash attention: later blocks correct the maximum and the sum.

The page docs/tutorials/flash_attention.md explains it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attend_kernel(q_ptr, k_ptr, v_ptr, out_ptr, keys, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + tl.program_id(0) * WIDTH + lanes)
    peak = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    acc = tl.zeros((WIDTH,), tl.float32)
    for start in range(0, keys, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        inside = rows < keys
        places = rows[:, None] * WIDTH + lanes[None, :]
        k = tl.load(k_ptr + places, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + places, mask=inside[:, None], other=0.0)
        scores = tl.where(inside, tl.sum(q[None, :] * k, axis=1), float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=0))
        correction = tl.exp(peak - higher)
        weights = tl.exp(scores - higher)
        total = total * correction + tl.sum(weights, axis=0)
        acc = acc * correction + tl.sum(weights[:, None] * v, axis=0)
        peak = higher
    tl.store(out_ptr + tl.program_id(0) * WIDTH + lanes, acc / total)


def main() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4), torch.randn(6, 4), torch.randn(6, 4)
    out = torch.empty_like(q)
    attend_kernel[(2,)](q, k, v, out, 6, WIDTH=4, BLOCK=4)
    expected = torch.softmax(q @ k.t(), dim=1) @ v
    torch.testing.assert_close(out, expected)
    print("equal to torch's")


if __name__ == "__main__":
    main()
