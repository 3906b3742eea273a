"""Unwritten memory of a GPU: launches work on copies of it, and the host reads it afterwards.

The GPU is emulated: a patch lets the sanitizer take chosen host tensors for GPU tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter.backend import launcher
from ttools.interpreter.run import device_copies
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer import sanitize, session
from ttools.sanitizer.launch import checked
from ttools.sanitizer.memory.device_storages import DeviceStorage, fill_bytes
from ttools.sanitizer.memory.host_storages import weak_reference
from ttools.sanitizer.memory.pattern import grain_of, holding

N, BLOCK, WRITTEN = 1000, 128, 896


@triton.jit
def twice(x_ptr, out_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n, other=0), mask=i < n)


@triton.jit
def rest(out_ptr, first, n, B: tl.constexpr):
    i = first + tl.arange(0, B)
    tl.store(out_ptr + i, i * 1.0, mask=i < n)


@triton.jit
def total(x_ptr, out_ptr, B: tl.constexpr):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, B))))


class EmulatedStorage(DeviceStorage):
    """A storage of the host that represents a storage of a GPU."""

    def current_bytes(self, first: int, end: int) -> Any:
        return memory(self.start + first, self.start + end).copy()


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that moves a tensor to the emulated GPU, where it stays unwritten."""
    there: set[int] = set()

    def is_here(each: Any) -> bool:
        storage = each.untyped_storage() if hasattr(each, "untyped_storage") else each
        return storage.data_ptr() not in there

    monkeypatch.setattr(device_copies, "on_host", is_here)
    monkeypatch.setattr(checked, "on_host", is_here)
    monkeypatch.setattr(launcher, "has_device_memory", lambda: True)

    def move(tensor: torch.Tensor) -> torch.Tensor:
        (active,) = session._active
        storage = tensor.untyped_storage()
        start, nbytes = storage.data_ptr(), storage.nbytes()
        there.add(start)
        allocation = active._memory.find(start)
        if allocation is not None and allocation.may_be_unwritten:
            pattern = active._memory.new_pattern(tensor)
            fill_bytes(torch.empty(0, dtype=torch.uint8).set_(storage), pattern)
            reference = weak_reference()(storage)
            active._memory.put(
                EmulatedStorage(reference, start, nbytes, pattern, grain_of(tensor), "cuda:0")
            )
        return tensor

    return move


Move = Callable[[torch.Tensor], torch.Tensor]


def tail_left(on_gpu: Move, programs: int = N // BLOCK) -> torch.Tensor:
    """Return an output whose last elements no program wrote, because the grid is rounded down."""
    x, out = on_gpu(torch.ones(N)), on_gpu(torch.empty(N))
    twice[(programs,)](x, out, N, B=BLOCK)
    return out


@pytest.mark.parametrize("nbytes", [8, 13, 4000])
def test_memory_is_filled_with_a_word(nbytes: int) -> None:
    whole, pattern = torch.zeros(nbytes, dtype=torch.uint8), bytes(range(0xE0, 0xE8))
    fill_bytes(whole, pattern)
    assert holding(whole.numpy(), pattern).all()


@pytest.mark.parametrize(
    "read",
    [torch.sum, lambda out: out.clone(), lambda out: out[-1].item(), lambda out: out.tolist()],
)
def test_the_host_reads_unwritten_elements(on_gpu: Move, read: Callable[..., Any]) -> None:
    with sanitize() as report:
        read(tail_left(on_gpu))
    (finding,) = report.findings
    assert finding.kind == "unwritten_output"
    assert finding.argument is not None
    assert finding.argument.name == "out_ptr"
    assert f"{N - 1} of 1,000" in " ".join([finding.message, *finding.notes])
    assert report.warnings == []


def test_a_kernel_reads_unwritten_elements(on_gpu: Move) -> None:
    with sanitize() as report:
        sums = on_gpu(torch.zeros(1))
        out = tail_left(on_gpu)
        total[(1,)](out, sums, B=512)
        assert report.findings == []
        workspace = on_gpu(torch.empty(64))
        total[(1,)](workspace, sums, B=64)
    assert [finding.kind for finding in report.findings if finding.severity == "error"] == [
        "uninit_read"
    ]


def test_written_elements_are_no_finding(on_gpu: Move) -> None:
    with sanitize() as report:
        tail_left(on_gpu, triton.cdiv(N, BLOCK)).sum()
        tail_left(on_gpu)[:WRITTEN].sum()
        out = tail_left(on_gpu)
        rest[(1,)](out, WRITTEN, N, B=BLOCK)
        assert out.tolist()[-1] == N - 1
        filled = tail_left(on_gpu)
        filled[WRITTEN:] = 3.0  # an operator on the GPU writes without a report to the sanitizer
        filled.sum()
    assert report.findings == []
    assert report.warnings == []


def test_launches_of_memory_from_before_the_run(on_gpu: Move) -> None:
    x, out = torch.ones(N), torch.empty(N)
    with sanitize() as report:
        twice[(N // BLOCK,)](on_gpu(x), on_gpu(out), N, B=BLOCK)
        out.sum()
    assert report.findings == []
