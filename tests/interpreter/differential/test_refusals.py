"""Tests of unsupported kernels, which are errors at their line, and of similar supported ones."""

from __future__ import annotations

from pathlib import Path

import kernel_text
import numpy as np
import pytest
import torch
import triton

from ttools.core.errors import InvalidKernelError, UnsupportedError

pytestmark = pytest.mark.usefixtures("schedule")

DIRECT = """
@triton.jit(noinline=True)
def factorial(n):
    product = 1
    if n > 1:
        product = n * factorial(n - 1)
    return product

@triton.jit
def kernel(out_ptr, n):
    tl.store(out_ptr, factorial(n))
"""

MUTUAL = """
@triton.jit
def even(n):
    answer = 1
    if n > 0:
        answer = odd(n - 1)
    return answer

@triton.jit
def odd(n):
    answer = 0
    if n > 0:
        answer = even(n - 1)
    return answer

@triton.jit
def kernel(out_ptr, n):
    tl.store(out_ptr, even(n))
"""


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        (DIRECT, "factorial", "product = n * factorial(n - 1)"),
        (MUTUAL, "even", "answer = odd(n - 1)"),
    ],
)
def test_recursion_is_an_error_at_its_line(text: str, name: str, line: str) -> None:
    kernel = kernel_text.kernel(text)
    with pytest.raises(InvalidKernelError, match=f"recursion: .* back to `{name}`") as raised:
        kernel[(1,)](torch.zeros(1, dtype=torch.int32), 5)
    location = raised.value.location
    assert location is not None
    source = Path(kernel.fn.__code__.co_filename).read_text(encoding="utf-8")
    assert source.splitlines()[location.line - 1].strip() == line


def test_recursion_that_ends_at_compile_time_is_supported() -> None:
    text = """
    @triton.jit
    def power(x, N: tl.constexpr):
        if N == 0:
            return 1
        else:
            return x * power(x, N - 1)

    @triton.jit
    def kernel(out_ptr, x, N: tl.constexpr):
        tl.store(out_ptr, power(x, N))
    """
    out = torch.zeros(1, dtype=torch.int32)
    kernel_text.kernel(text)[(1,)](out, 3, N=5)
    assert out.item() == 243


def test_gluon_kernels_are_errors() -> None:
    gluon = pytest.importorskip(
        "triton.experimental.gluon", reason="this version of Triton has no Gluon"
    )
    kernel = kernel_text.kernel("@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, 1.0)\n")
    with pytest.raises(UnsupportedError, match="a Gluon kernel") as raised:
        gluon.jit(kernel.fn)[(1,)](torch.zeros(1))
    assert "@triton.jit" in str(raised.value.help)


WARP_SPECIALISED = """
@triton.jit
def kernel(a_ptr, b_ptr, out_ptr, M, N, K, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK, BLOCK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK, BLOCK])
    for tile in tl.range(tl.program_id(0), M // BLOCK * (N // BLOCK), tl.num_programs(0),
                         flatten=True, warp_specialize=True):
        row, column = tile // (N // BLOCK) * BLOCK, tile % (N // BLOCK) * BLOCK
        sums = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in tl.range(0, K, BLOCK, warp_specialize=True, num_stages=3):
            sums = tl.dot(a.load([row, k]), b.load([k, column]), sums, input_precision="ieee")
        at = (row + lanes)[:, None] * N + (column + lanes)[None, :]
        tl.store(out_ptr + at, sums)
"""


@pytest.mark.parametrize("programs", [1, 3, 8])
def test_warp_specialised_loops_compute_the_same(programs: int) -> None:
    a, b = torch.randn(64, 48), torch.randn(48, 32)
    out = torch.zeros(64, 32)
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))
    kernel = kernel_text.kernel(WARP_SPECIALISED)
    kernel[(programs,)](a, b, out, 64, 32, 48, BLOCK=16)
    np.testing.assert_allclose(out, a.double() @ b.double(), rtol=1e-4, atol=1e-4)
