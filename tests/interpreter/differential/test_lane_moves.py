"""Tests of all pairs of operations that move lanes, on every axis and on tiles down to one element.

Two moves in sequence are the difficult case, because coordinates are split and combined again.
Results are stored in row-major and column-major order.
"""

from __future__ import annotations

import kernel_text
import numpy as np
import pytest
import torch
from number_formats import Array

#: Moves of a tile of rank 2 in Triton and in NumPy; M and N are its extents.
MOVES = {
    "flip(0)": ("tl.flip(x, 0)", lambda x: x[::-1]),
    "flip(1)": ("tl.flip(x, 1)", lambda x: x[:, ::-1]),
    "permute": ("tl.permute(x, [1, 0])", lambda x: x.T),
    "reshape": ("tl.reshape(x, [N, M])", lambda x: x.reshape(x.shape[::-1])),
    "halves": (
        "tl.reshape(tl.permute(tl.reshape(x, [M, N // 2, 2]), [2, 0, 1]), [2 * M, N // 2])",
        lambda x: x.reshape(len(x), -1, 2).transpose(2, 0, 1).reshape(2 * len(x), -1),
    ),
    "rows swapped": (
        "tl.reshape(tl.permute(tl.reshape(x, [2, M // 2, N]), [1, 0, 2]), [M, N])",
        lambda x: x.reshape(2, -1, x.shape[1]).swapaxes(0, 1).reshape(x.shape),
    ),
    "split, joined": (
        "_swapped(tl.reshape(x, [M, N // 2, 2]), M, N)",
        lambda x: x.reshape(len(x), -1, 2)[:, :, ::-1].reshape(x.shape),
    ),
    "interleaved": (
        "_interleaved(tl.reshape(x, [M, N // 2, 2]), M, N)",
        lambda x: np.stack([x[:, ::2] + 1, x[:, 1::2]], 2).reshape(x.shape),
    ),
    "gathered(0)": (
        "tl.gather(x, (M - 1 - tl.arange(0, M))[:, None] + tl.zeros([M, N], tl.int32), 0)",
        lambda x: x[::-1],
    ),
    "scanned": ("tl.cumsum(x, 0, reverse=True)", lambda x: x[::-1].cumsum(0, dtype=x.dtype)[::-1]),
}  # fmt: skip

_TEXT = """\
@triton.jit
def _swapped(x, M: tl.constexpr, N: tl.constexpr):
    a, b = tl.split(x)
    return tl.reshape(tl.join(b, a), [M, N])

@triton.jit
def _interleaved(x, M: tl.constexpr, N: tl.constexpr):
    a, b = tl.split(x)
    return tl.interleave(a + 1, b)

@triton.jit
def first(x, M: tl.constexpr, N: tl.constexpr):
    return {first}
"""
#: Text of a second move. Each pair loads the tile again (Triton cannot merge the loads because of
#: the stores), so that each move has one use.
_SECOND = """
@triton.jit
def second_{number}(x, M: tl.constexpr, N: tl.constexpr):
    return {second}

@triton.jit
def pair_{number}(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    y = first(x, M, N)
    z = second_{number}(y, y.shape[0], y.shape[1])
    rows, columns = tl.arange(0, z.shape[0])[:, None], tl.arange(0, z.shape[1])[None, :]
    tl.store(out_ptr + rows * z.shape[1] + columns, z)
    tl.store(out_ptr + M * N + columns * z.shape[0] + rows, z)
"""
_KERNEL = """
@triton.jit
def kernel(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
"""

SHAPES = [(2, 2), (4, 4), (2, 16), (16, 2), (8, 32)]


def _expected(names: tuple[str, str], x: Array) -> Array:
    for name in names:
        x = MOVES[name][1](x)
    return np.concatenate([x.ravel(), x.T.ravel()])


def _seconds(first: str, shape: tuple[int, int]) -> list[str]:
    """Return the moves that can follow a move; a single column cannot be halved again."""
    halved = MOVES if shape in SHAPES[:3] else ()
    if first == "halves":
        return ["permute"] if halved and shape[1] == 2 else [*halved]
    return [second for second in MOVES if halved or second != "halves"]


CASES = [(first, *shape) for first in MOVES for shape in SHAPES if _seconds(first, shape)]


@pytest.mark.parametrize(
    ("first", "m", "n"),
    [*CASES[::2], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[1::2])],
)
def test_moves_after_moves(first: str, m: int, n: int, native: None) -> None:
    seconds = _seconds(first, (m, n))
    text = _TEXT.format(first=MOVES[first][0]) + "".join(
        _SECOND.format(number=number, second=MOVES[second][0])
        for number, second in enumerate(seconds)
    )
    calls = [f"    pair_{i}(x_ptr, out_ptr + {i * 2 * m * n}, M, N)\n" for i in range(len(seconds))]
    x = np.arange(m * n, dtype=np.float32).reshape(m, n)
    out = torch.full((len(seconds), 2 * m * n), -1.0)
    kernel_text.module(text + _KERNEL + "".join(calls)).kernel[1,](torch.from_numpy(x), out, m, n)
    for second, got in zip(seconds, out.numpy(), strict=True):
        assert np.array_equal(got, _expected((first, second), x)), second
