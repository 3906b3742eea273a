"""Solutions of the Triton Puzzles, written independently.

The puzzles are exercises from adding a constant to attention and a product of 4-bit weights;
https://github.com/srush/Triton-Puzzles states them. Only the statements are taken from there.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

import torch
import triton
import triton.language as tl

pytestmark = pytest.mark.usefixtures("native")


@triton.jit
def add_ten(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, tl.load(x_ptr + lanes) + 10.0)


@triton.jit
def add_ten_in_blocks(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lanes < n
    tl.store(z_ptr + lanes, tl.load(x_ptr + lanes, inside) + 10.0, inside)


@triton.jit
def combine_outer(
    x_ptr, y_ptr, z_ptr, n, m, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, MULTIPLY: tl.constexpr
):
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    x = tl.load(x_ptr + columns, columns < n, other=0.0)[None, :]
    y = tl.load(y_ptr + rows, rows < m, other=0.0)[:, None]
    z = tl.maximum(x * y, 0.0) if MULTIPLY else x + y
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(z_ptr + rows[:, None] * n + columns[None, :], z, inside)


@triton.jit
def outer_relu_backward(
    x_ptr, y_ptr, dz_ptr, dx_ptr, n, m, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr
):
    """Compute the gradient by `x` of `relu(x * y[:, None])`; its shape is that of `x`."""
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    inside = (columns < n) & (rows < m)
    at = rows * n + columns
    x = tl.load(x_ptr + at, inside, other=0.0)
    y = tl.load(y_ptr + rows, rows < m, other=0.0)
    dz = tl.load(dz_ptr + at, inside, other=0.0)
    tl.store(dx_ptr + at, tl.where(x * y > 0, dz * y, 0.0), inside)


@triton.jit
def sum_rows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + lanes, lanes < columns, other=0.0)
    tl.store(z_ptr + row, tl.sum(total, axis=0))


@triton.jit
def softmax_in_two_passes(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    """Compute a softmax with a running maximum and a rescaled sum, by powers of two."""
    row = tl.program_id(0)
    highest = float("-inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        inside = lanes < columns
        x = tl.load(x_ptr + row * columns + lanes, inside, other=float("-inf")) * 1.44269504
        higher = tl.maximum(highest, tl.max(x, axis=0))
        total = total * tl.exp2(highest - higher) + tl.sum(tl.exp2(x - higher), axis=0)
        highest = higher
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        inside = lanes < columns
        x = tl.load(x_ptr + row * columns + lanes, inside, other=float("-inf")) * 1.44269504
        tl.store(z_ptr + row * columns + lanes, tl.exp2(x - highest) / total, inside)


@triton.jit
def scalar_attention(q_ptr, k_ptr, v_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """Compute attention on scalars in one pass, with one query per program."""
    query = tl.load(q_ptr + tl.program_id(0))
    highest = float("-inf")
    total = 0.0
    mixed = 0.0
    for start in range(0, n, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        inside = lanes < n
        scores = tl.where(inside, query * tl.load(k_ptr + lanes, inside), float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=0))
        weights = tl.exp(scores - higher)
        keep = tl.exp(highest - higher)
        total = total * keep + tl.sum(weights, axis=0)
        values = tl.load(v_ptr + lanes, inside, other=0.0)
        mixed = mixed * keep + tl.sum(weights * values, axis=0)
        highest = higher
    tl.store(z_ptr + tl.program_id(0), mixed / total)


@triton.jit
def correlate(image_ptr, kernel_ptr, z_ptr, height, width, SIDE: tl.constexpr):
    """Convolve one image per program; the first kernel element is at the computed pixel."""
    image = tl.program_id(0) * height * width
    steps = tl.arange(0, SIDE)
    taps = tl.load(kernel_ptr + steps[:, None] * SIDE + steps[None, :])
    for row in range(height):
        for column in range(width):
            rows = row + steps[:, None]
            columns = column + steps[None, :]
            inside = (rows < height) & (columns < width)
            window = tl.load(image_ptr + image + rows * width + columns, inside, other=0.0)
            tl.store(z_ptr + image + row * width + column, tl.sum(window * taps))


@triton.jit
def multiply(x_ptr, y_ptr, z_ptr, m, n, k, BLOCK: tl.constexpr):
    """Multiply a matrix for each index of the third grid axis."""
    batch = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        across = start + tl.arange(0, BLOCK)[None, :]
        down = start + tl.arange(0, BLOCK)[:, None]
        x = tl.load(x_ptr + batch * m * k + rows * k + across, (rows < m) & (across < k), other=0.0)
        y = tl.load(
            y_ptr + batch * k * n + down * n + columns, (down < k) & (columns < n), other=0.0
        )
        total += tl.dot(x, y, input_precision="ieee")
    tl.store(z_ptr + batch * m * n + rows * n + columns, total, (rows < m) & (columns < n))


@triton.jit
def multiply_four_bits(
    scale_ptr,
    offset_ptr,
    weight_ptr,
    x_ptr,
    z_ptr,
    n,
    GROUPS: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute `(scale * (weight - offset)) @ x` for eight 4-bit numbers per integer, lowest first.

    A row of weights consists of GROUPS groups of GROUP numbers. Each group has one scale; the
    offsets of a row are packed like its weights.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    inner = tl.arange(0, GROUP)
    for group in range(GROUPS):
        scale = tl.load(scale_ptr + rows * GROUPS + group)
        offset = tl.load(offset_ptr + rows * (GROUPS // 8) + group // 8) >> (group % 8 * 4) & 15
        along = group * GROUP + inner
        packed = tl.load(weight_ptr + rows[:, None] * (GROUPS * GROUP // 8) + along[None, :] // 8)
        number = packed >> (along % 8 * 4)[None, :] & 15
        weight = scale[:, None] * (number - offset[:, None]).to(tl.float32)
        x = tl.load(
            x_ptr + along[:, None] * n + columns[None, :], (columns < n)[None, :], other=0.0
        )
        total += tl.dot(weight, x, input_precision="ieee")
    tl.store(z_ptr + rows[:, None] * n + columns[None, :], total, (columns < n)[None, :])


def close(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def test_constant_add() -> None:
    x, z = torch.rand(32), torch.empty(32)
    add_ten[(1,)](x, z, BLOCK=32)
    close(z, x + 10)


def test_constant_add_in_blocks() -> None:
    x, z = torch.rand(200), torch.empty(200)
    add_ten_in_blocks[(7,)](x, z, 200, BLOCK=32)
    close(z, x + 10)


@pytest.mark.parametrize(("n", "m"), [(32, 32), (100, 90)])
@pytest.mark.parametrize("multiply_them", [False, True], ids=["sum", "relu of product"])
def test_outer(n: int, m: int, multiply_them: bool) -> None:
    x, y, z = torch.randn(n), torch.randn(m), torch.empty(m, n)
    grid = (triton.cdiv(n, 32), triton.cdiv(m, 32))
    combine_outer[grid](x, y, z, n, m, BLOCK_N=32, BLOCK_M=32, MULTIPLY=multiply_them)
    close(z, torch.relu(x * y[:, None]) if multiply_them else x + y[:, None])


def test_backward_of_outer_product() -> None:
    x = torch.randn(90, 100, requires_grad=True)
    y, dz, dx = torch.randn(90), torch.randn(90, 100), torch.empty(90, 100)
    outer_relu_backward[(4, 3)](x.detach(), y, dz, dx, 100, 90, BLOCK_N=32, BLOCK_M=32)
    torch.relu(x * y[:, None]).backward(dz)
    close(dx, x.grad)


def test_long_sum() -> None:
    x, z = torch.rand(4, 200), torch.empty(4)
    sum_rows[(4,)](x, z, 200, BLOCK=32)
    close(z, x.sum(1))


def test_long_softmax() -> None:
    x, z = torch.randn(4, 200), torch.empty(4, 200)
    softmax_in_two_passes[(4,)](x, z, 200, BLOCK=32)
    close(z, x.softmax(1))


def test_attention_of_scalars() -> None:
    q, k, v = torch.randn(3, 200)
    z = torch.empty(200)
    scalar_attention[(200,)](q, k, v, z, 200, BLOCK=64)
    close(z, torch.softmax(q[:, None] * k, 1) @ v)


def test_convolution() -> None:
    images, kernel, z = torch.randn(4, 8, 8), torch.randn(4, 4), torch.empty(4, 8, 8)
    correlate[(4,)](images, kernel, z, 8, 8, SIDE=4)
    padded = torch.nn.functional.pad(images[:, None], (0, 3, 0, 3))
    close(z, torch.nn.functional.conv2d(padded, kernel[None, None])[:, 0])


@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (50, 40, 70)])
def test_matrix_product(m: int, n: int, k: int) -> None:
    x, y, z = torch.randn(4, m, k), torch.randn(4, k, n), torch.empty(4, m, n)
    multiply[(triton.cdiv(m, 16), triton.cdiv(n, 16), 4)](x, y, z, m, n, k, BLOCK=16)
    close(z, x @ y)


def test_product_of_four_bit_weights() -> None:
    rows, groups, group, n = 32, 8, 16, 40
    scale, x = torch.rand(rows, groups), torch.randn(groups * group, n)
    weight = torch.randint(-(2**31), 2**31, (rows, groups * group // 8), dtype=torch.int32)
    offset = torch.randint(-(2**31), 2**31, (rows, groups // 8), dtype=torch.int32)
    z = torch.empty(rows, n)
    multiply_four_bits[(2, 3)](
        scale, offset, weight, x, z, n, GROUPS=groups, GROUP=group, ROWS=16, BLOCK=16
    )

    def unpack(packed: torch.Tensor) -> torch.Tensor:
        shifts = torch.arange(0, 32, 4, dtype=torch.int32)
        return (packed[..., None] >> shifts & 15).flatten(1)

    numbers = unpack(weight) - unpack(offset).repeat_interleave(group, 1)
    close(z, (scale.repeat_interleave(group, 1) * numbers) @ x)
