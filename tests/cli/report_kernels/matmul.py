"""Multiplies two matrices."""

import torch
import triton
import triton.language as tl

DOMAIN = {"M": (1, 70), "N": (1, 70), "K": (1, 70)}
CONTIGUOUS = ["a", "b"]


@triton.autotune([triton.Config({"BLOCK": block}) for block in (16, 32)], key=["M", "N", "K"])
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a_mask = (rows < M)[:, None] & (k < K)[None, :]
        b_mask = (k < K)[:, None] & (columns < N)[None, :]
        a = tl.load(a_ptr + rows[:, None] * K + k[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + columns[None, :], mask=b_mask, other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total, mask=mask)


def candidate(a, b):
    (M, K), (_, N) = a.shape, b.shape
    c = torch.empty(M, N)
    matmul_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK"]), triton.cdiv(N, meta["BLOCK"]))](
        a, b, c, M, N, K
    )
    return c


def reference(a, b):
    return a @ b


def inputs(M, N, K, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        "a": torch.randn(M, K, generator=generator),
        "b": torch.randn(K, N, generator=generator),
    }


def run(M, N, K):
    candidate(**inputs(M, N, K))


if __name__ == "__main__":
    run(60, 50, 40)
