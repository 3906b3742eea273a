"""Advice on divisions of indices, and the shares of lines in the instructions."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.profiler import ProfileAnalysis, profile
from ttools.profiler.report.index_divisions import index_divisions, with_constant_divisors

# Kernels are only annotated with constexpr; a launch determines the types of other parameters.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def transposed_kernel(x_ptr, out_ptr, n, H, W, KNOWN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    width = KNOWN if KNOWN else W
    row, column = at // width, at % width
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + column * H + row, x, mask=at < n)


def transposed(known: int) -> ProfileAnalysis:
    x, out = torch.rand(60, 100), torch.empty(100, 60)
    with profile(target="sm_90", line_times=True) as prof:
        transposed_kernel[(6,)](x, out, 6000, 60, 100, KNOWN=known, BLOCK=1024)
    assert torch.equal(out, x.T)
    return prof.analyse()


def test_indices_that_are_divided_by_a_parameter() -> None:
    analysis = transposed(0)
    (hint,) = [hint for hint in analysis.advice if hint.kind == "index_division"]
    assert 0.2 < hint.number < 0.8
    assert hint.location is not None
    assert "indices are divided by `W`; with constant divisors in this line" in hint.evidence
    assert "declare `W` as `tl.constexpr`" in hint.advice
    lines = analysis.lines.set_index("line")
    assert abs(lines["instruction_share"].sum() - 1) < 0.2  # the rest is in Triton's own functions
    division = lines.loc[hint.location.line]
    assert division["instruction_share"] > hint.number
    assert max(division["instruction_mix"], key=division["instruction_mix"].get) == "integer"


def test_constant_divisors_get_no_advice() -> None:
    assert not [hint for hint in transposed(100).advice if hint.kind == "index_division"]


TTIR = """
module {
  tt.func public @split(%x: !tt.ptr<i32>, %w: i32, %h: i32) {
    %p = tt.get_program_id x : i32
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %wh = arith.muli %w, %h : i32
    %a = tt.splat %wh : i32 -> tensor<8xi32>
    %b = tt.splat %p : i32 -> tensor<8xi32>
    %c = arith.constant dense<3> : tensor<8xi32>
    %d = arith.divsi %r, %a : tensor<8xi32> loc("k.py":5:4)
    %e = arith.divsi %r, %b : tensor<8xi32> loc("k.py":6:4)
    %f = arith.remsi %r, %c : tensor<8xi32> loc("k.py":7:4)
    %g = arith.remsi %r, %a : tensor<8xi32> loc("k.py":5:9)
    %s = arith.divsi %p, %w : i32 loc("k.py":8:4)
    %y = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    tt.store %y, %d : tensor<8x!tt.ptr<i32>>
    tt.return
  }
}
"""


def test_only_divisors_that_parameters_determine_are_replaced() -> None:
    divisions = index_divisions(TTIR)
    assert [(d.location.line, set(d.parameters), d.numbers) for d in divisions] == [
        (5, {"w", "h"}, (0, 3))
    ]
    text = with_constant_divisors(TTIR, [0, 3])
    assert "%ttools_divisor_0 = arith.constant dense<7> : tensor<8xi32>" in text
    assert "%d = arith.divsi %r, %ttools_divisor_0 : tensor<8xi32>" in text
    assert "%g = arith.remsi %r, %ttools_divisor_3 : tensor<8xi32>" in text
    assert "%e = arith.divsi %r, %b" in text
    assert len(index_divisions(text)) == 0
