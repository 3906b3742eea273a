"""A kernel that respects strides writes through a view into the original tensor.

A 4x6 tensor is split into a 4x2 and a 4x4 view. Both views keep the original's row stride of 6 and
share its memory; the second view starts at the third column. Adding one to the views must change
the original; adding one to contiguous copies of the views must not.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_one_kernel(
    x_ptr, rows, columns, row_stride, column_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    r = tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLUMNS)[None, :]
    # The block is larger than either view. The masked lanes lie in the same storage, often inside
    # the other view: without the mask, the kernel would change those elements twice.
    inside = (r < rows) & (c < columns)
    pointers = x_ptr + r * row_stride + c * column_stride
    tl.store(pointers, tl.load(pointers, mask=inside) + 1, mask=inside)


def add_one(x: torch.Tensor) -> None:
    """Add one to every element of a matrix of at most 8x8, in place, whatever its strides."""
    add_one_kernel[(1,)](x, *x.shape, *x.stride(), ROWS=8, COLUMNS=8)


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    before = torch.arange(24.0, device=device).reshape(4, 6)

    original = before.clone()
    left, right = original.split([2, 4], dim=1)
    assert not left.is_contiguous()
    assert not right.is_contiguous()
    add_one(left)
    torch.testing.assert_close(original[:, :2], before[:, :2] + 1)
    torch.testing.assert_close(original[:, 2:], before[:, 2:])
    add_one(right)
    torch.testing.assert_close(original, before + 1)

    untouched = before.clone()
    copies = [view.contiguous() for view in untouched.split([2, 4], dim=1)]
    for copy in copies:
        add_one(copy)
    torch.testing.assert_close(torch.cat(copies, dim=1), before + 1)
    torch.testing.assert_close(untouched, before)

    # A transposed view only swaps the strides.
    add_one(original.T)
    torch.testing.assert_close(original, before + 2)
    print(f"ok strided_views: views wrote through, copies did not, on {device.type}")
    return {"original": original, "untouched": untouched}


if __name__ == "__main__":
    main()
