"""Configurations that exceed the limits of a GPU are exactly those that it cannot launch."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.profiler import profile
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.space.candidate import candidates


def config(block: int, part: int = 1, **options: int) -> triton.Config:
    return triton.Config({"BM": block, "PART": part}, **options)


@triton.autotune(
    [
        config(64, num_warps=4, num_stages=2),
        config(64, num_warps=64),
        config(256, num_warps=8, num_stages=8),
        config(64, part=2, num_warps=8),
        config(48),
        config(128, num_warps=8),
    ],
    key=["K"],
)
@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, PART: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, 64)
    total = tl.zeros((BM, 64), tl.float32)
    for k in range(0, K // PART, 64):
        ks = k + tl.arange(0, 64)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * 64 + columns[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * 64 + columns[None, :], total.to(tl.float16))


@pytest.mark.slow
def test_configurations_for_an_absent_gpu() -> None:
    a, b = torch.randn(256, 128).half(), torch.randn(128, 64).half()
    c = torch.empty(256, 64, dtype=torch.float16)
    with TuningRun(device="h100") as run:
        product_kernel[lambda meta: (256 // meta["BM"],)](a, b, c, 128)
    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)
    (result,) = run.results
    trials = [result.trials[config.key] for config in candidates(product_kernel.configs)]
    assert [t.status for t in trials] == ["ok", *["over_limit"] * 2, "wrong", "failed", "ok"]
    assert trials[1].reason == "needs 2,048 threads per block, but only 1,024 are available"
    assert trials[2].reason.startswith("needs 327,680 bytes of shared memory, but only 232,448")
    assert "power of 2" in trials[4].reason
    assert all(t.predicted and not t.samples for t in trials if t.status == "ok")
    with profile(on="cpu", device="h100") as prof:
        product_kernel.fn[(4,)](a, b, c, 128, BM=64, PART=1, num_warps=4, num_stages=2)
    (row,) = prof.analyse().frame.to_dict("records")
    assert trials[0].projection is not None
    assert (trials[0].predicted, trials[0].projection["low"], trials[0].projection["high"]) == (
        *(row["projected_s"], row["projected_low_s"], row["projected_high_s"]),
    )
    assert result.problem.device == "h100 (sm_90), projected"
    assert result.winner is not None
    assert product_kernel.best_config is result.winner.config


@triton.autotune([triton.Config({"BLOCK": block}) for block in (64, 1)], key=["n"])
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)


def test_a_grid_that_the_gpu_refuses_exceeds_its_limits() -> None:
    x = torch.rand(70_000)
    out = torch.empty_like(x)
    with TuningRun(TuneOptions(workers=0), device="h100") as run:
        double_kernel[lambda meta: (1, triton.cdiv(70_000, meta["BLOCK"]))](x, out, 70_000)
    assert torch.equal(out, 2 * x)
    (result,) = run.results
    trials = {trial.values["BLOCK"]: trial for trial in result.trials.values()}
    assert (trials[64].status, trials[1].status) == ("ok", "over_limit")
    assert (
        "axis 1 of the grid has 70,000 programs, but at most 65,535 are allowed" in trials[1].reason
    )
