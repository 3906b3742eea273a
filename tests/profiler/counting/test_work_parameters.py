"""The arguments that decide the counts of a launch, and launches that are counted afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.profiler import profile
from ttools.profiler.counting.work_parameters import Decisive, decisive_of
from ttools.profiler.gpu.counted_launches import GpuCounting
from ttools.profiler.gpu.equal_launches import MadeCall
from ttools.profiler.run.origin import Origin


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, rate, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offs, mask=offs < n), tl.load(y_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + rate * y, mask=offs < n)


@triton.jit
def turns_kernel(x_ptr, out_ptr, turns, rate, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    for _ in range(turns):
        x = x * rate
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.where(x > 0, x, 0.0))


@triton.jit
def gather_kernel(index_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + tl.load(index_ptr + offs)))


@triton.jit
def length_kernel(length_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    mask = offs < tl.load(length_ptr)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


X, Y, OUT = (torch.ones(64) for _ in range(3))
INDEX = torch.zeros(64, dtype=torch.int64)


@pytest.mark.parametrize(
    ("kernel", "arguments", "expected"),
    [
        (add_kernel, (X, Y, OUT, 60, 2.0, 64), Decisive(numbers=(3,), memory=False, alike=(0, 1))),
        (turns_kernel, (X, OUT, 5, 2.0, 64), Decisive(numbers=(2,), memory=False, alike=())),
        (
            gather_kernel,
            (INDEX, X, OUT, 64),
            Decisive(numbers=(), memory=True, alike=(0, 1), read=(0,)),
        ),
        (
            length_kernel,
            (INDEX, X, OUT, 64),
            Decisive(numbers=(), memory=True, alike=(0, 1), read=(0,)),
        ),
    ],
)
def test_deciding_arguments(kernel: Any, arguments: tuple[Any, ...], expected: Decisive) -> None:
    assert decisive_of(kernel[(1,)](*arguments).asm["ttir"]) == expected


def test_unreadable_modules_are_unknown() -> None:
    assert decisive_of("no module") is None


def made(*launches: tuple[Any, ...]) -> list[MadeCall]:
    """Return the launches that a session on a GPU records, without their times."""
    watch = GpuCounting(None, counts=True, origin=Origin("shadow"))
    with watch.watching():
        for kernel, *arguments in launches:
            kernel[(1,)](*arguments)
    watch.count()
    assert watch.notes == {}
    return watch.launches


def test_launches_share_counts_by_deciding_arguments() -> None:
    calls = made(
        (add_kernel, X, Y, OUT, 60, 2.0, 64),
        (add_kernel, X, Y, OUT, 30, 2.0, 64),
        (add_kernel, Y, OUT, X, 60, 3.0, 64),
        (add_kernel, X, X, OUT, 60, 2.0, 64),
        (turns_kernel, X, OUT, 5, 2.0, 64),
        (turns_kernel, X, OUT, 7, 2.0, 64),
    )
    counts = [call.launch.counts for call in calls]
    assert [c.unique_loaded for c in counts if c] == [480, 240, 480, 240, 256, 256]
    assert [c.total.flops for c in counts if c] == [*[128] * 4, 5 * 64, 7 * 64]
    assert counts[0] is counts[2]
    assert all(c.exact for c in counts if c)


def test_launches_without_constants_are_not_recorded() -> None:
    compiled = add_kernel[(1,)](X, Y, OUT, 60, 2.0, 64)
    watch = GpuCounting(None, counts=True, origin=Origin("shadow"))
    with watch.watching():
        compiled[(1, 1, 1)](X, Y, OUT, 60, 2.0)
        assert watch.launches == []
        compiled[(1, 1, 1)](X, Y, OUT, 60, 2.0)
    assert watch.launches == []


def test_counts_that_depend_on_memory_use_its_contents_at_the_launch() -> None:
    index, length = torch.arange(64), torch.tensor([10])
    watch = GpuCounting(None, counts=True, origin=Origin("shadow"))
    with watch.watching():
        gather_kernel[(1,)](index, X, OUT, 64)
        length_kernel[(1,)](length, X, OUT, 64)
        index.zero_()
        length.zero_()
        gather_kernel[(1,)](index, X, OUT, 64)
        length_kernel[(1,)](length, X, OUT, 64)
    watch.count()
    counts = [launch.launch.counts for launch in watch.launches]
    assert [c.unique_loaded for c in counts if c] == [64 * 12, 8 + 40, 64 * 8 + 4, 8]
    assert not any(c.estimated for c in counts if c)


def test_counts_that_depend_on_memory_are_not_shared_on_the_cpu() -> None:
    with profile() as prof:
        for index in (torch.arange(64), INDEX):
            gather_kernel[(1,)](index, X, OUT, 64)
    analysis = prof.analyse()
    assert [s.counts.unique_loaded for s in analysis.samples if s.counts] == [
        64 * 12,
        64 * 8 + 4,
    ]
    assert analysis.frame["told_by"][0] == "counts"
