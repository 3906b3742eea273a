"""Tests of launches: grids, orders, waiting programs, threads, forks and nested launches."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import kernel_text
import numpy as np
import pytest
import torch
import triton
from tests.forks import in_fork

from ttools.core.errors import KernelError
from ttools.interpreter import interpret

MARK = """
@triton.jit
def kernel(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    width, height = tl.num_programs(0), tl.num_programs(1)
    linear = x + width * (y + height * z)
    tl.atomic_add(out_ptr + linear, 1 + x + 1000 * y + 1000000 * z + tl.num_programs(2) * 10**8)
"""


@pytest.mark.smoke
@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize(
    "grid", [(1,), (7,), (3, 5), (2, 3, 4), (1, 1, 9), (0,), (4, 0), (0, 2, 2)], ids=str
)
def test_grids(grid: tuple[int, ...]) -> None:
    width, height, depth = (*grid, 1, 1)[:3]
    out = torch.zeros(depth, height, width, dtype=torch.int32)
    kernel_text.kernel(MARK)[grid](torch.zeros(1, dtype=torch.int32) if out.numel() == 0 else out)
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, 1 + x + 1000 * y + 1000000 * z + depth * 10**8)


TINY = """
@triton.jit
def kernel(out_ptr):
    i = tl.program_id(0)
    tl.store(out_ptr + i, i * 2)
"""


def test_a_million_programs() -> None:
    out = torch.zeros(10**6, dtype=torch.int32)
    with interpret() as run:
        kernel_text.kernel(TINY)[(10**6,)](out)
    assert torch.equal(out, torch.arange(10**6, dtype=torch.int32) * 2)
    assert run.stats[0].programs == 10**6


TICKETS = """
@triton.jit
def kernel(counter_ptr, ticket_ptr):
    tl.store(ticket_ptr + tl.program_id(0), tl.atomic_add(counter_ptr, 1))
"""


def tickets(count: int, **options: Any) -> list[int]:
    """Return the position of each program in the order of execution; -1 if it did not run."""
    ticket = torch.full((count,), -1, dtype=torch.int32)
    with interpret(threads=1, **options):
        kernel_text.kernel(TICKETS)[(count,)](torch.zeros(1, dtype=torch.int32), ticket)
    return ticket.tolist()


def test_orders() -> None:
    assert tickets(100) == list(range(100))
    assert tickets(100, order="reverse") == list(range(99, -1, -1))
    shuffled = tickets(100, order="random", seed=3)
    assert sorted(shuffled) == list(range(100)) != shuffled
    assert tickets(100, order="random", seed=3) == shuffled
    assert tickets(100, order="random", seed=4) != shuffled


def test_selected_programs() -> None:
    chosen = tickets(20, programs="0,5:8,last")
    assert [i for i, ticket in enumerate(chosen) if ticket >= 0] == [0, 5, 6, 7, 19]
    assert sum(ticket >= 0 for ticket in tickets(100, programs="random:13", seed=1)) == 13


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("order", ["natural", "reverse", "random"])
def test_order_and_threads_do_not_change_results(threads: int, order: Any) -> None:
    out = torch.zeros(5000, dtype=torch.int32)
    with interpret(threads=threads, order=order):
        kernel_text.kernel(TINY)[(5000,)](out)
    assert torch.equal(out, torch.arange(5000, dtype=torch.int32) * 2)


# --- programs that wait ---------------------------------------------------------------------------

BARRIER = """
@triton.jit
def kernel(arrived_ptr, x_ptr, out_ptr, n):
    i = tl.program_id(0)
    tl.store(x_ptr + i, i * i)
    tl.atomic_add(arrived_ptr, 1)
    while tl.atomic_add(arrived_ptr, 0) < n:
        pass
    tl.store(out_ptr + i, tl.load(x_ptr + (i + 1) % n))
"""
CHAIN = """
@triton.jit
def kernel(flag_ptr, total_ptr, STEP: tl.constexpr):
    i = tl.program_id(0)
    while tl.load(flag_ptr + i, volatile=True) == 0:
        pass
    total = tl.load(total_ptr + i, volatile=True)
    tl.store(total_ptr + i + STEP, total + i)
    tl.atomic_xchg(flag_ptr + i + STEP, 1)
"""


@pytest.mark.smoke
@pytest.mark.native_only
@pytest.mark.usefixtures("schedule")
def test_a_barrier_of_more_programs_than_threads() -> None:
    n = 100
    arrived, x, out = (torch.zeros(size, dtype=torch.int32) for size in (1, n, n))
    kernel_text.kernel(BARRIER)[(n,)](arrived, x, out, n)
    expected = torch.roll(torch.arange(n, dtype=torch.int32), -1) ** 2
    assert torch.equal(out, expected)


def test_a_barrier_warns_that_programs_must_be_co_resident() -> None:
    n = 40
    arrived, x, out = (torch.zeros(size, dtype=torch.int32) for size in (1, n, n))
    with interpret(threads=2) as run:
        kernel_text.kernel(BARRIER)[(n,)](arrived, x, out, n)
    assert any("co-residency" in warning for warning in run.warnings)


@pytest.mark.smoke
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_chain_of_flags_in_the_order_programs_start(threads: int) -> None:
    flags = torch.zeros(301, dtype=torch.int32)
    totals = torch.zeros(301, dtype=torch.int32)
    flags[0] = 1
    with interpret(threads=threads) as run:
        kernel_text.kernel(CHAIN)[(300,)](flags, totals, STEP=1)
    assert totals[300].item() == sum(range(300))
    assert run.warnings == []


@pytest.mark.parametrize("threads", [1, 3])
def test_a_chain_of_flags_against_the_order_programs_start(threads: int) -> None:
    flags = torch.zeros(101, dtype=torch.int32)
    totals = torch.zeros(101, dtype=torch.int32)
    flags[100] = 1
    with interpret(threads=threads) as run:
        kernel_text.kernel(CHAIN)[(100,)](flags[1:], totals[1:], STEP=-1)
    assert totals[0].item() == sum(range(100))
    assert any("co-residency" in warning for warning in run.warnings)


def test_endless_waiting_is_an_error() -> None:
    flags = torch.zeros(11, dtype=torch.int32)
    totals = torch.zeros(11, dtype=torch.int32)
    with interpret(), pytest.raises(KernelError, match="wait"):
        kernel_text.kernel(CHAIN)[(10,)](flags, totals, STEP=1)
    # Later launches work.
    test_a_chain_of_flags_in_the_order_programs_start(2)


# --- which kernels are interpreted ----------------------------------------------------------------


def test_the_same_kernel_at_the_same_line_of_two_files(tmp_path: Path) -> None:
    text = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x_ptr, n):\n"
        "    x = tl.load(x_ptr)\n    tl.device_assert(x < n, 'large')\n    tl.store(x_ptr, x + 1)\n"
    )
    x = torch.full((1,), 9, dtype=torch.int32)
    for name in ("first.py", "second.py"):
        path = tmp_path / name
        path.write_text(text)
        kernel = kernel_text.import_file(path).kernel
        with interpret(), pytest.raises(KernelError, match=name):
            kernel[(1,)](x, 5, debug=True)


def test_only_selected_kernels_are_interpreted() -> None:
    out = torch.zeros(4, dtype=torch.int32)
    kernel = kernel_text.kernel(TINY)
    with interpret(only=["kernel"]) as run:
        kernel[(4,)](out)
    assert [entry.launches for entry in run.stats] == [1]
    with interpret(only=lambda name: name.startswith("k")) as run:
        kernel[(4,)](out)
    assert [entry.launches for entry in run.stats] == [1]


# --- threads, forks, launches within launches -----------------------------------------------------

ADD = """
@triton.jit
def kernel(x_ptr, out_ptr, n, value, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes, mask=lanes < n) + value, mask=lanes < n)
"""


def add(value: int, size: int = 20_000) -> bool:
    x, out = torch.arange(size, dtype=torch.int32), torch.zeros(size, dtype=torch.int32)
    kernel_text.kernel(ADD)[(triton.cdiv(size, 64),)](x, out, size, value, BLOCK=64)
    return torch.equal(out, x + value)


@pytest.mark.usefixtures("native")
def test_concurrent_launches_from_many_threads() -> None:
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            for i in range(20):
                if not add(seed * 100 + i):
                    wrong.append((seed, i))
            n = 20
            arrived, x, out = (torch.zeros(size, dtype=torch.int32) for size in (1, n, n))
            kernel_text.kernel(BARRIER)[(n,)](arrived, x, out, n)
            if out[0].item() != 1:
                wrong.append((seed, "barrier"))
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.usefixtures("native")
def test_concurrent_compilation_of_the_same_kernel() -> None:
    kernel = kernel_text.kernel(ADD + "\n# made only here\n")
    outs = [torch.zeros(100, dtype=torch.int32) for _ in range(6)]
    x = torch.arange(100, dtype=torch.int32)
    threads = [
        threading.Thread(target=kernel[(4,)], args=(x, out, 100, 3), kwargs={"BLOCK": 32})
        for out in outs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(out, x + 3) for out in outs)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs `os.fork`")
@pytest.mark.usefixtures("native")
def test_launches_in_a_forked_child() -> None:
    # The threads of the pool exist before the fork, but not in the child.
    assert add(1)
    assert in_fork(lambda: add(2) and add(3)) == 0
    assert add(4)


@pytest.mark.usefixtures("native")
def test_a_launch_during_the_print_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    @triton.jit
    def kernel(x_ptr):
        tl.device_print("x", tl.load(x_ptr + tl.program_id(0)))
    """
    outcomes: list[bool] = []

    class Launching:
        def write(self, _: str) -> int:
            outcomes.append(add(len(outcomes)))
            return 0

        def flush(self) -> None:
            pass

    monkeypatch.setattr(sys, "stdout", Launching())
    kernel_text.kernel(text)[(3,)](torch.arange(3, dtype=torch.int32))
    monkeypatch.undo()
    assert outcomes
    assert all(outcomes)


