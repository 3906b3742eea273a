"""Unwritten elements of one or two bytes among written ones."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize
from ttools.sanitizer.memory.pattern import Grain, grain_of, holding, new_word

SMALL = [
    torch.bool, torch.int8, torch.uint8, torch.float8_e5m2, torch.int16, torch.float16,
    torch.bfloat16,
]  # fmt: skip


@triton.jit
def copied_rows(x_ptr, o_ptr, n, stored, B: tl.constexpr):
    row = tl.program_id(0) * n
    c = tl.arange(0, B)
    x = tl.load(x_ptr + row + c, mask=c < n)
    tl.store(o_ptr + row + c, x, mask=c < stored)


@triton.jit
def rows_summed(x_ptr, o_ptr, n, B: tl.constexpr):
    c = tl.arange(0, B)
    x = tl.load(x_ptr + tl.program_id(0) * n + c, mask=c < n)
    tl.store(o_ptr + tl.program_id(0), tl.sum(tl.where(c < n, x.to(tl.float32), 0), 0))


@pytest.mark.parametrize(
    ("dtype", "columns"),
    [(dtype, 11) for dtype in SMALL] + [(torch.bool, 12), (torch.half, 12), (torch.bfloat16, 12)],
)
def test_a_column_is_left_out(dtype: torch.dtype, columns: int) -> None:
    x = torch.ones(7, columns).to(dtype)
    sums = torch.zeros(7)
    for stored in (columns - 1, columns):
        with sanitize() as report:
            out = torch.empty(7, columns, dtype=dtype)
            copied_rows[(7,)](x, out, columns, stored, B=16)
            out.clone()
        assert len(report.findings) == columns - stored
        for finding in report.findings:
            assert finding.message.startswith(f"7 of {7 * columns} elements of `o_ptr`")
        with sanitize() as report:
            out = torch.empty(7, columns, dtype=dtype)
            copied_rows[(7,)](x, out, columns, stored, B=16)
            rows_summed[(7,)](out, sums, columns, B=16)
        assert [f.kind for f in report.findings] == ["uninit_read"] * (columns - stored)


@triton.jit
def flag_if_any(x_ptr, o_ptr, B: tl.constexpr):
    if tl.max(tl.load(x_ptr + tl.arange(0, B)), 0) > 0:
        tl.store(o_ptr, 1)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.float16, torch.bfloat16])
def test_a_flag_is_a_whole_storage(dtype: torch.dtype) -> None:
    for number in (0, 1):
        with sanitize() as report:
            flag = torch.empty((), dtype=dtype)
            flag_if_any[(1,)](torch.full((16,), number), flag, B=16)
            flag.item()
        assert [f.kind for f in report.findings] == ["unwritten_output"] * (1 - number)


@pytest.mark.parametrize("grain", [Grain.BYTES, Grain.PAIRS])
def test_random_data_rarely_looks_unwritten(grain: Grain) -> None:
    random = np.random.default_rng(0)
    for size in (1 << 17, 1 << 20):
        memory = random.integers(0, 256, size).astype(np.uint8)
        assert not grain.suspects(holding(memory, new_word(Random(size))))


def test_single_small_elements_are_detected_in_small_memory() -> None:
    matching = np.zeros(64, np.bool_)
    matching[8:10] = True
    assert Grain.PAIRS.suspects(matching)
    assert not Grain.PAIRS.suspects(matching, fewest=False)
    assert not Grain.PAIRS.suspects(np.concatenate([matching, np.zeros(1 << 17, np.bool_)]))
    assert Grain.PAIR.suspects(np.concatenate([matching, np.zeros(1 << 17, np.bool_)]))
    matching[9] = False
    assert not Grain.PAIRS.suspects(matching)


def test_grains_of_types() -> None:
    grains = [grain_of(torch.empty(1, dtype=dtype)) for dtype in (*SMALL, torch.float32)]
    bytes_, pairs = [Grain.BYTES] * 3, [Grain.PAIRS] * 2
    assert grains == [Grain.BYTE, *bytes_, *pairs, Grain.PAIR, Grain.WORD]
