"""Compares products of 8192 x 8192 by cuBLAS, torch and Triton with a GPU's roofline as K grows.

    ttools profile --data tree --tree examples/matmul_roofline.py
    ttools profile --tree --gpu h200 examples/matmul_roofline.py --size 256 --steps 2

On a GPU, `torch.mm` runs a cuBLAS kernel (`torch.compile` would choose among more kernels), and
`torch.addmm` is torch's own fused product with a bias. Without a GPU, only the product in Triton is
counted and bounded, for the named device. Each product is a Proton scope with its number of
operations and bytes, so that kernels of libraries have a rate too.
"""

from __future__ import annotations

import argparse

import torch
import triton
import triton.language as tl
import triton.profiler as proton


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    a_stride_m, b_stride_k, c_stride_m,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = program // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first_m, GROUP_M)
    m = first_m + program % (GROUP_M * tiles_n) % height
    n = program % (GROUP_M * tiles_n) // height
    rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * a_stride_m + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * b_stride_k + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * b_stride_k
    c_ptrs = c_ptr + rows[:, None] * c_stride_m + columns[None, :]
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty))


def matmul(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Compute `a @ b` into `c`; sizes are multiples of the tiles."""
    (m, k), n = a.shape, b.shape[1]
    block = 128 if min(m, n) >= 1024 else 64
    matmul_kernel[(m // block * (n // block),)](
        a, b, c,
        m, n, k,
        a.stride(0), b.stride(0), c.stride(0),
        BLOCK_M=block, BLOCK_N=block, BLOCK_K=64, GROUP_M=8, num_warps=8 if block == 128 else 4,
    )  # fmt: skip
    return c


def sweep(size: int, steps: int) -> dict[str, torch.Tensor]:
    """Multiply matrices of `size` rows and columns over K = size / 2^steps … size.

    Returns:
        The products by implementation and K.
    """
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    results = {}
    for step in range(steps, -1, -1):
        k = size >> step
        a = torch.randn(size, k, device=device, dtype=torch.float16)
        b = torch.randn(k, size, device=device, dtype=torch.float16)
        c, bias = (torch.zeros(size, size, device=device, dtype=torch.float16) for _ in range(2))
        work = {"flops16": 2.0 * size * size * k, "bytes": 2.0 * (2 * size * k + size * size)}
        with proton.scope(f"K={k}"):
            with proton.scope("cuBLAS", work):
                results[f"cuBLAS {k}"] = torch.mm(a, b)
            with proton.scope("torch.addmm", work):
                results[f"addmm {k}"] = torch.addmm(bias, a, b)
            with proton.scope("Triton", work):
                results[f"Triton {k}"] = matmul(a, b, c)
        scale = k**0.5
        for name in ("addmm", "Triton"):
            torch.testing.assert_close(
                results[f"{name} {k}"] / scale, results[f"cuBLAS {k}"] / scale, rtol=1e-2, atol=1e-2
            )
    return results


def main(size: int = 256, steps: int = 2) -> dict[str, torch.Tensor]:
    results = sweep(size, steps)
    print(f"ok matmul_roofline: {len(results)} products of {size} x {size}")
    return results


if __name__ == "__main__":
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=int, default=8192 if on_gpu else 256)
    parser.add_argument("--steps", type=int, default=5 if on_gpu else 2, help="halvings of K")
    given = parser.parse_args()
    main(given.size, given.steps)
