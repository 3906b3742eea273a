"""Kernels whose programs wait for each other: what happens after a wait may be ordered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.prove.analysis import Analysis


@triton.jit
def locked_kernel(lock_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + offs, mask=offs < n)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr + offs, x + tl.load(out_ptr + offs, mask=offs < n), mask=offs < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def stores_before_the_lock_kernel(lock_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.store(out_ptr, tl.program_id(0).to(tl.float32))
    locked_kernel(lock_ptr, x_ptr, out_ptr, n, BLOCK)


@triton.jit
def stores_twice_under_the_lock_kernel(lock_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs // 2, offs.to(tl.float32), mask=offs < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def chained_kernel(flag_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid > 0:
        while tl.load(flag_ptr, volatile=True) < pid:
            pass
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + pid * n + offs, mask=offs < n), mask=offs < n)
    tl.debug_barrier()
    tl.atomic_add(flag_ptr, 1)


def _run(kernel: Any) -> Callable[[Any], None]:
    def run(n: Any) -> None:
        lock = torch.zeros(1, dtype=torch.int32)
        kernel[(4,)](lock, torch.ones(4, n), torch.zeros(n), n, BLOCK=64)

    return run


@pytest.mark.parametrize("kernel", [locked_kernel, chained_kernel])
def test_accesses_after_a_wait_are_neither_refuted_nor_proved(kernel: Any) -> None:
    result = Analysis(_run(kernel), {"n": (1, 64)}).analyse()
    assert not result.defects
    assert result.verdict == "not proved"


@pytest.mark.parametrize(
    ("kernel", "least"),
    [(stores_before_the_lock_kernel, 1), (stores_twice_under_the_lock_kernel, 2)],
)
def test_stores_that_no_lock_orders_are_refuted(kernel: Any, least: int) -> None:
    result = Analysis(_run(kernel), {"n": (1, 64)}).analyse()
    defects = [(d.event.kind, d.sizes["n"]) for d in result.defects]
    assert ("overlapping_store", least) in defects
