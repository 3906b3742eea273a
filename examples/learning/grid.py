"""Shows `kernel[grid]`: one function, which runs once for each position of a grid.

The page docs/tutorials/grids.md explains it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def where_am_i_kernel(out_ptr, columns):
    row = tl.program_id(0)
    column = tl.program_id(1)
    tl.store(out_ptr + row * columns + column, row * 10 + column)


def main() -> None:
    out = torch.zeros(2, 3, dtype=torch.int32)
    launch = where_am_i_kernel[(2, 3)]  # nothing has run yet
    assert out.sum() == 0
    launch(out, 3)  # six programs run now
    print(out.tolist())


if __name__ == "__main__":
    main()
