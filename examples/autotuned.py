"""Sums of rows, autotuned over the number of columns that an iteration loads.

`ttools tune examples/autotuned.py` checks that all configurations give the same result, and
stores the best of them.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": block}, num_warps=warps)
        for block, warps in ((256, 2), (1024, 4), (4096, 8))
    ],
    key=["columns"],
)
@triton.jit
def row_sum_kernel(x_ptr, out_ptr, row_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + offsets, mask=offsets < columns, other=0.0)
        total += x.to(tl.float32)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of every row of a matrix whose rows are contiguous."""
    rows, columns = x.shape
    out = torch.empty(rows, dtype=torch.float32, device=x.device)
    row_sum_kernel[(rows,)](x, out, x.stride(0), columns)
    return out


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    x = torch.randn(64, 5000, device=device)
    out = row_sum(x)
    torch.testing.assert_close(out, x.sum(dim=1), rtol=1e-4, atol=1e-3)
    print(f"ok autotuned: {x.shape[0]} rows of {x.shape[1]} on {device.type}")
    return {"row_sum": out}


if __name__ == "__main__":
    main()
