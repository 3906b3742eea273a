"""The text of proofs: a line for each kernel, without formulas, and locations in users' files."""

from __future__ import annotations

import inspect
from dataclasses import replace
from textwrap import wrap

import torch
import triton
import triton.language as tl
from tests.prove import kernels

from ttools.core.reports.registry import write_report
from ttools.interpreter import interpret
from ttools.prove.api import SizesResult, prove
from ttools.prove.trace.check import check_launches
from ttools.prove.trace.launches import ScriptTrace, trace_launches


def _short(result: SizesResult) -> str:
    """Return the text without `-v`, in one line."""
    return " ".join(write_report(result.report, "text").split())


def _rows(text: str) -> int:
    """Return how many rows of 80 columns a text takes."""
    return sum(max(1, len(wrap(line, 80))) for line in text.splitlines())


def test_a_defect_of_several_launches_is_shown_once() -> None:
    trace, x = ScriptTrace(), torch.zeros(3000, dtype=torch.int8)
    for block in (512, 1024):
        grid = (triton.cdiv(3000, block),)
        trace.record(
            kernels.copy_kernel, (x, torch.empty_like(x), 3000), {"BLOCK": block, "grid": grid}
        )
    result = check_launches(trace)
    (finding,) = result.findings
    assert "1 further launch of `copy_kernel` has the same defect" in finding.notes
    assert _short(result).count("`copy_kernel`: failed at n = 2,147,483,649, the least") == 1
    assert [entry.count for entry in result.report.launches] == [2]
    lines = write_report(result.report, "text").splitlines()
    (first,) = [n for n, line in enumerate(lines) if "error[int_overflow]: " in line]
    assert len(lines[first]) <= max(80, lines[first].index("error[int_overflow]:") + 20)
    assert "at n = 2,147,483,649" in " ".join(lines[first : first + 2])


@triton.jit
def rows_kernel(x_ptr, y_ptr, D, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    offs = tl.program_id(0) * D + columns
    x = tl.load(x_ptr + offs, mask=columns < D)
    tl.store(y_ptr + offs, x, mask=columns < D)


def _copy_rows(x: torch.Tensor) -> None:
    rows, columns = x.shape
    y = torch.empty_like(x)
    rows_kernel[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))


def test_a_kernel_that_cannot_be_compiled_is_located_in_the_script() -> None:
    with trace_launches() as trace, interpret():
        _copy_rows(torch.zeros(30, 200, dtype=torch.int8))
    # Offsets wrap with the recorded BLOCK; the BLOCK of these sizes is too large for Triton.
    result = check_launches(trace, {"x_ptr.shape[0]": (1, 1 << 16), "D": (1048577, 1048587)})
    assert result.verdict == "not proved"
    assert result.report.sizes is not None
    (unproved,) = result.report.sizes.abstained
    source, first = inspect.getsourcelines(_copy_rows)
    assert unproved.file == __file__
    assert unproved.line is not None
    assert first <= unproved.line < first + len(source)
    assert "`rows_kernel`: unknown for x_ptr.shape[0] = 1 to 65,536" in _short(result)
    assert "Triton cannot compile the kernel: numel (2097152) exceeds" in _short(result)


@triton.jit
def sum_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.int32)
    at = x_ptr + tl.arange(0, BLOCK)
    for k in range(0, n, BLOCK):
        total += tl.load(at, mask=k + tl.arange(0, BLOCK) < n, other=0)
        at += BLOCK
    tl.store(y_ptr + tl.arange(0, BLOCK), total)


def _sum(n: int) -> None:
    sum_kernel[(1,)](torch.zeros(n, dtype=torch.int8), torch.empty(64), n, BLOCK=64)


def test_a_loop_counter_has_its_own_type() -> None:
    """The loop carries a pointer, which is not what wraps."""
    result = prove(_sum, n=(2**31 - 100, 2**31 - 1))
    messages = [f.message for f in result.findings if "loop counter" in f.message]
    assert messages
    assert all(m.startswith("an int32 loop counter wraps around") for m in messages)
    assert "tt.ptr" not in str(result)


def test_the_text_of_a_kernel_is_short_and_has_no_formulas() -> None:
    for result in (
        prove(kernels.copy, n=range(1, 1 << 33)),
        prove(kernels.gather_random, n=range(1, 1 << 20)),
        prove(kernels.copy, n=range(1, 1 << 20)),
    ):
        text = write_report(result.report, "text")
        assert _rows(text) <= 40
        assert "not shown to be between" not in text
        assert "assumed:" not in text
        assert "data" not in text


def test_json_has_the_verdict_on_each_kernel() -> None:
    result = prove(kernels.copy, n=range(1, 1 << 33))
    assert result.report.sizes is not None
    (kernel,) = result.report.sizes.as_data()["kernels"]
    assert kernel == {
        "kernel": "copy_kernel",
        "verdict": "failed",
        "scope": "n = 1 to 8,589,934,591",
        "failing": {"n": 2**31 + 1},
        "relations": [],
        "kept": {},
    }


def test_findings_at_the_script_s_own_sizes_come_first() -> None:
    report = prove(kernels.copy, n=range(1, 1 << 33)).report
    (finding,) = report.findings
    own = replace(finding, sizes=None, message="an own finding")
    text = write_report(replace(report, findings=(finding, own)), "text")
    assert text.index("an own finding") < text.index("`copy_kernel`: failed at")
