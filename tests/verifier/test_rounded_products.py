"""Matrix products whose float32 operands a GPU rounds to tf32."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttools.verifier.options import VerifyOptions
from ttools.verifier.serving import verify_here
from ttools.verifier.workers.rounded_products import rounded_products

PROGRAM = """
import torch
import triton
import triton.language as tl

DOMAIN = {"M": (16, 16)}
FINITE = ["a", "b"]


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, P: tl.constexpr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    c = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision=P)
    tl.store(c_ptr + at, c)


def candidate(a, b):
    c = torch.empty(16, 16)
    product_kernel[(1,)](a.contiguous(), b.contiguous(), c, P="PRECISION")
    return c


def reference(a, b):
    return a @ b


def inputs(M, seed):
    g = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(M, 16, generator=g), "b": torch.randn(16, 16, generator=g)}
"""


@pytest.mark.parametrize(("precision", "is_noted"), [("tf32", True), ("ieee", False)])
def test_a_note_says_what_the_rounding_to_tf32_does(
    tmp_path: Path, precision: str, is_noted: bool
) -> None:
    file = tmp_path / "products.py"
    file.write_text(PROGRAM.replace("PRECISION", precision))
    subject = {name: f"{file}:{name}" for name in ("candidate", "reference", "inputs")}
    result = verify_here(subject, VerifyOptions(cases=1, all_sizes_seconds=0))
    assert result.failures == ()
    notes = [note for note in result.notes if "tf32" in note]
    assert len(notes) == is_noted
    for note in notes:
        line = 1 + PROGRAM[: PROGRAM.index("c = tl.dot")].count("\n")
        assert f"products.py:{line} to tf32, which is less accurate than the tolerance" in note
        assert "times the tolerance" in note
        assert '`input_precision="ieee"` computes in float32' in note


DOT = """
module {{
  tt.func public @k(%a: tensor<16x16x{0}>, %c: tensor<16x16xf32>) {{
    %d = tt.dot %a, %a, %c{1} : tensor<16x16x{0}> * tensor<16x16x{0}> -> tensor<16x16xf32> \
loc("k.py":4:2)
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("type", "precision", "count"),
    [("f32", "tf32", 1), ("f32", "tf32x3", 0), ("f32", "", 0), ("f16", "tf32", 0)],
)
def test_products_that_are_rounded(type: str, precision: str, count: int) -> None:
    text = DOT.format(type, f", inputPrecision = {precision}" if precision else "")
    assert len(rounded_products(text)) == count
