"""A reference whose results are constant proves nothing about a candidate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import image_of
from ttools.verifier.options import VerifyOptions
from ttools.verifier.run.constant_references import ConstantReferences
from ttools.verifier.serving import verify_here

CASE = Case(sizes={"N": 8})
FILE = """
import torch
import triton
import triton.language as tl

DOMAIN = {"N": (2, 64), "dtype": ["float16"]}


@triton.jit
def square_kernel(x_ptr, o_ptr, n, FACTOR: tl.constexpr, B: tl.constexpr):
    lanes = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + lanes, mask=lanes < n).to(tl.float32)
    tl.store(o_ptr + lanes, (x * x * FACTOR).to(tl.float16), mask=lanes < n)


def launched(x, factor):
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), FACTOR=factor, B=16)
    return out


def right(x):
    return launched(x, 1.0)


def wrong(x):
    return launched(x, -2.0)


def reference(x):
    return (x.float() ** 2).half()


def inputs(N, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": (torch.randn(N, generator=generator) * 1e-5 + 1e-5).half()}
"""


def answer(*results: torch.Tensor, name: str = "result") -> dict[str, object]:
    parts = [{"kind": "tensor", "name": name, "image": image_of(result)} for result in results]
    return {"given": parts}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (torch.zeros(8), "0"),
        (-torch.zeros(8), "0"),
        (torch.full((2, 4), 1.5), "1.5"),
        (torch.full((8,), torch.nan), "NaN"),
        (torch.ones(8, dtype=torch.int32), "1"),
        (torch.zeros(8, dtype=torch.bool), "False"),
    ],
)
def test_constant_results_are_described(result: torch.Tensor, text: str) -> None:
    constants = ConstantReferences()
    for _ in range(3):
        constants.count(CASE, {}, answer(result))
    assert constants.is_everywhere
    (note,) = constants.notes()
    assert note.startswith(f"the reference is {text} in every element of 3 cases with values from")


def test_results_that_differ_are_not_constant() -> None:
    constants = ConstantReferences()
    constants.count(CASE, {}, answer(torch.zeros(8)))
    constants.count(CASE, {}, answer(torch.zeros(8), torch.arange(8.0)))
    constants.count(CASE, {}, answer(torch.tensor([torch.nan, 1.0])))
    assert not constants.is_everywhere
    assert constants.notes() == []


def test_one_choice_of_parameters_may_be_constant() -> None:
    constants = ConstantReferences()
    for _ in range(2):
        constants.count(CASE, {"dtype": "float32"}, answer(torch.arange(8.0)))
        constants.count(CASE, {"dtype": "float16"}, answer(torch.zeros(8)))
    assert not constants.is_everywhere
    (note,) = constants.notes()
    assert "for dtype=float16, which therefore prove nothing" in note


@pytest.mark.parametrize(
    ("case", "right"),
    [
        (CASE, answer(torch.zeros(1))),
        (CASE, answer(torch.zeros(8), name="x after the call")),
        (Case(sizes={"N": 8}, values="zeros"), answer(torch.zeros(8))),
        (Case(sizes={"N": 8}, values_of={"x": "zeros"}), answer(torch.zeros(8))),
    ],
)
def test_cases_that_say_nothing_about_inputs_are_not_counted(
    case: Case, right: dict[str, object]
) -> None:
    constants = ConstantReferences()
    constants.count(case, {}, right)
    assert not constants.is_everywhere
    assert constants.notes() == []


def test_special_values_may_still_prove_something() -> None:
    constants = ConstantReferences()
    for _ in range(2):
        constants.count(CASE, {}, answer(torch.zeros(8)))
    constants.count(replace(CASE, values="zeros"), {}, answer(torch.zeros(8)))
    assert constants.is_everywhere
    constants.count(replace(CASE, values="large"), {}, answer(torch.arange(8.0)))
    assert not constants.is_everywhere
    assert len(constants.notes()) == 1


@pytest.mark.parametrize("candidate", ["right", "wrong"])
def test_a_verdict_on_underflowed_results_is_unknown(candidate: str, tmp_path: Path) -> None:
    file = tmp_path / "squares.py"
    file.write_text(FILE)
    subject = {"candidate": f"{file}:{candidate}"}
    subject |= {name: f"{file}:{name}" for name in ("reference", "inputs")}
    verification = verify_here(subject, VerifyOptions(cases=3, all_sizes_seconds=0))
    assert verification.outcome == "unknown"
    assert "the reference is constant in all cases" in verification.reason
    assert any("the reference is 0 in every element of" in note for note in verification.notes)
