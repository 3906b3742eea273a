"""The runs of libraries: what they make of results, errors and reports."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

import torch
from tools.libraries import flag_gems_worker, liger
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
    outcomes = liger._read(report, "stopped")
    assert outcomes == [Outcome("a", "pass"), Outcome("b", "failed", "stopped")]
    report.write_text("")
    assert liger._read(report, "stopped") == [Outcome("(file)", "failed", "no cases; stopped")]


def test_tables() -> None:
    assert markdown(("a", "b"), [("x|y", "z")]) == "| a | b |\n|---|---|\n| x\\|y | z |"
    assert first_line("\n  one\ntwo") == "one"
    assert summary([Outcome("a", "wrong"), Outcome("b", "pass")]) == "1 pass, 1 wrong"


def test_every_operator_has_a_reference() -> None:
    for operator in OPERATORS:
        packet, _, overload = operator.aten.partition(".")
        reference = getattr(torch.ops.aten, packet)
        assert getattr(reference, overload or "default") is not None
