"""Atomic loads and stores are counted as loads and stores, not as updates."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.abi.module import Instruments
from ttools.profiler.counting.counter import WorkCounter
from ttools.profiler.counting.counts import WorkCounts

pytestmark = pytest.mark.skipif(
    not hasattr(tl, "atomic_poll"), reason="this Triton has no atomic loads"
)


class _Counting:
    """Counts each launch before it runs."""

    def __init__(self) -> None:
        self.counter = WorkCounter()
        self.counts: list[WorkCounts] = []

    def launch(self, launch):
        self.counts.append(self.counter.count(launch))
        return launch.execute(Instruments())


@triton.jit
def copy_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.atomic_load(x_ptr + lanes, mask=lanes < n)
    tl.atomic_store(o_ptr + lanes, value, mask=lanes < n)


@triton.jit
def wait_kernel(x_ptr, flag_ptr, o_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(o_ptr + lanes, tl.load(x_ptr + lanes))
        tl.atomic_store(flag_ptr, 1)
    else:
        tl.atomic_poll(flag_ptr, 1)
        tl.atomic_add(o_ptr + lanes, tl.load(o_ptr + lanes))


def test_atomic_loads_are_counted_as_loads() -> None:
    observer = _Counting()
    x, o = torch.ones(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    with interpret(observer=observer):
        copy_kernel[(1,)](x, o, 50, BLOCK=64)
    (counts,) = observer.counts
    total = counts.total
    assert (total.loaded, total.stored, total.atomic) == (200, 200, 0)
    assert (counts.unique_loaded, counts.unique_stored) == (200, 200)
    assert not counts.updates


def test_waiting_programs_are_counted_during_execution() -> None:
    observer = _Counting()
    x, flag, o = (torch.ones(n, dtype=torch.int32) for n in (64, 1, 64))
    flag.zero_()
    with interpret(observer=observer):
        wait_kernel[(2,)](x, flag, o, BLOCK=64)
    (counts,) = observer.counts
    # The number of polls of the word depends on the host.
    assert counts.total.loaded >= 2 * 256 + 4
    assert (counts.total.stored, counts.total.atomic) == (256 + 4, 256)
    assert list(counts.updates) == ["i32"]
    assert o.tolist() == [2] * 64
