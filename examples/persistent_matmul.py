"""Matrix product by a fixed number of programs, one per multiprocessor, each with many tiles.

A program that computes many tiles is set up only once, and the loads of its next tile can overlap
the end of the last one. `flatten=True` lets the compiler merge the two loops for that.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def persistent_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        rows = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        # Indices past the end wrap around to the first rows or columns; the results are never
        # stored. This saves a mask in the inner loop.
        a_rows = rows % M
        b_columns = columns % N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            inner = k * BLOCK_K + tl.arange(0, BLOCK_K)
            a = tl.load(
                a_ptr + a_rows[:, None] * K + inner[None, :], mask=inner[None, :] < K, other=0.0
            )
            b = tl.load(
                b_ptr + inner[:, None] * N + b_columns[None, :], mask=inner[:, None] < K, other=0.0
            )
            accumulator = tl.dot(a, b, accumulator)
        c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=inside)


def persistent_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return `a @ b` of two contiguous f16 matrices."""
    (M, K), (_, N) = a.shape, b.shape
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    properties = triton.runtime.driver.active.utils.get_device_properties(a.device.index or 0)
    tiles = triton.cdiv(M, 64) * triton.cdiv(N, 64)
    programs = min(properties["multiprocessor_count"], tiles)
    persistent_matmul_kernel[(programs,)](a, b, c, M, N, K, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64)
    return c


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    a = torch.randn(300, 150, device=device).to(torch.float16)
    b = torch.randn(150, 250, device=device).to(torch.float16)
    out = persistent_matmul(a, b)
    torch.testing.assert_close(out.float(), a.float() @ b.float(), rtol=1e-2, atol=2e-2)
    print(f"ok persistent_matmul: {tuple(out.shape)} on {device.type}")
    return {"out": out}


if __name__ == "__main__":
    main()
