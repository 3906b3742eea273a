"""Views and strides: one block of memory, viewed in several shapes.

The page docs/tutorials/strides.md explains it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, rows, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    row = tl.arange(0, BLOCK)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * stride_row + column * stride_column, mask=inside)
    tl.store(out_ptr + row * columns + column, x, mask=inside)


def copy(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty(rows, columns)
    copy_kernel[(1,)](x, out, rows, columns, x.stride(0), x.stride(1), BLOCK=8)
    return out


def main() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    repeated = x[:1].expand(3, 4)
    views = [("x", x), ("x.t()", x.t()), ("x[:, ::2]", x[:, ::2]), ("repeated", repeated)]
    for name, view in views:
        assert torch.equal(copy(view), view)
        print(name, tuple(view.shape), view.stride())


if __name__ == "__main__":
    main()
