"""Warm-up launches, and launches that are repeated on the same memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import UsageError
from ttools.profiler import profile
from ttools.profiler.gpu.counted_launches import GpuCounting
from ttools.profiler.run.origin import Origin
from ttools.profiler.run.repetition import Repetition


@triton.jit
def accumulate_kernel(x_ptr, total_ptr, n, rate, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n) + rate
    tl.store(x_ptr + offs, x, mask=offs < n)
    tl.atomic_add(total_ptr, 1)


@triton.jit
def table_kernel(table_ptr, BLOCK: tl.constexpr):
    row = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offs = tl.arange(0, BLOCK)
    tl.store(row + offs, tl.load(row + offs) + 1.0)


def run(sizes: list[int], **options: Any) -> tuple[Any, list[float]]:
    """Launch once per size on the same tensors; return the profile and the final contents."""
    x, total = torch.zeros(64), torch.zeros(1, dtype=torch.int32)
    with profile(**options) as prof:
        for number, n in enumerate(sizes):
            accumulate_kernel[(2,)](x, total, n, 1.0 + number, BLOCK=32)
    return prof, [float(x[0]), float(x[40]), float(total)]


def test_each_kind_of_launch_has_its_own_warm_up() -> None:
    prof, memory = run([64, 64, 64, 20, 20, 64], warmup=2)
    # `rate` changes with every launch, but does not affect its work.
    analysis = prof.analyse()
    assert [sample.counts.total.stored for sample in analysis.samples] == [256, 256]
    assert memory == [21.0, 12.0, 12.0]
    assert analysis.notes == {}


@pytest.mark.parametrize(("warmup", "launches"), [(0, 12), (3, 12), (1, 12)])
def test_repeated_launches_have_the_effect_of_one(warmup: int, launches: int) -> None:
    prof, memory = run([64, 20, 64], warmup=warmup, iterations=4)
    assert memory == [6.0, 4.0, 6.0]
    analysis = prof.analyse()
    assert analysis.frame["launches"][0] == launches
    assert len(analysis.seconds["accumulate_kernel", ""]) == launches


def test_a_kernel_that_only_warmed_up_is_reported() -> None:
    prof, _ = run([64, 20], warmup=1)
    analysis = prof.analyse()
    assert analysis.launches == 0
    assert "all launches only warmed up" in analysis.notes["accumulate_kernel"]


def test_launches_with_unknown_stores_are_not_repeated() -> None:
    x = torch.zeros(2, 16)
    table = torch.tensor([row.data_ptr() for row in x])
    with profile(iterations=3) as prof:
        table_kernel[(2,)](table, BLOCK=16)
    assert x.tolist() == torch.ones(2, 16).tolist()
    assert "unknown which memory" in prof.analyse().notes["table_kernel"]


def test_launches_on_a_gpu_are_repeated_immediately() -> None:
    x, total = torch.zeros(64), torch.zeros(1, dtype=torch.int32)
    watch = GpuCounting(
        None,
        counts=True,
        origin=Origin("shadow"),
        repetition=Repetition(warmup=1, iterations=3),
    )
    with watch.watching():
        for _ in range(2):
            accumulate_kernel[(2,)](x, total, 64, 1.0, BLOCK=32)
    watch.count()
    assert (float(x[0]), int(total)) == (2.0, 4)
    assert [call.warmup for call in watch.launches] == [True, *[False] * 6]
    assert {call.launch.counts.total.atomic for call in watch.launches if call.launch.counts} == {8}


@pytest.mark.parametrize("options", [{"warmup": -1}, {"iterations": 0}])
def test_wrong_numbers(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="must be the number"):
        profile(**options)  # type: ignore[arg-type]
