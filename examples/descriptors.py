"""Tensor descriptors, which combine a pointer with shape and strides, and need no masks.

A block that extends past the end of the tensor loads zeros there and stores nothing there. A
descriptor is made on the host and passed as an argument, or made in the kernel.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def scale_kernel(source, target, factor, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Scale a matrix through descriptors that are made on the host."""
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    target.store([row, column], source.load([row, column]) * factor)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Transpose through descriptors made in the kernel; their last stride is always one."""
    x = tl.make_tensor_descriptor(
        x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N]
    )
    out = tl.make_tensor_descriptor(
        out_ptr, shape=[N, M], strides=[M, 1], block_shape=[BLOCK_N, BLOCK_M]
    )
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    out.store([column, row], x.load([row, column]).T)


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Return `x * factor` of a contiguous matrix whose row size is a multiple of 16 bytes."""
    out = torch.empty_like(x)
    block = [32, 64]
    source = TensorDescriptor.from_tensor(x, block)
    target = TensorDescriptor.from_tensor(out, block)
    grid = (triton.cdiv(x.shape[0], block[0]), triton.cdiv(x.shape[1], block[1]))
    scale_kernel[grid](source, target, factor, BLOCK_M=block[0], BLOCK_N=block[1])
    return out


def transpose(x: torch.Tensor) -> torch.Tensor:
    """Return a contiguous transpose of an f32 matrix; both sizes are multiples of four."""
    M, N = x.shape
    out = x.new_empty(N, M)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 64))
    transpose_kernel[grid](x, out, M, N, BLOCK_M=32, BLOCK_N=64)
    return out


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    # On a GPU, descriptors made in a kernel lie in memory that the host provides.
    triton.set_allocator(
        lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=device)
    )
    torch.manual_seed(0)
    x = torch.randn(100, 140, device=device)
    results = {"scaled": scale(x, 3.0), "transposed": transpose(x)}
    torch.testing.assert_close(results["scaled"], x * 3.0)
    torch.testing.assert_close(results["transposed"], x.T.contiguous())
    print(f"ok descriptors: host and device descriptors of {tuple(x.shape)} on {device.type}")
    return results


if __name__ == "__main__":
    main()
