"""Elements of one and two bytes that were never written, by themselves among others that were."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize
from ttools.sanitizer.memory.missing import missing_bytes
from ttools.sanitizer.memory.pattern import Grain, common, fill, grain_of, unwritten

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


def test_a_single_element_of_two_bytes() -> None:
    own = np.zeros(40, np.uint8)
    fill(own[8:].ctypes.data, 2)
    found = [n in (8, 9) for n in range(40)]
    assert missing_bytes(own, 2, grain=Grain.PAIR).tolist() == found
    assert unwritten(own, grain=Grain.PAIR).tolist() == found
    assert not missing_bytes(own, 2, grain=Grain.PAIRS).any(), "it may be a value"


@pytest.mark.parametrize("grain", [Grain.BYTES, Grain.PAIRS])
def test_data_are_no_evidence(grain: Grain) -> None:
    random = np.random.default_rng(0)
    for size in (2, 3, 16, 66, 256, 1000, 1 << 16):
        for _ in range(20):
            assert not unwritten(random.integers(0, 256, size).astype(np.uint8), grain=grain).any()
    for number in range(256):
        assert not unwritten(np.full(64, number, np.uint8), grain=grain).any()
        channels = np.stack([np.full(64, n) for n in (7, number, 9, 255)], 1).astype(np.uint8)
        assert not unwritten(channels.reshape(-1), grain=grain).any()
    counted = np.tile(np.arange(256, dtype=np.uint8), 8)
    assert not unwritten(counted, grain=grain).any()


def test_memory_seen_as_two_types_is_judged_by_words() -> None:
    grains = [grain_of(torch.empty(1, dtype=dtype)) for dtype in (*SMALL, torch.float32)]
    bytes_, pairs = [Grain.BYTES] * 3, [Grain.PAIRS] * 2
    assert grains == [Grain.BYTE, *bytes_, *pairs, Grain.PAIR, Grain.WORD]
    assert common(Grain.PAIR, Grain.PAIR) is Grain.PAIR
    assert common(Grain.BYTES, Grain.PAIR) is Grain.WORD
    workspace = np.full(8, 0x3ED7, np.uint16).view(np.uint8)  # a bf16, in memory for bytes
    assert not unwritten(workspace, grain=common(Grain.BYTES, Grain.PAIR)).any()
