"""Proofs for all sizes of launches in scripts of libraries, and searches for counterexamples."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import triton
from tests.prove import kernels
from tools.libraries import sizes
from tools.libraries.attack import Attack

from ttools.interpreter import interpret
from ttools.prove.trace.check import templates_of
from ttools.prove.trace.launches import trace_launches
from ttools.prove.trace.template import Template
from ttools.sanitizer import sanitize

_SCRIPT = """
import torch, triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

@triton.jit
def gather_kernel(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs, mask=offs < n, other=0)
    tl.store(y_ptr + offs, tl.load(x_ptr + index, mask=offs < n), mask=offs < n)

@triton.jit
def wrong_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)

x, y = torch.zeros(1000, device="cuda"), torch.empty(1000, device="cuda")
copy_kernel[(8,)](x, y, 1000, BLOCK=128)
gather_kernel[(8,)](x, torch.arange(1000, device="cuda"), y, 1000, BLOCK=128)
wrong_kernel[(8,)](x, BLOCK=128)
wrong_kernel[(1,)](x[:100], BLOCK=64)
"""


def _template(kernel: object, grid: tuple[int, ...], args: tuple[object, ...]) -> Template:
    with trace_launches() as trace, sanitize(checks="memcheck"):
        kernel[grid](*args, BLOCK=64)  # type: ignore[index]
    (template,) = templates_of(trace, {}, 1 << 20)
    return template


@pytest.mark.slow
def test_a_script_is_proved_and_counterexamples_are_searched(tmp_path: Path) -> None:
    folder = tmp_path / sizes.FOLDERS["tritonbench"]
    folder.mkdir(parents=True)
    (folder / "script.py").write_text(_SCRIPT)
    (folder / "broken.py").write_text("raise ValueError('no')\n")
    options = sizes.SizesOptions(checkout=tmp_path, attacks=24)
    broken, script = sizes.run("tritonbench", options)
    assert (broken[0]["script"], broken[0]["ended"], broken[1:]) == ("broken", "status 1", [])
    assert [row["verdict"] for row in script[1:]] == ["proved", "assumed", "fails", "single size"]
    for row in script[1:3]:
        assert row["attack"]["made"] + row["attack"]["computed"] >= 24
        assert row["attack"]["refuted"] == []
    assert "the numbers in `index_ptr` are from 0 to n - 1" in script[2]["assumptions"]
    (defect,) = script[3]["defects"]
    assert (defect["kind"], defect["sizes"]) == ("oob_store", {"x_ptr.shape[0]": 1})
    assert defect["witness"] == "confirmed"
    text = sizes.table({"tritonbench": [broken, script]})
    assert "| tritonbench | 2 | 1 | 4 | 1 | 1 | 1 | 1 | 0 |" in text
    assert not sizes.is_refuted(script)
    assert "proved: copy_kernel {'n': 1000}" in "\n".join(sizes.show(script))


def test_counterexamples_refute_wrong_claims() -> None:
    x = torch.zeros(1000)
    # The output has the same length at all sizes.
    wrong = _template(kernels.copy_kernel, (16,), (x, torch.empty(64), 1000))
    result = Attack(wrong, {}, seed=1).run(200, 60.0)
    assert result.refuted
    assert "oob_store" in result.refuted[0]
    right = _template(kernels.copy_kernel, (16,), (x, torch.empty(1000), 1000))
    assert not Attack(right, {}, seed=1).run(64, 60.0).refuted


def test_searches_at_large_sizes_need_no_memory() -> None:
    n = 1000
    args = (torch.zeros(n, dtype=torch.int8), torch.empty(n, dtype=torch.int8), n)
    with trace_launches() as trace, interpret():
        kernels.copy_kernel[(triton.cdiv(n, 64),)](*args, BLOCK=64)
    (template,) = templates_of(trace, {})
    attack = Attack(template, {}, seed=0)
    attack._compute({"n": 1 << 31})
    assert (attack.done.computed, attack.done.refuted) == (1, [])
    attack._compute({"n": (1 << 31) + 1})
    assert "int_overflow" in attack.done.refuted[0]


def test_counterexamples_satisfy_the_assumptions() -> None:
    n = 100
    args = (torch.zeros(n), torch.arange(n), torch.empty(n), n)
    with trace_launches() as trace, sanitize(checks="memcheck"):
        kernels.gather_kernel[(2,)](*args, BLOCK=64)
    (template,) = templates_of(trace, {}, 1 << 20)
    attack = Attack(template, {"index_ptr": (0, "n - 1", "distinct")}, seed=0)
    attack._make([{"n": 50}], math.inf)
    assert (attack.done.made, attack.done.refuted) == (1, [])
    impossible = Attack(template, {"index_ptr": (0, "n - 2", "distinct")}, seed=0)
    impossible._make([{"n": 50}], math.inf)  # 50 distinct numbers do not fit in 49 values
    assert (impossible.done.made, impossible.done.refuted) == (0, [])
    assert Attack(template, {}, seed=0).run(32, 60.0).refuted


def test_reasons_have_a_standard_form() -> None:
    why = "element 4*lane of `x` is not shown to be one of n"
    late = f"the time limit of 25 s was reached (--timeout): {why}"
    assert sizes.reason_form(late) == "no time left: an element is not shown to be in its tensor"
    assert sizes.reason_form("not modelled: `tt.x` at 17") == "not modelled: `tt.x` at N"
