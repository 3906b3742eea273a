"""Tests of loops that carry tiles whose next values could overwrite their own operands."""

from __future__ import annotations

import kernel_text
import pytest
import torch

A = (torch.arange(64, dtype=torch.int32) * 37 + 11) % 97 - 48
B = (torch.arange(64, dtype=torch.int32) * 53 + 7) % 89 - 44

_SUM_AND_DIFFERENCE = (
    "tl.inline_asm_elementwise('add.s32 $0, $2, $3; sub.s32 $1, $2, $3;', '=r,=r,r,r', [a, b],"
    " dtype=(tl.int32, tl.int32), is_pure={pure}, pack=1)"
)
#: Statements that set the next `a` and `b` from an operation with two results, `s` and `d`.
TWO_RESULTS = {
    "a, b = s, d": lambda a, b: (a + b, a - b),
    "a, b = d, s": lambda a, b: (a - b, a + b),
    "a, b = s, d ^ s": lambda a, b: (a + b, (a - b) ^ (a + b)),
    "a, b = d, b + s": lambda a, b: (a - b, b + (a + b)),
    "a = s; tl.store(out_ptr + 128 + i, d)": lambda a, b: (a + b, b),
}

_TEXT = """\
@triton.jit
def kernel(a_ptr, b_ptr, out_ptr, n):
    i = tl.arange(0, 64)
    a = tl.load(a_ptr + i)
    b = tl.load(b_ptr + i)
    for _ in range(n):
        s, d = {operation}
        {following}
    tl.store(out_ptr + i, a)
    tl.store(out_ptr + 64 + i, b)
"""


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("following", TWO_RESULTS)
def test_two_results_of_one_operation(following: str, pure: bool, schedule: str) -> None:
    """Check a second result whose operands the first result would overwrite."""
    operation = _SUM_AND_DIFFERENCE.format(pure=pure)
    kernel = kernel_text.kernel(_TEXT.format(operation=operation, following=following))
    out = torch.zeros(192, dtype=torch.int32)
    kernel[1,](A, B, out, 3)
    a, b = A, B
    for _ in range(3):
        a, b = TWO_RESULTS[following](a, b)
    assert torch.equal(out[:128], torch.cat([a, b]))


def test_a_scalar_of_a_tile_between_fused_tiles(schedule: str) -> None:
    text = """
    @triton.jit
    def costly(x):
        return tl.exp(x) * tl.sin(x) + tl.log(x)

    @triton.jit
    def kernel(x_ptr, out_ptr):
        one = tl.arange(0, 1)
        a = costly(tl.load(x_ptr + one))
        b = costly(a + a.item()) + a
        c = costly(b + b.item()) + b + a
        tl.store(out_ptr + one, a + b + c)
        tl.store(out_ptr + 1 + one, c)
    """
    x, out = torch.tensor([1.3]), torch.zeros(2)
    kernel_text.kernel(text)[1,](x, out)

    def costly(x: torch.Tensor) -> torch.Tensor:
        return x.exp() * x.sin() + x.log()

    a = costly(x)
    b = costly(2 * a) + a
    c = costly(2 * b) + b + a
    torch.testing.assert_close(out, torch.cat([a + b + c, c]))
