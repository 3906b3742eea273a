"""Sizes of a script's launches are checked as far as the tensors fit into a GPU's memory."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from tests.prove import kernels

from ttools.core.errors import UsageError
from ttools.core.gpus.memory import DEFAULT_MEMORY, memory_text, read_memory
from ttools.prove.api import SizesResult
from ttools.prove.trace.check import check_launches
from ttools.prove.trace.inference import infer_template
from ttools.prove.trace.launches import ScriptTrace

_GB = 1 << 30
_LEAST = {"n": 2**31 + 1}


def _trace(kernel: object, *args: object, grid: int) -> ScriptTrace:
    """Return the trace of a launch, which is not executed."""
    trace = ScriptTrace()
    trace.record(kernel, args, {"BLOCK": 1024, "grid": (grid,)})
    return trace


@triton.jit
def rows_kernel(x_ptr, rows_ptr, n, BLOCK: tl.constexpr):
    """Read one element of each row, with an offset of 32 bits only for `x_ptr`."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows_ptr + wide * 11, mask=wide < n)
    tl.store(x_ptr + offs, row.to(tl.int8), mask=wide < n)


def _rows() -> ScriptTrace:
    n = 3000
    x, rows = torch.zeros(n, dtype=torch.int8), torch.zeros(n, 11, dtype=torch.float64)
    return _trace(rows_kernel, x, rows, n, grid=3)


def _sizes(result: SizesResult) -> list[object]:
    return [finding.sizes for finding in result.findings if finding.kind == "int_overflow"]


@pytest.mark.slow  # tests/prove/test_script.py has the same launch
def test_a_failure_whose_tensors_fit_is_reported() -> None:
    x = torch.zeros(3000, dtype=torch.int8)
    result = check_launches(_trace(kernels.copy_kernel, x, torch.empty_like(x), 3000, grid=3))
    assert _sizes(result) == [_LEAST]
    assert result.report.sizes is not None
    assert result.report.sizes.checked == {"n": (1, DEFAULT_MEMORY // 2)}
    assert "all sizes whose tensors fit in 80 GB" in str(result)


def test_a_failure_whose_tensors_do_not_fit_is_reported_only_with_more_memory() -> None:
    default = check_launches(_rows())  # 89 bytes for each n: 178 GB where the offset wraps
    assert (default.verdict, _sizes(default)) == ("proved", [])
    assert "proved for all sizes whose tensors fit in 80 GB" in str(default)
    assert "the tensors of a launch fit in 80 GB of memory" in default.report.sizes.assumptions  # type: ignore[union-attr]
    larger = check_launches(_rows(), memory=400 * _GB)
    assert _sizes(larger) == [_LEAST]
    assert "whose tensors fit in 400 GB" in str(larger)


def test_the_limit_is_that_of_all_tensors_together() -> None:
    most = DEFAULT_MEMORY // 89
    proved = check_launches(_rows())
    assert proved.report.sizes is not None
    assert proved.report.sizes.checked == {"n": (1, most)}
    at_limit = check_launches(_rows(), memory=89 * (2**31 + 1))
    assert _sizes(at_limit) == [_LEAST]
    assert check_launches(_rows(), memory=89 * (2**31 + 1) - 1).verdict == "proved"


def test_ranges_of_all_sizes_replace_the_limit() -> None:
    result = check_launches(_rows(), {"n": (1, 1 << 33)})
    assert _sizes(result) == [_LEAST]
    assert not any("memory" in text for text in result.report.sizes.assumptions)  # type: ignore[union-attr]
    both = check_launches(_rows(), {"n": (1, 1 << 33)}, memory=80 * _GB)
    assert both.verdict == "proved"
    assert "whose tensors fit in 80 GB (n = 1 to 8,589,934,592)" in " ".join(str(both).split())


@triton.jit
def expanded_kernel(x_ptr, y_ptr, n, stride, BLOCK: tl.constexpr):
    """Add elements to one of few counters, whose number wraps if `offs` does."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride, mask=offs < n, other=0.0)
    tl.atomic_add(y_ptr + offs // 4194304, x, mask=offs < n)


def test_a_failure_of_an_expanded_tensor_is_reported() -> None:
    x, n = torch.ones(1).expand(3000), 3000
    trace = _trace(expanded_kernel, x, torch.zeros(2048), n, x.stride(0), grid=3)
    (template,) = (infer_template(launch, {}) for launch in trace.launches)
    assert template.sizes == {"n": 3000}
    assert template.ends({}) == {"n": (1, 1 << 33)}
    result = check_launches(trace)
    assert _sizes(result) == [_LEAST]
    assert "whose tensors fit in 80 GB (n = 1 to 8,589,934,592)" in " ".join(str(result).split())


@triton.jit
def weighted_kernel(x_ptr, w_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(x_ptr + offs, x + tl.load(w_ptr), mask=offs < n)


def test_a_tensor_of_constant_size_counts() -> None:
    x, weight = torch.zeros(3000, dtype=torch.int8), torch.zeros(1 << 20, dtype=torch.int8)
    trace = _trace(weighted_kernel, x, weight, 3000, grid=3)
    (template,) = (infer_template(launch, {"n": (1, 9)}, 1 << 21) for launch in trace.launches)
    assert template.ends({}) == {"n": (1, 1 << 20)}
    assert _sizes(check_launches(trace)) == [_LEAST]
    # Nothing fits, so nothing is claimed.
    nothing = check_launches(trace, memory=1 << 20)
    assert nothing.verdict == "not proved"
    assert "no launch is possible for all sizes whose tensors fit in 1 MB" in str(nothing)


@triton.jit
def scale_kernel(x_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for begin in range(0, columns, BLOCK):
        offs = begin + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + offs, mask=offs < columns)
        tl.store(x_ptr + row * columns + offs, x, mask=offs < columns)


@pytest.mark.slow
def test_the_limit_holds_for_several_sizes_together() -> None:
    x = torch.zeros(300, 3000, dtype=torch.float64)
    trace = ScriptTrace()
    trace.record(scale_kernel, (x, 300, 3000), {"BLOCK": 1024, "grid": (300,)})
    small = check_launches(trace, memory=4 * _GB)
    assert small.verdict == "proved"  # 2^29 elements, so that row * columns cannot wrap
    assert small.report.sizes is not None
    assert small.report.sizes.checked == {"rows": (1, 1 << 29), "columns": (1, 1 << 29)}
    large = check_launches(trace)
    for finding in large.findings:
        assert finding.sizes is not None
        assert 8 * finding.sizes["rows"] * finding.sizes["columns"] <= DEFAULT_MEMORY
    assert large.verdict == "fails"


@pytest.mark.parametrize(
    ("text", "amount", "shown"),
    [
        ("80GB", 80 << 30, "80 GB"),
        ("1.5 TiB", 3 << 39, "1.5 TB"),
        ("4096", 4096, "4 KB"),
        ("24gb", 24 << 30, "24 GB"),
        ("100B", 100, "100 B"),
    ],
)
def test_amounts_of_memory(text: str, amount: int, shown: str) -> None:
    assert (read_memory(text), memory_text(amount)) == (amount, shown)


@pytest.mark.parametrize("text", ["", "0GB", "-1GB", "80 XB", "GB", "1e9"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an amount of memory"):
        read_memory(text)
