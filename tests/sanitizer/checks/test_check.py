"""A registered check needs no other code: it runs, is reported and can be suppressed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import UsageError
from ttools.core.findings.findings import Finding, FindingsError
from ttools.ir import Module
from ttools.ir.rewriting import Rewriter
from ttools.sanitizer import sanitize
from ttools.sanitizer.checks.check import Check, Kind
from ttools.sanitizer.checks.registry import CHECKS, parse_checks
from ttools.sanitizer.passes.check import Defect, Note, insert_check
from ttools.sanitizer.passes.rewrites import Pass


def negative_products(module: Module) -> list[Note]:
    """Report negative products of integers."""
    rewriter = Rewriter()
    for op in list(module.kernel.walk()):
        if op.name == "arith.muli":
            b = rewriter.after(op)
            condition = b.compare("slt", op.result, b.constant(op.result.type, 0))
            defect = Defect(
                check="signs",
                kind="negative_product",
                message="a product is negative",
                location=op.location,
            )
            insert_check(b, condition, defect, [("product", op.result)])
    rewriter.apply()
    return [Note(module.kernel.location, "quotients are not looked at")]


PASS = Pass("signs", "negative products", negative_products)


class Signs(Check):
    """Report negative products, and launches of a single program."""

    name = "signs"
    aliases = ("sgn",)
    is_default = False
    kinds = {  # noqa: RUF012 - of the class
        "negative_product": Kind(
            severity="warning", meaning="A product is below zero.", help="swap the operands"
        ),
        "lonely": Kind(severity="note", meaning="A launch has one program."),
    }

    def passes(self) -> tuple[Pass, ...]:
        return (PASS,)

    def findings(self) -> Iterator[Finding]:
        if self.checked.report.programs == 1:
            yield self.finding("lonely", "one program only", count=1)


@triton.jit
def multiply(o_ptr, factor, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, (i - 2) * factor)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHECKS, Signs.name, Signs)


def launched(checks: str, **options: Any) -> Any:
    with sanitize(checks=checks, **options) as report:
        for factor in (3, 4):
            multiply[(1,)](torch.zeros(8, dtype=torch.int32), factor, B=8)
    return report


def test_its_findings_are_reported() -> None:
    report = launched("memcheck,signs")
    product, unsupported, lonely = report.findings
    assert (product.check, product.kind, product.severity) == (
        "signs",
        "negative_product",
        "warning",
    )
    assert (product.lane, product.count, product.variables) == ((0,), 4, (("product", "-6"),))
    assert product.location.line == multiply.fn.__code__.co_firstlineno + 3
    assert product.help == "swap the operands"
    assert (unsupported.kind, unsupported.severity) == ("unsupported", "warning")
    assert unsupported.message == "not checked: quotients are not looked at"
    assert (lonely.severity, lonely.count, lonely.help) == ("note", 2, None)
    with pytest.raises(FindingsError, match=r"a product\s+is negative"):
        report.raise_for_failures("warning")


def test_reports_describe_its_kinds() -> None:
    (run,) = json.loads(launched("signs").to("sarif"))["runs"]
    meanings = {
        rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]
    }
    assert meanings["negative_product"] == "A product is below zero."


def test_it_is_selected_by_its_names() -> None:
    assert parse_checks(["SGN"]) == {"signs"}
    assert "signs" in parse_checks(["all"])
    assert "signs" not in parse_checks(["default"])
    with pytest.raises(UsageError, match="signs"):
        parse_checks(["sings"])


def test_its_findings_are_suppressed(tmp_path: Any) -> None:
    rules = tmp_path / "rules.toml"
    text = '[[suppress]]\nkind = "{}"\nreason = "known"\n'
    rules.write_text(text.format("signs") + text.format("loneli"))
    report = launched("signs", suppressions=rules)
    (unused,) = report.findings
    assert unused.help == "did you mean `lonely`?"


def test_it_leaves_no_trace_in_runs_without_it() -> None:
    assert launched("default").findings == []
