"""Arguments on which the results of a reference do not depend prove nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import image_of
from ttools.verifier.options import VerifyOptions
from ttools.verifier.run.independent_references import IndependentReferences
from ttools.verifier.serving import verify_here

CASE = Case(sizes={"N": 8}, seed=3)
OTHER = Case(sizes={"N": 8}, seed=3, values_of={"bias": "negative"}, after=(CASE,))
SENT = {"x": image_of(torch.rand(8)), "bias": image_of(torch.rand(8))}
A, B = torch.arange(8.0), torch.arange(1.0, 9.0)


def answer(result: torch.Tensor, *sources: str) -> dict[str, Any]:
    part = {"kind": "tensor", "name": "result", "image": image_of(result)}
    return {"given": [part], "sources": [list(sources)]}


def notes(
    *answers: tuple[Case, dict[str, Any]],
    sent: dict[str, Any] = SENT,
    labels: dict[str, str] | None = None,
    inplace: tuple[str, ...] = (),
) -> list[str]:
    independent = IndependentReferences(inplace)
    for case, right in answers:
        independent.count(case, labels or {}, sent, right)
    return independent.notes()


def test_an_argument_that_the_reference_does_not_use() -> None:
    (note,) = notes((CASE, answer(A, "x")), (OTHER, answer(A, "x")))
    assert note.startswith("the reference does not use `bias`, so no case shows")


def test_values_that_do_not_change_the_results() -> None:
    calls = (CASE, answer(A, "x", "bias")), (OTHER, answer(A, "x", "bias"))
    (note,) = notes(*calls, labels={"dtype": "float32"})
    assert "did not change with the values of `bias` (N=8, dtype=float32)" in note


def test_an_argument_that_is_used_for_other_parameters() -> None:
    other = Case(sizes={"N": 9}, seed=4)
    calls = (CASE, answer(A, "x")), (OTHER, answer(A, "x")), (other, answer(B, "x", "bias"))
    assert notes(*calls) == []


@pytest.mark.parametrize(
    ("result", "sent", "inplace"),
    [
        (B, SENT, ()),
        (A, {**SENT, "bias": image_of(torch.arange(8))}, ()),
        (A, {**SENT, "bias": image_of(torch.empty(0))}, ()),
        (A, {**SENT, "bias": 2.0}, ()),
        (A, SENT, ("bias",)),
    ],
)
def test_arguments_without_a_note(
    result: torch.Tensor, sent: dict[str, Any], inplace: tuple[str, ...]
) -> None:
    calls = (CASE, answer(A, "x")), (OTHER, answer(result, "x"))
    assert notes(*calls, sent=sent, inplace=inplace) == []


def test_constant_results_have_a_note_of_their_own() -> None:
    zeros = answer(torch.zeros(8), "x")
    assert notes((CASE, zeros), (OTHER, zeros)) == []


FILE = """
import torch
import triton
import triton.language as tl

DOMAIN = {"N": (2, 64), "dtype": ["float32"]}


@triton.jit
def scale_kernel(x_ptr, s_ptr, o_ptr, n, B: tl.constexpr):
    lanes = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    tl.store(o_ptr + lanes, x * tl.load(s_ptr + lanes, mask=lanes < n), mask=lanes < n)


def candidate(x, scale):
    x, scale = x.contiguous(), scale.contiguous()
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 16),)](x, scale, out, x.numel(), B=16)
    return out


def reference(x, scale):
    return x * scale


def inputs(N, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(N, generator=generator), "scale": torch.ones(N)}
"""


@pytest.mark.slow
@pytest.mark.parametrize("uses_scale", [True, False])
def test_the_report_names_an_argument_that_the_reference_does_not_use(
    uses_scale: bool, tmp_path: Path
) -> None:
    file, text = tmp_path / "scales.py", FILE
    if not uses_scale:
        text = text.replace("return x * scale", "return x * 1.0")
        text = text.replace("x * tl.load(s_ptr + lanes, mask=lanes < n)", "x * 1.0")
    file.write_text(text)
    subject = {name: f"{file}:{name}" for name in ("candidate", "reference", "inputs")}
    verification = verify_here(subject, VerifyOptions(cases=20, all_sizes_seconds=0))
    assert verification.outcome == "passed"
    named = [note for note in verification.notes if "does not use `scale`" in note]
    assert bool(named) != uses_scale
