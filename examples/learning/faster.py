"""Two kernels that sum columns: each program sums one column, or a tile of adjacent columns.

`python faster.py slow` or `fast`; see docs/tutorials/faster.md.
"""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def one_column(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + column, mask=row < rows, other=0.0)
    tl.store(out_ptr + column, tl.sum(total, axis=0))


@triton.autotune(
    [
        triton.Config({"ROWS": rows, "COLUMNS": columns}, num_warps=warps)
        for rows, columns, warps in ((8, 32, 4), (16, 64, 4), (64, 64, 4), (32, 128, 8))
    ],
    key=["rows", "columns"],
)
@triton.jit
def many_columns(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        total += tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + column, tl.sum(total, axis=0), mask=inside)


def main() -> None:
    x = torch.rand(4096, 4096, device=triton.runtime.driver.active.get_active_torch_device())
    rows, columns = x.shape
    out = torch.empty(columns, device=x.device)
    if sys.argv[1:] == ["slow"]:
        one_column[(columns,)](x, out, rows, columns, BLOCK=256)
    else:
        many_columns[lambda meta: (triton.cdiv(columns, meta["COLUMNS"]),)](x, out, rows, columns)
    torch.testing.assert_close(out, x.sum(dim=0))


if __name__ == "__main__":
    main()
