"""Published integer overflows of library kernels, with the first failing size and with the fix.

The kernels are models that have only the address arithmetic described in the report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.prove.analysis import Analysis


@triton.jit
def chunk_kernel(k_ptr, o_ptr, T, H: tl.constexpr, K: tl.constexpr, WIDE: tl.constexpr):
    batch, head = tl.program_id(1) // H, tl.program_id(1) % H
    if WIDE:
        batch = batch.to(tl.int64)
    base = (batch * T * H + head) * K
    rows = (tl.program_id(0) * 64 + tl.arange(0, 64)).to(tl.int64)
    at = k_ptr + base + rows[:, None] * (H * K) + tl.arange(0, K)[None, :]
    k = tl.load(at, mask=rows[:, None] < T, other=0.0)
    to = o_ptr + batch * T * H + head + rows * H
    tl.store(to, tl.sum(k, axis=1), mask=rows < T)


def _chunks(t: Any, wide: bool) -> None:
    k = torch.empty(16, t, 64, 128, dtype=torch.bfloat16)
    grid = (triton.cdiv(t, 64), 16 * 64)
    chunk_kernel[grid](k, torch.empty(16, t, 64), t, H=64, K=128, WIDE=wide)


@triton.jit
def token_kernel(x_ptr, o_ptr, stride, D: tl.constexpr, WIDE: tl.constexpr):
    token = tl.program_id(0)
    if WIDE:
        token = token.to(tl.int64)
    x = tl.load(x_ptr + token * stride + tl.arange(0, D))
    tl.store(o_ptr + token, tl.sum(x, axis=0))


def _tokens(n: Any, wide: bool) -> None:
    x = torch.empty(n, 24_576, dtype=torch.bfloat16)
    token_kernel[(n,)](x, torch.empty(n), x.stride(0), D=128, WIDE=wide)


@triton.jit
def sequence_kernel(q_ptr, starts_ptr, o_ptr, stride, D: tl.constexpr, WIDE: tl.constexpr):
    start = tl.load(starts_ptr + tl.program_id(0))
    if WIDE:
        start = start.to(tl.int64)
    q = tl.load(q_ptr + start * stride + tl.arange(0, D))
    tl.store(o_ptr + tl.program_id(0), tl.sum(q, axis=0))


def _sequences(n: Any, wide: bool) -> None:
    q = torch.empty(n, 8192, dtype=torch.bfloat16)
    starts = torch.arange(n + 1, dtype=torch.int32)
    sequence_kernel[(n,)](q, starts, torch.empty(n), q.stride(0), D=128, WIDE=wide)


@pytest.mark.parametrize(
    ("run", "name", "first_wrong"),
    [
        # https://github.com/fla-org/flash-linear-attention/issues/1080: ((B - 1) T H + H - 1) K
        (_chunks, "t", 17_477),
        # https://github.com/vllm-project/vllm/issues/53034
        (_tokens, "n", 87_383),
        # https://github.com/sgl-project/sglang/issues/20389: (total_tokens - 1) * stride
        (_sequences, "n", 262_145),
    ],
)
def test_published_sizes(run: Callable[[Any, bool], None], name: str, first_wrong: int) -> None:
    last = 4 * first_wrong

    def before(**sizes: Any) -> None:
        run(sizes[name], False)

    def after(**sizes: Any) -> None:
        run(sizes[name], True)

    (defect,) = Analysis(before, {name: (1, last)}).analyse().defects
    assert (defect.event.kind, defect.sizes) == ("int_overflow", {name: first_wrong})
    assert defect.is_least
    assert Analysis(after, {name: (1, last)}).analyse().verdict == "proved"
