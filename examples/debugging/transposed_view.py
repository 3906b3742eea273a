"""The sums of a matrix's rows, with a planted bug: the kernel supports one layout only.

docs/tutorials/planted_bugs.md shows how to find it step by step.
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    offsets = row * n_columns + columns
    x = tl.load(x_ptr + offsets, mask=columns < n_columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


def row_sums(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty(rows)
    row_sum_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out


def main() -> int:
    table = torch.arange(24.0).reshape(4, 6)
    table[:, 5] = -100.0  # the last column is padding
    features = table[:, :5].t()  # 5 features of 4 samples
    sums = row_sums(features)
    wrong = int((~torch.isclose(sums, features.sum(dim=1))).sum())
    print(f"{wrong} of {len(sums)} sums are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
