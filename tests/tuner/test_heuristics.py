"""Predefined rules for block sizes keep their guarantees for all sizes."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.tuner import heuristics
from ttools.tuner.heuristics import elementwise_block, group_size_by_intensity, matmul_blocks

SIZES = st.integers(1, 1 << 20)
ITEMS = st.sampled_from([1, 2, 4, 8])


def is_power(number: int) -> bool:
    return number > 0 and bin(number).count("1") == 1


@given(st.integers(0, 1 << 30), st.integers(0, 10), st.integers(0, 5))
def test_elementwise_blocks(elements: int, low: int, more: int) -> None:
    least, most = 1 << low, 1 << (low + more)
    block = elementwise_block(elements, least=least, most=most)
    right = [
        size
        for size in (1 << n for n in range(20))
        if least <= size <= most and elements >= size * heuristics.WANTED_PROGRAMS
    ]
    assert block == max(right, default=least)


@pytest.mark.parametrize(
    ("elements", "block"),
    [(0, 128), (1000, 128), (1 << 17, 256), (1 << 20, 2048), (1 << 30, 8192)],
)
def test_elementwise_blocks_of_common_sizes(elements: int, block: int) -> None:
    assert elementwise_block(elements) == block


@settings(max_examples=200)
@given(SIZES, SIZES, SIZES, ITEMS)
def test_matmul_blocks_can_be_launched(m: int, n: int, k: int, itemsize: int) -> None:
    blocks = matmul_blocks(m, n, k, itemsize=itemsize)
    for block, size in zip(blocks[:3], (m, n, k), strict=True):
        assert is_power(block)
        assert 16 <= block <= max(16, 2 * size - 1)
    stage = (blocks.block_m + blocks.block_n) * blocks.block_k * itemsize
    assert blocks.num_stages == 1 or blocks.num_stages * stage <= heuristics.TILE_BYTES
    assert 1 <= blocks.num_stages <= 4
    assert blocks.block_m * blocks.block_n // (32 * blocks.num_warps) <= 128
    turned = matmul_blocks(n, m, k, itemsize=itemsize)
    if m != n:
        assert (turned.block_m, turned.block_n) == (blocks.block_n, blocks.block_m)


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        ((8192, 8192, 8192), (256, 128, 64, 8, 2)),
        ((4096, 4096, 4096), (256, 128, 64, 8, 2)),
        ((1024, 1024, 1024), (128, 64, 64, 4, 4)),
        ((16, 4096, 4096), (16, 32, 64, 2, 4)),
        ((1, 1, 1), (16, 16, 16, 2, 1)),
    ],
)
def test_matmul_blocks_of_common_shapes(shape: tuple[int, ...], blocks: tuple[int, ...]) -> None:
    assert tuple(matmul_blocks(*shape)) == blocks


@given(SIZES, SIZES, SIZES, st.sampled_from([16, 64, 256]), st.sampled_from([16, 64, 256]))
def test_groups_have_at_most_the_number_of_rows(m: int, n: int, k: int, bm: int, bn: int) -> None:
    group = group_size_by_intensity(m, n, k, block_m=bm, block_n=bn)
    assert is_power(group)
    assert group <= min(16, -(-m // bm))
    if n <= bn:
        assert group == 1


def test_less_intense_tiles_are_grouped_more() -> None:
    groups = [
        group_size_by_intensity(8192, 8192, 8192, block_m=b, block_n=b) for b in (32, 128, 256)
    ]
    assert groups == [16, 8, 4]
    assert group_size_by_intensity(512, 512, 512, block_m=64, block_n=64) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: elementwise_block(-1), "elements=-1: must not be negative"),
        (lambda: elementwise_block(5, least=100), "least=100: must be a power of two"),
        (lambda: elementwise_block(5, least=64, most=32), "least=64 is more than most=32"),
        (lambda: matmul_blocks(0, 1, 1), "m=0: must be positive"),
        (lambda: group_size_by_intensity(1, 1, 1, block_m=0, block_n=1), "block_m=0"),
    ],
)
def test_invalid_sizes(call, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()


def test_a_kernel_uses_the_block_of_a_rule() -> None:
    @triton.heuristics({"BLOCK": lambda args: elementwise_block(args["n"])})
    @triton.jit
    def negate_kernel(x_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offs, -tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

    x = torch.ones(5000)
    negate_kernel[lambda meta: (triton.cdiv(5000, meta["BLOCK"]),)](x, 5000)
    assert bool((x == -1).all())
