"""Adds two vectors: one program adds one block, and a mask limits the last block."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return `x + y`; both are contiguous and of one shape."""
    out = torch.empty_like(x)
    n = x.numel()
    # The grid may depend on the constants the kernel is compiled with, so it is a function of them.
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=1024)
    return out


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    results = {}
    for dtype in (torch.float32, torch.bfloat16):
        # 98,432 is not a multiple of 1,024: the mask disables lanes of the last program.
        x, y = (torch.rand(98_432, device=device).to(dtype) for _ in range(2))
        out = add(x, y)
        torch.testing.assert_close(out, x + y, rtol=0, atol=0)
        results[str(dtype)] = out
    print(f"ok vector_add: {x.numel()} elements on {device.type}")
    return results


if __name__ == "__main__":
    main()
