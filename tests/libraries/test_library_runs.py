"""The runs of libraries: what they make of results, errors and reports."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

import torch
from tools.libraries import checkout, flag_gems_worker
from tools.libraries.flag_gems_operators import OPERATORS
from tools.libraries.outcomes import Outcome, first_line, markdown, summary

from ttools.core.errors import UnsupportedError


def test_results_that_differ_are_wrong() -> None:
    x = torch.ones(4)
    assert flag_gems_worker.compare([x], [x + 1e-6], 1e-4) == ("pass", "")
    verdict, reason = flag_gems_worker.compare([x], [x + 1], 1e-4)
    assert verdict == "wrong"
    assert "Mismatched elements: 4 / 4" in reason


def test_errors_are_told_by_what_caused_them() -> None:
    error = RuntimeError("outer")
    error.__cause__ = UnsupportedError("`tt.unknown`")
    assert flag_gems_worker.explain(error)[0] == "unsupported"
    assert flag_gems_worker.explain(ValueError("no")) == ("failed", "ValueError: no")


def test_cases_without_an_outcome_have_failed(tmp_path: Path) -> None:
    report = tmp_path / "report"
    lines = [{"collected": ["a", "b"]}, asdict(Outcome("a", "pass"))]
    report.write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcomes = checkout._read(report, "stopped")
    assert outcomes == [Outcome("a", "pass"), Outcome("b", "failed", "stopped")]
    report.write_text("")
    assert checkout._read(report, "stopped") == [Outcome("(file)", "failed", "no cases; stopped")]


def test_tables() -> None:
    assert markdown(("a", "b"), [("x|y", "z")]) == "| a | b |\n|---|---|\n| x\\|y | z |"
    assert first_line("\n  one\ntwo") == "one"
    assert summary([Outcome("a", "wrong"), Outcome("b", "pass")]) == "1 pass, 1 wrong"


def test_every_operator_has_a_reference() -> None:
    for operator in OPERATORS:
        packet, _, overload = operator.aten.partition(".")
        reference = getattr(torch.ops.aten, packet)
        assert getattr(reference, overload or "default") is not None


def test_files_of_a_checkout(tmp_path: Path) -> None:
    """A library that believes in CUDA, one kernel that is right and one that is not."""
    (tmp_path / "doubling.py").write_text(LIBRARY)
    (tmp_path / "test_doubling.py").write_text(TESTS)
    options = checkout.CheckoutOptions(checkout=tmp_path)
    files = [("doubling", tmp_path / "test_doubling.py"), ("absent", tmp_path / "test_absent.py")]
    found, absent = checkout.run(files, options)
    verdicts = {outcome.name: outcome.verdict for outcome in found}
    assert verdicts == {
        "doubling::test_factor[2]": "pass",
        "doubling::test_factor[3]": "wrong",
        "doubling::test_left_out": "refused",
    }
    assert [outcome.reason for outcome in absent] == ["the checkout has no such file"]


LIBRARY = """
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(x_ptr + lanes, tl.load(x_ptr + lanes) * 2)


def double_(x):
    assert x.is_cuda
    double_kernel[(1,)](x, BLOCK=x.numel())
    return x
"""

TESTS = """
import pytest
import torch
from doubling import double_


@pytest.mark.parametrize("factor", [2, 3])
def test_factor(factor):
    x = torch.ones(16, device="cuda")
    assert double_(x).sum().item() == 16 * factor


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_left_out():
    pass
"""
