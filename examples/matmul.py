"""Matrix product in tiles; programs are grouped by rows so that neighbours load the same data."""

import torch
import triton
import triton.language as tl


@triton.jit
def tile_of(program, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return a program's tile: down GROUP_M tiles, then right, then the next group.

    Programs that run at about the same time then touch few distinct rows of A and columns of B,
    which the GPU's second-level cache holds.
    """
    in_group = GROUP_M * tiles_n
    first_m = (program // in_group) * GROUP_M
    height = min(tiles_m - first_m, GROUP_M)
    m = first_m + (program % in_group) % height
    n = (program % in_group) // height
    return m, n


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    a_stride_m, a_stride_k,
    b_stride_k, b_stride_n,
    c_stride_m, c_stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    SQUARED_RELU: tl.constexpr,
):  # fmt: skip
    m, n = tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * a_stride_m + inner[None, :] * a_stride_k
    b_ptrs = b_ptr + inner[:, None] * b_stride_k + columns[None, :] * b_stride_n
    # Sums are kept in f32 for every type of inputs.
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < left) & (columns[None, :] < N), other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K * a_stride_k
        b_ptrs += BLOCK_K * b_stride_k
    if SQUARED_RELU:
        # Operations after the product can be fused while the tile is still in registers.
        accumulator = tl.where(accumulator > 0, accumulator * accumulator, 0.0)
    c_ptrs = c_ptr + rows[:, None] * c_stride_m + columns[None, :] * c_stride_n
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=inside)


def matmul(
    a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype, squared_relu: bool = False
) -> torch.Tensor:
    """Return `a @ b`, of any strides, in `out_dtype`; f8 inputs are multiplied unconverted."""
    M, K = a.shape
    _, N = b.shape
    c = torch.empty((M, N), device=a.device, dtype=out_dtype)
    block_m, block_n, block_k = 64, 64, 32
    grid = (triton.cdiv(M, block_m) * triton.cdiv(N, block_n),)
    matmul_kernel[grid](
        a, b, c,
        M, N, K,
        *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=4,
        SQUARED_RELU=squared_relu,
    )  # fmt: skip
    return c


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    # None of the three sizes is a multiple of its tile; B is transposed in memory.
    a = torch.randn(200, 100, device=device)
    b = torch.randn(150, 100, device=device).T
    results = {}
    # Products of narrow types are exact in f32, so mostly only the order of summation differs from
    # torch's; the fp8 tensor cores of a Hopper GPU also keep fewer bits of the sums.
    for dtype, out_dtype, tolerance in (
        (torch.float32, torch.float32, 1e-4),
        (torch.float16, torch.float16, 1e-2),
        (torch.float8_e5m2, torch.float32, 2e-2),
    ):
        x, y = a.to(dtype), b.to(dtype)
        out = matmul(x, y, out_dtype)
        expected = (x.double() @ y.double()).to(out_dtype)
        torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
        results[str(dtype)] = out
    fused = matmul(a, b, torch.float32, squared_relu=True)
    torch.testing.assert_close(fused, torch.relu(results["torch.float32"]).square())
    results["squared relu"] = fused
    print(f"ok matmul: {', '.join(results)} on {device.type}")
    return results


if __name__ == "__main__":
    main()
