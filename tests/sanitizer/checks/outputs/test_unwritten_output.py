"""Partly written outputs are reported when the host reads them, or at the end of the run."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize

N, BLOCK, WRITTEN = 1000, 128, 896


@triton.jit
def twice(x_ptr, out_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n, other=0), mask=i < n)


@triton.jit
def copied(x_ptr, out_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def tail_left(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return an output whose last elements no program wrote, because the grid is rounded down."""
    out = torch.empty(N, dtype=dtype)
    twice[(N // BLOCK,)](torch.ones(N, dtype=dtype), out, N, B=BLOCK)
    return out


def found_in(use: Callable[[torch.Tensor], object]) -> list[Finding]:
    with sanitize() as report:
        use(tail_left())
    return list(report.findings)


X = torch.arange(float(N))
_READS: list[Callable[[torch.Tensor], object]] = [
    torch.sum, lambda out: torch.allclose(out, X), lambda out: out.numpy(), np.asarray,
    lambda out: out.tolist(), repr, lambda out: out[-1].item(), lambda out: out.clone(),
    lambda out: torch.cat([X, out]), lambda out: out.double(), lambda out: out @ X,
    lambda out: out.add_(1), lambda out: (out == 2).all(), lambda out: out[torch.tensor([3, 999])],
    lambda out: torch.where(X > 5, out, 0.0), lambda out: torch.add(X, out, out=torch.empty(N)),
    lambda out: torch.zeros(N).copy_(out), lambda out: out.view(10, 100).t().contiguous(),
    lambda out: list(map(float, out)), copy.deepcopy, np.from_dlpack,
]  # fmt: skip


@pytest.mark.parametrize("read", _READS)
def test_reads_of_unwritten_elements_are_reported(read: Callable[[torch.Tensor], object]) -> None:
    (finding,) = found_in(read)
    assert (finding.kind, finding.check, finding.severity) == (
        "unwritten_output",
        "initcheck",
        "error",
    )
    assert finding.argument is not None
    assert finding.argument.name == "out_ptr"


_OTHERS: list[Callable[[torch.Tensor], object]] = [
    lambda out: out[:WRITTEN].sum(), lambda out: out[5].item(), lambda out: out.shape,
    lambda out: out[torch.tensor([3, 4])], lambda out: out[X < WRITTEN],
    lambda out: torch.where(X < WRITTEN, out, 0.0), lambda out: out.masked_fill(X >= WRITTEN, 0),
    lambda out: (out[WRITTEN:].fill_(0), out.sum()), lambda out: (out.zero_(), out.sum()),
    lambda out: (torch.add(X, 1, out=out), out.sum()), lambda out: None,
    lambda out: (torch.empty_like(out), out.new_zeros(3), out.view(10, 100), out.detach()),
    lambda out: (twice[(8,)](X, out, N, B=BLOCK), out.sum()),
]  # fmt: skip


@pytest.mark.parametrize("use", _OTHERS)
def test_reads_of_written_elements_are_not_reported(use: Callable[[torch.Tensor], object]) -> None:
    assert found_in(use) == []


def test_message_of_a_finding() -> None:
    (finding,) = found_in(torch.sum)
    line = test_message_of_a_finding.__code__.co_firstlineno
    assert finding.message.startswith(
        "104 of 1,000 elements of `out_ptr` were never written, and the host reads them at line "
    )
    assert finding.notes == ("elements 896 to 999 of 1,000", "grid: (7, 1, 1)")
    (reader,) = finding.related
    assert reader.location is not None
    assert (reader.location.file, reader.message) == (__file__, "the host reads the tensor here")
    assert finding.message.endswith(f" line {reader.location.line}")
    assert finding.location is not None
    assert finding.location.file == __file__
    assert finding.location.line < line
    assert finding.launch is not None
    assert "triton.cdiv" in (finding.help or "")


def test_several_axes_and_pieces() -> None:
    with sanitize() as report:
        out = torch.empty(6, 50)
        for row in (0, 2, 5):
            twice[(1,)](torch.ones(50), out[row], 40 + row, B=64)
        copied[(1,)](torch.ones(300), out, 10, B=16)
        out.sum()
    whole = next(f for f in report.findings if f.notes[0].endswith("of 300"))
    assert "160 of 300" not in whole.message
    assert whole.notes[:2] == (
        "elements 40 to 99, 142 to 249 and 295 to 299 of 300".replace(" and", ","),
        "the first by index: [0, 40], [0, 41], [0, 42], …",
    )


@pytest.mark.parametrize("dtype", [
    torch.float64, torch.int32, torch.float16, torch.bfloat16, torch.int8, torch.float8_e5m2,
])  # fmt: skip
def test_elements_of_every_size(dtype: torch.dtype) -> None:
    with sanitize() as report:
        out = torch.empty(N + 1, dtype=dtype)
        copied[(N // BLOCK,)](torch.ones(N + 1).to(dtype), out, N + 1, B=BLOCK)
        out.clone()
        whole = torch.empty(N + 1, dtype=dtype)
        copied[(N // BLOCK + 1,)](torch.ones(N + 1).to(dtype), whole, N + 1, B=BLOCK)
        whole.clone()
    (finding,) = report.findings
    assert finding.message.startswith("105 of 1,001 elements")


def test_outputs_that_are_never_read_are_warned_of_at_the_end() -> None:
    with sanitize() as report:
        kept = tail_left()
    (finding,) = report.findings
    assert (finding.kind, finding.severity) == ("unwritten_output", "warning")
    assert "the run has ended" in finding.message
    del kept
    with sanitize() as report:
        written = tail_left()[:WRITTEN]  # only a view of the written elements remains
    assert report.findings == []
    assert written.sum() == 2 * WRITTEN
    with sanitize() as report:
        scratch = tail_left()
        twice[(7,)](scratch, torch.empty(WRITTEN), WRITTEN, B=BLOCK)  # another kernel reads it
    assert report.findings == []
    assert len(scratch) == N


def test_nothing_is_written_by_an_empty_grid() -> None:
    with sanitize() as report:
        out = torch.empty(100)
        twice[(100 // BLOCK,)](torch.ones(100), out, 100, B=BLOCK)
        out.sum()
    (finding,) = report.findings
    assert finding.message.startswith("100 of 100 elements")


def test_a_copy_of_unwritten_memory_is_reported_when_it_is_used() -> None:
    with sanitize() as report:
        out = torch.empty(64)
        copied[(1,)](torch.empty(64), out, 64, B=64)
    assert [(f.kind, f.severity) for f in report.findings] == [("uninit_read", "warning")]
    with sanitize() as report:
        middle, out = torch.empty(64), torch.empty(100)
        copied[(1,)](torch.empty(64), middle, 64, B=64)
        copied[(1,)](middle, out, 64, B=64)
        out.sum()
    ours = {f.kind: f for f in report.findings}
    assert set(ours) == {"uninit_read", "unwritten_output"}
    assert ours["uninit_read"].message.startswith(
        "elements that were never written were copied to 64 of 100 elements of `out_ptr`"
    )
    assert ours["uninit_read"].argument is not None
    assert ours["uninit_read"].argument.name == "x_ptr"
    assert ours["unwritten_output"].notes[0] == "elements 64 to 99 of 100"


def test_initialised_tensors_may_receive_copies() -> None:
    with sanitize() as report:
        out = torch.empty(64)
        twice[(1,)](torch.ones(64), out, 64, B=64)
        copied[(1,)](torch.empty(20), out, 20, B=64)
        assert out[20:].sum() == 88
    assert report.findings == []
    with sanitize() as report:
        out = torch.empty(64)
        twice[(1,)](torch.ones(64), out, 64, B=64)
        copied[(1,)](torch.empty(20), out, 20, B=64)
        out.sum()
    (finding,) = report.findings
    assert (finding.kind, finding.notes[0]) == ("uninit_read", "elements 0 to 19 of 64")


def tuned(*blocks: int) -> Any:
    configs = [triton.Config({"B": block}) for block in blocks]
    return triton.autotune(configs, key=["n"])(twice)


def rounded_down(meta: dict[str, int]) -> tuple[int]:
    return (N // meta["B"],)


def test_configurations_that_leave_a_part_unwritten() -> None:
    with sanitize(all_configs=True) as report:
        out = torch.empty(N)
        tuned(8, 128, 256)[rounded_down](torch.ones(N), out, N)
        assert out[:WRITTEN].sum() == 2 * WRITTEN
    (finding,) = report.findings
    assert [config["B"] for config in finding.configs] == [256]
    assert finding.notes[0] == "elements 768 to 895 of 1,000"
    with sanitize(all_configs=True) as report:
        out = torch.empty(N)
        tuned(8, 128, 256)[rounded_down](torch.ones(N), out, N)
        out.sum()
    (finding,) = report.findings
    assert [config["B"] for config in finding.configs] == [128, 256]


def test_elements_that_the_host_writes_count_as_written() -> None:
    with sanitize(all_configs=True) as report:
        out = torch.empty(N)
        tuned(128, 256, 8)[rounded_down](torch.ones(N), out, N)
        out[768:] = 0
        out.sum()
    assert report.findings == []


def test_a_read_does_not_keep_the_output_alive() -> None:
    with sanitize() as report:
        for _ in range(3):
            tail_left()
        stream = io.StringIO()
        print(tail_left()[:3], file=stream)
    assert report.findings == []
    assert stream.getvalue() == "tensor([2., 2., 2.])\n"


@triton.jit
def largest(x_ptr, out_ptr, B: tl.constexpr):
    tl.atomic_max(out_ptr, tl.max(tl.load(x_ptr + tl.arange(0, B)), 0))


def test_each_cause_is_reported_once() -> None:
    with sanitize() as report:
        out = torch.empty(1, dtype=torch.int32)
        largest[(1,)](torch.full((16,), -(1 << 31), dtype=torch.int32), out, B=16)
        out.item()
    assert [f.kind for f in report.findings] == ["uninit_read"]


@triton.jit
def through_table(table_ptr, index_ptr, out_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    x = tl.load(table_ptr + p).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + p, tl.sum(tl.load(x + tl.arange(0, B)), 0))
    tl.store(index_ptr + p, p)


def test_reads_by_the_sanitizer_are_not_reads_of_the_host() -> None:
    with sanitize() as report:
        rows, index, out = torch.ones(3, 16), torch.empty(5, dtype=torch.int64), torch.empty(3)
        table = torch.tensor([row.data_ptr() for row in rows])
        for _ in range(2):  # the sanitizer searches integer arguments for addresses
            through_table[(3,)](table, index, out, B=16)
        assert index[:3].tolist() == [0, 1, 2]
        assert out.tolist() == [16.0] * 3
    assert report.findings == []


@triton.jit
def halves_index_kernel(out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs // 2, offs, mask=offs < n)  # two lanes for each element


def test_elements_that_the_index_of_a_store_misses_are_not_blamed_on_the_grid() -> None:
    with sanitize() as report:
        out = torch.empty(64, dtype=torch.int32)
        halves_index_kernel[(4,)](out, 64, BLOCK=16)
        out.sum()
    overlap, unwritten = report.findings
    assert (overlap.kind, unwritten.kind) == ("overlapping_store", "unwritten_output")
    assert overlap.location is not None
    assert unwritten.help == (
        f"correct the index of the store in line {overlap.location.line}: several programs or "
        "lanes store to the same elements, and none stores to these"
    )
