"""Tests of tensor descriptors from the host and from the kernel: all their operations."""

from __future__ import annotations

import kernel_text
import numpy as np
import pytest
import torch
from number_formats import BF16, E5M2, F16, F32, I32, U8, Format, assert_same, to_numpy, to_torch
from triton.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.usefixtures("schedule")

HOST = """
@triton.jit
def kernel(x, out, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M
    column = tl.program_id(1) * N
    out.store([row, column], x.load([row, column]))
"""


@pytest.mark.smoke
@pytest.mark.parametrize("format", [F32, F16, BF16, E5M2, I32, U8], ids=str)
@pytest.mark.parametrize("shape", [(32, 64), (33, 80), (5, 16)], ids=str)
def test_copy_through_host_descriptors(shape: tuple[int, int], format: Format) -> None:
    x = (np.arange(np.prod(shape)) % 97).reshape(shape).astype(np.float32).astype(format.numpy)
    out = np.zeros_like(x)
    source, target = to_torch(x), to_torch(out)
    block = [16, 32]
    descriptors = [TensorDescriptor.from_tensor(t, block) for t in (source, target)]
    grid = (-(-shape[0] // 16), -(-shape[1] // 32))
    kernel_text.kernel(HOST)[grid](*descriptors, M=16, N=32)
    assert_same(to_numpy(target), x)


DEVICE = """
@triton.jit
def kernel(x_ptr, out_ptr, M, N, stride, row, column):
    x = tl.make_tensor_descriptor(
        x_ptr, shape=[M, N], strides=[stride, 1], block_shape=[8, 16], padding_option="{padding}"
    )
    tile = x.load([row, column])
    offsets = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out_ptr + offsets, tile)
    x.store([row + 8, column], tile * 0 + 7)
"""


@pytest.mark.parametrize(
    ("row", "column"), [(0, 0), (3, 4), (15, 28), (-3, 0), (0, -8), (17, 36), (40, 88)]
)
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_blocks_that_reach_past_the_edges(row: int, column: int, padding: str) -> None:
    storage = torch.arange(40.0 * 64).reshape(40, 64)
    x, untouched = storage[:20, :40], storage.clone()
    out = torch.full((8, 16), -1.0)
    kernel = kernel_text.kernel(DEVICE.format(padding=padding))
    kernel[(1,)](x, out, 20, 40, 64, row, column)
    expected = torch.full((8, 16), 0.0 if padding == "zero" else float("nan"))
    for i in range(8):
        for j in range(16):
            if 0 <= row + i < 20 and 0 <= column + j < 40:
                expected[i, j] = untouched[row + i, column + j]
    np.testing.assert_array_equal(out, expected)
    stored = untouched.clone()
    for i in range(8):
        for j in range(16):
            if 0 <= row + 8 + i < 20 and 0 <= column + j < 40:
                stored[row + 8 + i, column + j] = float("nan") if expected[i, j].isnan() else 7
    np.testing.assert_array_equal(storage, stored)


def test_three_dimensions_and_a_matrix_product() -> None:
    text = """
    @triton.jit
    def kernel(a, b, c, K, TILE: tl.constexpr):
        batch = tl.program_id(0)
        acc = tl.zeros((TILE, TILE), tl.float32)
        for k in range(0, K, TILE):
            left = a.load([batch, 0, k]).reshape(TILE, TILE)
            right = b.load([batch, k, 0]).reshape(TILE, TILE)
            acc = tl.dot(left, right, acc, input_precision="ieee")
        c.store([batch, 0, 0], acc.reshape(1, TILE, TILE))
    """
    torch.manual_seed(0)
    a = torch.randint(-4, 5, (3, 16, 40)).float()
    b = torch.randint(-4, 5, (3, 40, 12)).float()
    c = torch.zeros(3, 16, 12)
    block = [1, 16, 16]
    descriptors = [TensorDescriptor.from_tensor(t, block) for t in (a, b, c)]
    kernel_text.kernel(text)[(3,)](*descriptors, 40, TILE=16)
    assert torch.equal(c, a @ b)


@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor"])
def test_reductions_into_memory(kind: str) -> None:
    text = f"""
    @triton.jit
    def kernel(x_ptr, out_ptr, M, N):
        x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [8, 16])
        out = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [8, 16])
        row = tl.program_id(0) * 8
        for column in range(0, N, 16):
            out.atomic_{kind}([row, column], x.load([row, column]))
    """
    rng = np.random.default_rng(0)
    x, out = (rng.integers(0, 1000, (12, 20)).astype(np.int32) for _ in range(2))
    function = {
        "add": np.add, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[kind]  # fmt: skip
    target = torch.from_numpy(out.copy())
    kernel_text.kernel(text)[(2,)](torch.from_numpy(x), target, 12, 20)
    np.testing.assert_array_equal(target, function(x, out))


def test_gather_and_scatter_of_rows() -> None:
    text = """
    @triton.jit
    def kernel(x, out, rows_ptr, column):
        rows = tl.load(rows_ptr + tl.arange(0, 8))
        out.scatter(x.gather(rows, column), 15 - tl.arange(0, 8), 0)
    """
    x, out = torch.arange(20.0 * 32).reshape(20, 32), torch.zeros(16, 16)
    rows = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6], dtype=torch.int32)
    descriptors = [TensorDescriptor.from_tensor(t, [1, 16]) for t in (x, out)]
    kernel_text.kernel(text)[(1,)](*descriptors, rows, 8)
    expected = torch.zeros(16, 16)
    expected[15 - torch.arange(8)] = x[rows.long(), 8:24]
    assert torch.equal(out, expected)
