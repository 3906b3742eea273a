"""A launch gets only the passes that can find something, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.core.location import source_line
from ttools.interpreter.run import variants
from ttools.ir import Module
from ttools.ir.parser import parse_module
from ttools.sanitizer import sanitize
from ttools.sanitizer.checks.registry import CHECKS
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.passes.rewrites import Pass


def passes_of(
    monkeypatch: pytest.MonkeyPatch,
    kernel: Any,
    *arguments: Any,
    checks: Iterable[str] = ("default",),
) -> tuple[str, ...]:
    """Return the checks whose passes a launch gets, in their order."""
    plans: list[tuple[str, ...]] = []
    instrument = CheckedLaunch.instrument

    def spy(self: CheckedLaunch, passes: Sequence[Pass], *args: Any, **kwargs: Any) -> None:
        plans.append(tuple(check.check for check in passes))
        instrument(self, passes, *args, **kwargs)
        assert bool(self.rewrites.names) == bool(passes)

    with monkeypatch.context() as patch, sanitize(checks=checks):
        patch.setattr(CheckedLaunch, "instrument", spy)
        kernel[(2,)](*arguments, B=16)
    (passes,) = plans
    return passes


def comment_at(finding: Finding) -> str:
    """Return the comment in the line of a finding."""
    assert finding.location is not None
    return source_line(finding.location.file, finding.location.line).partition("# ")[2]


@triton.jit
def plain(x_ptr, o_ptr, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.max_contiguous(tl.multiple_of(tl.arange(0, B), B), B)
    x = tl.load(x_ptr + i * s, mask=i < n, other=0.0)
    tl.store(o_ptr + i, x * 2, mask=i < n)


@triton.jit
def everything(x_ptr, o_ptr, n, s, B: tl.constexpr):
    p = tl.program_id(0)
    tl.assume(n > 0)
    i = tl.arange(0, B)
    far = p * s
    near = tl.multiple_of(far + 1, 4)  # false
    x = tl.load(x_ptr + near + i, mask=(i < n) & (p == 0))  # undefined lanes
    y = tl.load(x_ptr + far * 2 + i, mask=i < n, other=1.0)  # wraps
    z = tl.log(x - x)  # an infinity
    tl.store(o_ptr + p * B + i, x + y + z, mask=i < 12)


def test_passes_that_can_find_nothing_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = partial(passes_of, monkeypatch)
    x, o = torch.zeros(64), torch.zeros(32)
    assert planned(plain, x, o, 32, 2) == ()
    assert planned(plain, x, o, 32, 2**28) == ("overflow",)
    assert planned(plain, x, o, 32, 2**28, checks=["hints", "initcheck"]) == ()
    assert planned(plain, x, o, 32, 2, checks=["numeric"]) == ("numeric",)


@pytest.mark.parametrize("left_out", [None, "overflow", "hints", "initcheck", "numeric"])
def test_passes_run_in_a_fixed_order(left_out: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [c for c in ("overflow", "hints", "initcheck", "numeric") if c != left_out]
    arguments = torch.zeros(64), torch.zeros(32), 10, 2**31 - 1
    checks = set(CHECKS) - {left_out}
    assert passes_of(monkeypatch, everything, *arguments, checks=checks) == tuple(wanted)


def test_all_passes_find_their_defects() -> None:
    # The second program's offset is 2**30; twice that does not fit in 32 bits.
    x, o = torch.ones(64), torch.zeros(32)
    with sanitize(checks="overflow,hints,initcheck,numeric") as report:
        everything[(2,)](x, o, 10, 2**30 + 1, B=16)
    reported = {(f.kind, comment_at(f)) for f in report.findings}
    assert reported == {
        ("int_overflow", "wraps"),
        ("bad_hint", "false"),
        ("uninit_read", "undefined lanes"),
        ("inf", "an infinity"),
    }


@triton.jit
def many_origins(x_ptr, o_ptr, n, s, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    for _ in tl.static_range(16):
        x = tl.exp(x) / tl.sqrt(x)
    tl.store(o_ptr + i, x)


def test_unchecked_operations_are_reported_by_their_check() -> None:
    for _ in range(2):  # compiled first, then loaded from the cache
        with sanitize(checks="all") as report:
            many_origins[(1,)](torch.ones(16), torch.zeros(16), 1, 1, B=16)
        notes = [f for f in report.findings if f.kind == "unsupported"]
        assert [(f.check, f.severity) for f in notes] == [("numeric", "warning")]
        assert "paths of NaN and infinity" in notes[0].message


@triton.jit
def unguarded(x_ptr, o_ptr, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = 1.0 / x  # first
    z = 2.0 / (x - 1.0)  # second
    tl.store(o_ptr + i, y + z)


@pytest.mark.parametrize(("zero", "line"), [(None, "second"), (20, "second"), (3, "first")])
def test_the_first_origin_is_reported(zero: int | None, line: str) -> None:
    x = torch.full((32,), 3.0)
    x[5] = 1.0
    if zero is not None:
        x[zero] = 0.0
    with sanitize(checks="numeric") as report:
        unguarded[(2,)](x, torch.zeros(32), 1, 1, B=16)
    (finding,) = report.findings
    assert (finding.kind, finding.program) == ("div_by_zero", (0, 0, 0))
    assert comment_at(finding) == line


@triton.jit
def read_once(x_ptr, o_ptr, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i * s, mask=i < n, other=0.0)
    tl.store(o_ptr + i, x, mask=i < n)


def test_modules_are_read_for_the_checks_and_for_each_emission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TTOOLS_CACHE", "off")
    texts: list[str] = []

    def parse(text: str) -> Module:
        texts.append(text)
        return parse_module(text)

    monkeypatch.setattr(variants, "parse_module", parse)
    x, o = torch.ones(64), torch.zeros(32)
    with sanitize() as report:
        for _ in range(2):  # the second launch compiles nothing
            read_once[(2,)](x, o, 32, 2, B=16)
            assert len(texts) == 2
        read_once[(2,)](x, o, 0, 2**28 + 2, B=16)  # a pass checks offsets that may wrap
        assert len(texts) == 3
    assert report.findings == []
    assert o.tolist() == [1.0] * 32
