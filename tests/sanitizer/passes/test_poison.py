"""Poison fills undefined lanes and memory with NaN or large negative numbers, and nothing else."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def tile_of(x_ptr, o_ptr, n, FILLED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if FILLED:
        x = tl.load(x_ptr + i, mask=i < n, other=0)
    else:
        x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, x)


@triton.jit
def sums(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n), 0))


@triton.jit
def counted(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    before = tl.atomic_add(x_ptr + i, 1, mask=i < n)
    tl.store(o_ptr + i, before)


_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2)
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


@pytest.mark.parametrize("dtype", [*_FLOATS, *_INTEGERS], ids=str)
def test_undefined_lanes(dtype: torch.dtype) -> None:
    x, out, filled = torch.ones(20).to(dtype), torch.zeros(32).to(dtype), torch.ones(32).to(dtype)
    with sanitize(poison=True) as report:
        tile_of[(1,)](x, out, 20, FILLED=False, B=32)
    assert [f.kind for f in report.findings] == ["uninit_read"], (
        "the undefined lanes are still reported"
    )
    if dtype != torch.float8_e5m2:  # Triton cannot create an `other` of 0 in this type
        with sanitize(poison=True) as report:
            tile_of[(1,)](x, filled, 20, FILLED=True, B=32)
        assert report.findings == []
        assert filled.tolist() == [1] * 20 + [0] * 12
    values = out.double()
    assert (values[:20] == 1).all()
    junk = values[20:]
    assert junk.isnan().all() if dtype in _FLOATS else (junk < -5).all()


@pytest.mark.parametrize("dtype", [*_FLOATS[:-1], *_INTEGERS], ids=str)
def test_memory_that_was_never_written(dtype: torch.dtype) -> None:
    with sanitize(poison=True) as report:
        fresh, zeros = torch.empty(1000, dtype=dtype), torch.zeros(1000, dtype=dtype)
        grown = torch.ones(4, dtype=dtype).resize_(8)
        shows = fresh.isnan() if dtype in _FLOATS else fresh < 0
        converted = fresh.double()
        total = torch.zeros(1, dtype=dtype)
        sums[(1,)](fresh, total, 500, B=512)
    assert shows.all()
    assert converted.isnan().all(), "converted elements are unwritten, too"
    assert (zeros == 0).all()
    assert (grown[:4] == 1).all()
    assert grown[4:].double().isnan().all() if dtype in _FLOATS else (grown[4:] < 0).all()
    assert "uninit_read" in {f.kind for f in report.findings}


def test_code_that_relies_on_zeros_fails() -> None:
    x, out = torch.ones(20), torch.zeros(1)
    with sanitize():
        sums[(1,)](x, out, 20, B=32)
    assert out.item() == 20
    with sanitize(checks="memcheck", poison=True) as report:
        sums[(1,)](x, out, 20, B=32)
        assert torch.empty(3).isnan().all()
    assert report.findings == []
    assert out.isnan().all()


def test_results_of_masked_atomics() -> None:
    x, out = torch.zeros(20, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    with sanitize(checks="memcheck", poison=True):
        counted[(1,)](x, out, 20, B=32)
    assert (x == 1).all()
    assert (out[:20] == 0).all()
    assert (out[20:] < 0).all()


def test_unwritten_outputs_are_found_in_poison() -> None:
    with sanitize(poison=True) as report:
        out = torch.empty(50)
        tile_of[(1,)](torch.ones(32), out, 32, FILLED=True, B=32)
        assert out[32:].clone().isnan().all()
        computed = torch.full((32,), float("nan"))
        tile_of[(1,)](computed, (masked := torch.empty(32)), 32, FILLED=True, B=32)
        masked.sum()
    (finding,) = report.findings
    assert finding.message.startswith("18 of 50 elements of `o_ptr` were never written")
