"""Sizes of one launch that the script keeps related, such as `offsets_ptr.shape[0] = G + 1`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.reports.registry import write_report
from ttools.core.reports.sizes import SizeRelation
from ttools.prove.api import SizesResult
from ttools.prove.trace.check import check_launches
from ttools.prove.trace.launches import ScriptTrace


@triton.jit
def groups_kernel(offsets_ptr, o_ptr, AHEAD: tl.constexpr):
    g = tl.program_id(0)
    tl.store(o_ptr + g, tl.load(offsets_ptr + g + AHEAD) - tl.load(offsets_ptr + g))


def _groups(*sizes: tuple[int, int], ahead: int = 1) -> ScriptTrace:
    """Return launches over some numbers of groups, with some numbers of offsets."""
    trace = ScriptTrace()
    for groups, offsets in sizes:
        args = (torch.zeros(offsets, dtype=torch.int32), torch.empty(groups, dtype=torch.int32))
        trace.record(groups_kernel, args, {"AHEAD": ahead, "grid": (groups,)})
    return trace


def _relations(result: SizesResult) -> tuple[SizeRelation, ...]:
    assert result.report.sizes is not None
    return result.report.sizes.verdicts[0].relations


def _text(result: SizesResult) -> str:
    return " ".join(write_report(result.report, "text").split())


def test_a_relation_of_one_launch_is_a_hypothesis_that_the_verdict_names() -> None:
    result = check_launches(_groups((5, 6)))
    relation = "offsets_ptr.shape[0] = o_ptr.shape[0] + 1"
    assert result.verdict == "proved"
    assert _relations(result) == (SizeRelation(relation, 1),)
    scope = f"all sizes whose tensors fit in 80 GB, under the hypothesis that {relation}"
    assert f"`groups_kernel`: proved for {scope}" in _text(result)
    assert result.report.sizes is not None
    (kernel,) = result.report.sizes.as_data()["kernels"]
    assert kernel["scope"] == scope
    assert kernel["relations"] == [{"text": relation, "launches": 1}]
    finding, other = result.report.findings  # of the loads at `g + 1` and `g`
    assert (finding.severity, finding.kind) == ("note", "oob_load")
    assert (other.severity, other.kind) == ("note", "oob_load")
    assert finding.sizes == {"o_ptr.shape[0]": 6}
    assert f"does not occur if `{relation}`" in finding.notes[0]
    assert not result.report.failing


def test_a_relation_of_several_launches_is_an_assumption() -> None:
    result = check_launches(_groups((5, 6), (9, 10)))
    assert result.verdict == "proved"
    assert not result.report.findings
    (relation,) = _relations(result)
    assert (relation.launches, relation.is_hypothesis) == (2, False)
    assert f"fit in 80 GB, with {relation.text}" in _text(result)


@pytest.mark.parametrize(
    ("trace", "ranges"),
    [
        # No relation holds at both launches.
        pytest.param(_groups((5, 6), (9, 12)), {}, marks=pytest.mark.slow),
        (_groups((5, 6)), {"offsets_ptr.shape[0]": (1, 100)}),  # the user varies the size
    ],
    ids=["refuted", "free"],
)
def test_a_failure_that_no_relation_explains_is_an_error(
    trace: ScriptTrace, ranges: dict[str, tuple[int, int]]
) -> None:
    result = check_launches(trace, ranges)
    assert result.verdict == "fails"
    assert {finding.severity for finding in result.report.findings} == {"error"}
    assert _relations(result) == ()


def test_a_failure_that_does_not_disappear_is_an_error() -> None:
    result = check_launches(_groups((5, 6), ahead=2))
    assert result.verdict == "fails"
    (error,) = result.report.failing
    assert error.sizes == {"o_ptr.shape[0]": 1}
    (note,) = set(result.report.findings) - {error}
    assert note.severity == "note"
    text = _text(result)
    assert "under the hypothesis that offsets_ptr.shape[0] = o_ptr.shape[0] + 1" in text


@triton.jit
def pairs_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(o_ptr + 2 * offs + 1, x, mask=offs < n)


@triton.jit
def halves_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(o_ptr + offs // 2, x, mask=(offs < n) & (offs % 2 == 0))


@triton.jit
def outer_kernel(x_ptr, y_ptr, o_ptr):
    i, j = tl.program_id(0).to(tl.int64), tl.program_id(1)
    product = tl.load(x_ptr + i) * tl.load(y_ptr + j)
    tl.store(o_ptr + i * tl.num_programs(1) + j, product)


@triton.jit
def halo_kernel(x_ptr, o_ptr, n, R: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs + R - 1, mask=offs < n)
    tl.store(o_ptr + offs, x, mask=offs < n)


_ROOT = Path(__file__).parents[2]
_N = 3000
_BLOCKS = (triton.cdiv(_N, 64),)


@pytest.mark.parametrize(
    ("kernel", "grid", "args", "constants", "relation"),
    [
        (
            pairs_kernel,
            _BLOCKS,
            (torch.zeros(_N), torch.zeros(2 * _N), _N),
            {"BLOCK": 64},
            "o_ptr.shape[0] = n * 2",
        ),
        (
            halves_kernel,
            _BLOCKS,
            (torch.zeros(_N), torch.zeros(_N // 2), _N),
            {"BLOCK": 64},
            "n = o_ptr.shape[0] * 2",
        ),
        pytest.param(
            outer_kernel,
            (5, 7),
            (torch.zeros(5), torch.zeros(7), torch.zeros(35)),
            {},
            "o_ptr.shape[0] = x_ptr.shape[0] * y_ptr.shape[0]",
            marks=pytest.mark.slow,
        ),
        (
            halo_kernel,
            _BLOCKS,
            (torch.zeros(_N + 8), torch.zeros(_N), _N),
            {"R": 9, "BLOCK": 64},
            "x_ptr.shape[0] = n + 8",
        ),
    ],
    ids=["multiple", "divisor", "product", "halo"],
)
def test_forms_of_relations(
    kernel: object,
    grid: tuple[int, ...],
    args: tuple[object, ...],
    constants: dict[str, object],
    relation: str,
) -> None:
    trace = ScriptTrace()
    trace.record(kernel, args, {**constants, "grid": grid})
    result = check_launches(trace, memory=1 << 30)
    assert [(r.text, r.launches) for r in _relations(result)] == [(relation, 1)]
    # A GPU rejects large grids along the second axis.
    assert not [f for f in result.report.failing if f.kind != "refused_launch"]


@triton.jit
def scaled_kernel(x_ptr, scale_ptr, n, group_size, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n) * tl.load(scale_ptr + offs // group_size, offs < n)
    tl.store(x_ptr + offs, x, mask=offs < n)


def test_a_number_of_groups_follows_from_an_argument() -> None:
    trace = ScriptTrace()
    args = (torch.zeros(4096), torch.zeros(86), 4096, 48)
    trace.record(scaled_kernel, args, {"BLOCK": 256, "grid": (16,)})
    result = check_launches(trace)
    assert result.verdict == "proved"
    assert _relations(result) == (SizeRelation("scale_ptr.shape[0] = cdiv(n, 48)", 1),)
    assert "cdiv(n, 48), only for group_size = 48" in _text(result)


_PRODUCT = """
from tests.prove.test_relations import outer_kernel, relations_of_product

print(*relations_of_product(outer_kernel))
"""


def relations_of_product(kernel: object) -> list[str]:
    trace = ScriptTrace()
    trace.record(kernel, (torch.zeros(5), torch.zeros(7), torch.zeros(35)), {"grid": (5, 7)})
    return [relation.text for relation in _relations(check_launches(trace, memory=1 << 30))]


@pytest.mark.slow
def test_relations_do_not_depend_on_the_hashes_of_strings() -> None:
    texts = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", _PRODUCT]
        texts.add(subprocess.check_output(command, env=environment, text=True, cwd=_ROOT))
    assert texts == {"o_ptr.shape[0] = x_ptr.shape[0] * y_ptr.shape[0]\n"}
