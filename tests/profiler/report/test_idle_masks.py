"""Advice on masks in loops that disable no lane."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.profiler import profile
from ttools.profiler.report.advice import Hint
from ttools.profiler.report.idle_masks import masked_loads_in_loops, without_masks

# Kernels are only annotated with constexpr; a launch determines the types of other parameters.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, K, EVEN: tl.constexpr, B: tl.constexpr):
    r, k = tl.arange(0, B), tl.arange(0, B)
    total = tl.zeros([B, B], tl.float32)
    for start in range(0, K, B):
        at = start + k
        if EVEN:
            a = tl.load(a_ptr + r[:, None] * K + at[None, :])
            b = tl.load(b_ptr + at[:, None] * B + r[None, :])
        else:
            a = tl.load(a_ptr + r[:, None] * K + at[None, :], mask=(at < K)[None, :], other=0.0)
            b = tl.load(b_ptr + at[:, None] * B + r[None, :], mask=(at < K)[:, None], other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + r[:, None] * B + r[None, :], total)


def hints(length: int, *, even: bool = False, line_times: bool = True) -> list[Hint]:
    a, b, c = torch.rand(64, length).half(), torch.rand(length, 64).half(), torch.empty(64, 64)
    with profile(target="sm_90", line_times=line_times) as prof:
        product_kernel[(1,)](a, b, c, length, EVEN=even, B=64)
    return [hint for hint in prof.analyse().advice if hint.kind == "idle_mask"]


def test_masks_that_disable_no_lane() -> None:
    first, second = hints(512)
    assert first.number == second.number
    assert 0.1 < first.number < 0.5
    assert first.location is not None
    assert second.location is not None
    assert second.location.line == first.location.line + 1
    assert "the mask holds back no lane in this launch; without masks in these lines" in (
        first.evidence
    )
    assert "EVEN: tl.constexpr" in first.advice


@pytest.mark.parametrize(
    ("length", "how"),
    [(512, {"even": True}), (500, {}), (128, {}), (512, {"line_times": False})],
    ids=["no mask", "a tail", "few iterations", "not asked for"],
)
def test_masks_without_advice(length: int, how: dict[str, Any]) -> None:
    assert not hints(length, **how)


def test_the_number_of_shapes_that_need_no_mask() -> None:
    with profile(target="sm_90", line_times=True) as prof:
        for length in (512, 500, 1024):
            a, b = torch.rand(64, length).half(), torch.rand(length, 64).half()
            product_kernel[(1,)](a, b, torch.empty(64, 64), length, EVEN=False, B=64)
    first, _ = [hint for hint in prof.analyse().advice if hint.kind == "idle_mask"]
    assert "no lane in 2 of 3 launch signatures; " in first.evidence


TTIR = """
module {
  tt.func public @copy(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %l: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %o = arith.constant dense<0.000000e+00> : tensor<8xf32>
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %s = tt.splat %n : i32 -> tensor<8xi32>
    %out = arith.cmpi slt, %r, %s : tensor<8xi32>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %q = tt.splat %y : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    scf.for %i = %c0 to %n step %c1  : i32 {
      %t = tt.splat %i : i32 -> tensor<8xi32>
      %in = arith.cmpi slt, %r, %t : tensor<8xi32>
      %a = tt.load %p, %in, %o : tensor<8x!tt.ptr<f32>> loc("k.py":5:4)
      %b = tt.load %p, %out : tensor<8x!tt.ptr<f32>> loc("k.py":6:4)
      %c = tt.load %p : tensor<8x!tt.ptr<f32>> loc("k.py":7:4)
      %d = tt.load %p, %in evictionPolicy = evict_first : tensor<8x!tt.ptr<f32>> loc("k.py":8:4)
      %some = arith.cmpf ogt, %c, %o : tensor<8xf32>
      %both = arith.andi %some, %in : tensor<8xi1>
      %e = tt.load %p, %both : tensor<8x!tt.ptr<f32>> loc("k.py":9:4)
      %n2 = tt.load %l : !tt.ptr<i32> loc("k.py":10:4)
      %u = tt.splat %n2 : i32 -> tensor<8xi32>
      %short = arith.cmpi slt, %t, %u : tensor<8xi32>
      %f = tt.load %p, %short : tensor<8x!tt.ptr<f32>> loc("k.py":11:4)
      tt.store %q, %a, %in : tensor<8x!tt.ptr<f32>>
    }
    tt.return
  }
}
"""


def test_masks_that_a_loop_computes_are_removed_from_the_text() -> None:
    loads = masked_loads_in_loops(TTIR)
    assert {place.line: numbers for place, numbers in loads.items()} == {5: (0,), 8: (3,), 11: (6,)}
    text = without_masks(TTIR, [0, 3])
    assert "%a = tt.load %p : tensor" in text
    assert "%b = tt.load %p, %out : tensor" in text
    assert "%d = tt.load %p evictionPolicy = evict_first : tensor" in text
    assert "tt.store %q, %a, %in" in text
