"""Many matrix products of different sizes in one launch, through arrays of pointers.

The host stores the address of every matrix in a tensor of integers; a program loads the address
it needs and casts it to a pointer. A fixed number of programs computes the tiles of all products.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def grouped_gemm_kernel(
    addresses_ptr, sizes_ptr, products, PROGRAMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    first_tile = 0
    for g in range(products):
        M = tl.load(sizes_ptr + g * 3)
        N = tl.load(sizes_ptr + g * 3 + 1)
        K = tl.load(sizes_ptr + g * 3 + 2)
        tiles_n = tl.cdiv(N, BLOCK_N)
        end_tile = first_tile + tl.cdiv(M, BLOCK_M) * tiles_n
        # The tiles of this product that this program computes.
        while tile < end_tile:
            a_ptr = tl.load(addresses_ptr + g * 3).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(addresses_ptr + g * 3 + 1).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(addresses_ptr + g * 3 + 2).to(tl.pointer_type(tl.float16))
            rows = (tile - first_tile) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            columns = (tile - first_tile) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for start in range(0, K, BLOCK_K):
                inner = start + tl.arange(0, BLOCK_K)
                a = tl.load(
                    a_ptr + rows[:, None] * K + inner[None, :],
                    mask=(rows[:, None] < M) & (inner[None, :] < K),
                    other=0.0,
                )
                b = tl.load(
                    b_ptr + inner[:, None] * N + columns[None, :],
                    mask=(inner[:, None] < K) & (columns[None, :] < N),
                    other=0.0,
                )
                accumulator = tl.dot(a, b, accumulator)
            inside = (rows[:, None] < M) & (columns[None, :] < N)
            c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
            tl.store(c_ptrs, accumulator.to(tl.float16), mask=inside)
            tile += PROGRAMS
        first_tile = end_tile


def grouped_gemm(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
    """Return `a @ b` of every pair of contiguous f16 matrices."""
    device = pairs[0][0].device
    outs = [a.new_empty(a.shape[0], b.shape[1]) for a, b in pairs]
    addresses = torch.tensor(
        [[x.data_ptr() for x in (a, b, c)] for (a, b), c in zip(pairs, outs, strict=True)],
        dtype=torch.int64,
        device=device,
    )
    sizes = torch.tensor(
        [[a.shape[0], b.shape[1], a.shape[1]] for a, b in pairs], dtype=torch.int32, device=device
    )
    grouped_gemm_kernel[(8,)](
        addresses, sizes, len(pairs), PROGRAMS=8, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32
    )
    return outs


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    sizes = [(128, 128, 64), (70, 90, 33), (1, 200, 128), (64, 64, 256)]
    pairs = [
        (
            torch.randn(M, K, device=device).to(torch.float16),
            torch.randn(K, N, device=device).to(torch.float16),
        )
        for M, N, K in sizes
    ]
    outs = grouped_gemm(pairs)
    for (a, b), out in zip(pairs, outs, strict=True):
        torch.testing.assert_close(out.float(), a.float() @ b.float(), rtol=1e-2, atol=2e-2)
    print(f"ok grouped_gemm: {len(pairs)} products on {device.type}")
    return {str(size): out for size, out in zip(sizes, outs, strict=True)}


if __name__ == "__main__":
    main()