@pytest.mark.usefixtures("native")
def test_a_launch_from_autograds_thread() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            assert add(5)
            return gradient * 2

    x = torch.ones(3, requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((3,), 2.0))


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.usefixtures("schedule")
def test_unaligned_and_strided_arguments() -> None:
    for start in (0, 1, 3, 16):
        storage = torch.arange(2000, dtype=torch.int32)
        out = torch.zeros(1000, dtype=torch.int32)
        x = storage[start : start + 900]
        kernel_text.kernel(ADD)[(15,)](x, out, 900, 7, BLOCK=64)
        assert torch.equal(out[:900], x + 7)
        assert not out[900:].any()


def test_none_and_constants_among_the_arguments() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, bias_ptr, out_ptr, scale, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + lanes) * scale
        if bias_ptr is not None:
            x += tl.load(bias_ptr + lanes)
        tl.store(out_ptr + lanes, x)
    """
    x, bias, out = torch.ones(16), torch.arange(16.0), torch.zeros(16)
    kernel = kernel_text.kernel(text)
    for scale in (1, 2, 2.5, 1e-3):
        for optional in (None, bias):
            with interpret():
                kernel[(1,)](x, optional, out, scale, BLOCK=16)
            expected = x * scale + (0 if optional is None else optional)
            torch.testing.assert_close(out, expected)


def test_a_kernel_compiled_once_serves_read_only_and_overlapping_arguments() -> None:
    x = torch.arange(1000, dtype=torch.int32)
    before = x.clone()
    with interpret():
        out = torch.zeros_like(x)
        kernel_text.kernel(ADD)[(16,)](x, out, 1000, 1, BLOCK=64)
        assert torch.equal(out, before + 1)
        kernel_text.kernel(ADD)[(16,)](x, x, 1000, 1, BLOCK=64)
        assert torch.equal(x, before + 1)
        kernel_text.kernel(ADD)[(1,)](x, x[16:], 64, 1, BLOCK=64)
        assert torch.equal(x[16:80], before[:64] + 2)
