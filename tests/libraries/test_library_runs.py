"""The tools that run libraries: verdicts, sizes, tables and comparisons."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

import torch
from hypothesis import Phase, settings
from tools.harness import markdown
from tools.libraries import checkout, flag_gems_worker
from tools.libraries.flag_gems_operators import OPERATORS
from tools.libraries.outcomes import (
    Outcome,
    comparison,
    explain,
    first_line,
    summary,
)
from tools.libraries.reduction import _Reduction, reduce_parameters
from tools.libraries.sampling import Selection, _number, _take_first_failures
from tools.libraries.suites import SUITES
from triton.compiler.errors import CompilationError

from ttools.core.errors import UnsupportedError


def test_different_results_are_wrong() -> None:
    x = torch.ones(4)
    assert flag_gems_worker.compare([x], [x + 1e-6], 1e-4) == ("pass", "")
    verdict, reason = flag_gems_worker.compare([x], [x + 1], 1e-4)
    assert verdict == "wrong"
    assert "Mismatched elements: 4 / 4" in reason


def test_errors_are_classified_by_their_cause() -> None:
    error = RuntimeError("outer")
    error.__cause__ = UnsupportedError("`tt.unknown`")
    assert explain(error)[0] == "unsupported"
    assert explain(ValueError("no")) == ("failed", "ValueError: no")
    compilation = CompilationError("x", ast.parse("x").body[0], "no such operation")
    error.__cause__ = compilation
    assert explain(error) == ("skipped", "Triton: no such operation")
    compilation.__cause__ = KeyError("bf16")
    assert explain(error) == ("skipped", "Triton: KeyError: 'bf16'")
    error.__cause__, error.__suppress_context__ = None, True
    error.__context__ = compilation
    assert explain(error) == ("failed", "RuntimeError: outer")


def test_sizes_of_cases() -> None:
    assert _number(7) == 7
    assert _number(True) == _number(0.5) == _number("long") == 0
    assert _number((4, 1, 5)) == 20
    assert _number([0, 15, 400]) == 400
    parameters = {"T": 1000, "H": 1, "gate": 0.5, "seqlens": [0, 15, 200, 400], "flag": True}
    reduce_parameters(parameters, {"T": 64, "H": 4, "D": 8, "seqlens": 100})
    reduced = {"T": 64, "H": 1, "gate": 0.5, "seqlens": [0, 15, 100], "flag": True}
    assert parameters == reduced


def test_numbers_at_the_start_of_names() -> None:
    limits = {"batch": 3, "d": 16}
    for written, reduced in (
        ("batch = 300", "batch = 3"),
        ("batch: int = 2", "batch: int = 2"),
        ("batch, other = 300, 400", "batch, other = (3, 400)"),
        ("f(batch=300, c=300)", "f(batch=3, c=300)"),
        ("def f(a, batch=300, *, d=64, e=64): pass", "def f(a, batch=3, *, d=16, e=64):\n    pass"),
        ("given(d=st.integers(8, max_value=64))", "given(d=st.integers(8, max_value=16))"),
        ("given(d=st.sampled_from([8, 64]))", "given(d=st.sampled_from([8, 16]))"),
        ("batch = True", "batch = True"),
        ("batch = total // 300", "batch = total // 300"),
    ):
        module = ast.parse(written)
        _Reduction(limits).visit(module)
        assert ast.unparse(module) == ast.unparse(ast.parse(reduced))


def test_hypothesis_does_not_shrink_failures() -> None:
    before = settings.get_current_profile_name()
    try:
        _take_first_failures()
        assert settings().phases == (Phase.explicit, Phase.generate)
    finally:
        settings.load_profile(before)


def test_every_suite_names_files_once() -> None:
    for suite in SUITES.values():
        assert len(set(suite.files)) == len(suite.files) > 0
        named = suite.paths(Path("there"), ["test_one"])
        assert named == [("test_one", Path("there") / suite.folder / "test_one.py")]


def test_tables() -> None:
    assert markdown(("a", "b"), [("x|y", "z")]) == "| a | b |\n|---|---|\n| x\\|y | z |"
    assert first_line("\n  one\ntwo") == "one"
    assert summary([Outcome("a", "wrong"), Outcome("b", "pass")]) == "1 pass, 1 wrong"


def test_comparisons_pair_the_cases_of_both_runs() -> None:
    unchecked = {"f::a": Outcome("f::a", "pass", cpu_seconds=2.0), "f::b": Outcome("f::b", "pass")}
    checked = {
        "f::a": Outcome("f::a", "finding", "f.py:1:1: error[oob_load]: …", 9.0, "…", 3.0),
        "g::c": Outcome("g::c", "pass", cpu_seconds=9.0),
    }
    header, _, file, total = comparison(unchecked, checked).splitlines()
    columns = "| file | unchecked | checked | CPU seconds | checked CPU seconds | ratio |"
    assert header == columns
    assert file == "| f | 1 pass | 1 finding | 2.0 | 3.0 | 1.50 |"
    assert total == file.replace("| f |", "| all |")


def test_every_operator_has_a_reference() -> None:
    for operator in OPERATORS:
        packet, _, overload = operator.aten.partition(".")
        reference = getattr(torch.ops.aten, packet)
        assert getattr(reference, overload or "default") is not None


@pytest.mark.slow
def test_files_of_a_checkout(tmp_path: Path) -> None:
    """Run a library for CUDA with tests that pass, fail and abort the process."""
    (tmp_path / "doubling.py").write_text(LIBRARY)
    (tmp_path / "test_doubling.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text("import nothing_of_this_name")
    options = checkout.CheckoutOptions(
        checkout=tmp_path,
        selection=Selection(
            sample=2, smallest=True, at_most={"size": 32, "limit": 32}, left_out={"two_gpus": "two"}
        ),
    )
    names = ("doubling", "other", "absent")
    files = [(name, tmp_path / f"test_{name}.py") for name in names]
    outcomes = [outcome for batch in checkout.run(files, options) for outcome in batch]
    assert {outcome.name: outcome.verdict for outcome in outcomes} == {
        "doubling::test_factor[2-64]": "pass",
        "doubling::test_factor[3-64]": "wrong",
        "doubling::test_left_out": "skipped",
        "doubling::test_two_gpus": "skipped",
        "doubling::test_ends": "failed",
        "doubling::TestLast::test_last": "pass",
        "other::(import)": "failed",
        "absent::(file)": "failed",
    }
    assert len(outcomes) == 8
    reasons = {outcome.name.partition("::")[2]: outcome.reason for outcome in outcomes}
    assert reasons["test_ends"] == "the process ended with exit status -6"
    assert "nothing_of_this_name" in reasons["(import)"]


@pytest.mark.slow
def test_files_of_a_checkout_under_checks(tmp_path: Path) -> None:
    """Run a test that passes although its kernel accesses other memory, and a correct test."""
    (tmp_path / "test_copy.py").write_text(TESTS_THAT_PASS)
    verdicts = {}
    for checks in ("off", "default"):
        options = checkout.CheckoutOptions(checkout=tmp_path, checks=checks)
        batches = checkout.run([("copy", tmp_path / "test_copy.py")], options)
        outcomes = {o.name.partition("::")[2]: o for batch in batches for o in batch}
        verdicts[checks] = {name: outcome.verdict for name, outcome in outcomes.items()}
    assert verdicts["off"] == {"test_right": "pass", "test_wrong": "pass"}
    assert verdicts["default"] == {"test_right": "pass", "test_wrong": "finding"}
    assert "error[oob_load]" in outcomes["test_wrong"].reason
    assert "x_ptr" in outcomes["test_wrong"].report
    assert not outcomes["test_right"].report


@pytest.mark.slow
def test_a_checkout_that_pytest_refuses(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import nothing_of_this_name")
    (tmp_path / "test_one.py").write_text("def test_one(): pass")
    options = checkout.CheckoutOptions(checkout=tmp_path)
    ((outcome,),) = checkout.run([("one", tmp_path / "test_one.py")], options)
    assert outcome.verdict == "failed"
    assert "nothing_of_this_name" in outcome.reason


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
import os
import unittest

import pytest
import torch
from doubling import double_


@pytest.mark.parametrize("size", [64, 4096])
@pytest.mark.parametrize("factor", [2, 3])
def test_factor(factor, size):
    limit = 4096
    assert size == limit == 32
    x = torch.ones(size, device="cuda")
    assert double_(x).sum().item() == size * factor


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_left_out():
    pass


def test_two_gpus():
    pass


def test_ends():
    os.abort()


class TestLast(unittest.TestCase):
    def test_last(self):
        pass
"""

TESTS_THAT_PASS = """
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes), mask=lanes < n)


def check(n):
    x = torch.rand(n, device="cuda")
    y = torch.empty_like(x)
    copy_kernel[(1,)](x, y, n, BLOCK=64)
    assert torch.equal(x, y)


def test_right():
    check(64)


def test_wrong():
    check(60)
"""
