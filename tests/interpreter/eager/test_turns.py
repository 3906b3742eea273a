"""Tests of eager programs that wait for each other, which are scheduled as in native code."""

from __future__ import annotations

import bdb
import inspect
import runpy
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Literal

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import KernelError
from ttools.interpreter import interpret
from ttools.interpreter.eager import memory


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_PATIENCE", 2_000)


@triton.jit
def sums_so_far(x_ptr, out_ptr, flag_ptr, BLOCK: tl.constexpr):
    """Compute sums; each program waits for the next one, which begins later."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    own = tl.sum(tl.load(x_ptr + offsets), 0)
    before = 0.0
    if pid < tl.num_programs(0) - 1:
        while tl.atomic_add(flag_ptr + pid + 1, 0) == 0:
            pass
        before = tl.load(out_ptr + pid + 1)
    tl.store(out_ptr + pid, own + before)
    tl.atomic_xchg(flag_ptr + pid, 1)


@triton.jit
def back_and_forth(log_ptr, flag_ptr, turns):
    """Alternate between two programs, which change shared data under a lock."""
    pid = tl.program_id(0)
    for turn in range(turns):
        while tl.atomic_add(flag_ptr, 0) != turn * 2 + pid:
            pass
        while tl.atomic_cas(flag_ptr + 1, 0, 1) == 1:
            pass
        tl.store(log_ptr + turn * 2 + pid, tl.load(flag_ptr + 2))
        tl.store(flag_ptr + 2, tl.load(flag_ptr + 2) + pid + 1)
        tl.atomic_xchg(flag_ptr + 1, 0)
        tl.atomic_add(flag_ptr, 1)


@triton.jit
def polls(out_ptr, flag_ptr):
    """Poll a flag 300 times, and then give up."""
    total = 0
    for _ in range(300):
        total += tl.atomic_add(flag_ptr, 0)
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def circle(flag_ptr, n):
    pid = tl.program_id(0)
    if pid == 3:
        tl.device_assert(n > 0, "no room")
    while tl.atomic_add(flag_ptr + pid, 0) == 0:
        pass
    tl.atomic_xchg(flag_ptr + (pid + 1) % n, 1)


@pytest.mark.parametrize("order", ["natural", "reverse", "random"])
def test_each_program_waits_for_the_next(order: Literal["natural", "reverse", "random"]) -> None:
    x = torch.arange(64.0)
    out, flags = torch.zeros(8), torch.zeros(8, dtype=torch.int32)
    with interpret(engine="eager", order=order):
        sums_so_far[(8,)](x, out, flags, BLOCK=8)
    rows = x.reshape(8, 8).sum(1)
    assert torch.equal(out, rows.flip(0).cumsum(0).flip(0))


def eager_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "eager programs"]


def test_alternating_programs_agree_with_native_code() -> None:
    logs = []
    for engine in ("native", "eager"):
        log = torch.zeros(10, dtype=torch.int32)
        with interpret(engine=engine):
            back_and_forth[(2,)](log, torch.zeros(3, dtype=torch.int32), 5)
        logs.append(log.tolist())
    assert logs[0] == logs[1] == [0, 1, 3, 4, 6, 7, 9, 10, 12, 13]


def test_a_sum_under_a_lock_agrees_with_native_code() -> None:
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "layer_norm.py"))
    with interpret(threads=1):
        native = example["main"]()
    with interpret(engine="eager"):
        eager = example["main"]()
    torch.testing.assert_close(eager, native)


def test_polling_without_waiting_is_no_deadlock() -> None:
    out = torch.full((3,), -1, dtype=torch.int32)
    with interpret(engine="eager"):
        polls[(3,)](out, torch.zeros(1, dtype=torch.int32))
    assert out.tolist() == [0, 0, 0]


def test_a_deadlock_is_an_error_that_names_the_programs() -> None:
    with (
        interpret(engine="eager"),
        pytest.raises(KernelError, match=r"program .2, 0, 0. waits for memory") as raised,
    ):
        circle[(3,)](torch.zeros(3, dtype=torch.int32), 3)
    assert "also waiting: (0, 0, 0), (1, 0, 0)" in str(raised.value)
    assert raised.value.kind == "deadlock"
    assert raised.value.location is not None
    lines, first = inspect.getsourcelines(circle.fn)
    offset = next(n for n, line in enumerate(lines) if "while" in line)
    assert raised.value.location.line == first + offset
    assert not eager_threads()


def test_an_error_ends_waiting_programs() -> None:
    with interpret(engine="eager"), pytest.raises(KernelError, match="no room"):
        circle[(4,)](torch.zeros(4, dtype=torch.int32), 0, debug=True)
    assert not eager_threads()


class _Stops(bdb.Bdb):
    """A debugger that records the id of each program in which it stops."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def user_line(self, frame: FrameType) -> None:
        if "pid" in frame.f_locals:
            self.seen.append(str(frame.f_locals["pid"]))
        self.set_continue()


def test_a_debugger_stops_in_programs_that_begin_while_others_wait() -> None:
    stops = _Stops()
    lines, first = inspect.getsourcelines(sums_so_far.fn)
    at = next(n for n, line in enumerate(lines) if "tl.store(out_ptr" in line)
    assert stops.set_break(__file__, first + at) is None
    before = sys.gettrace()
    with interpret(engine="eager"):
        stops.reset()
        stops.set_continue()
        sys.settrace(stops.trace_dispatch)
        try:
            sums_so_far[(3,)](
                torch.arange(24.0), torch.zeros(3), torch.zeros(3, dtype=torch.int32), BLOCK=8
            )
        finally:
            sys.settrace(before)
    assert stops.seen == ["int32 2", "int32 1", "int32 0"]


@triton.jit
def storing_kernel(p_ptr, n):
    for i in range(n):
        tl.store(p_ptr, i)


def test_repeated_stores_are_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_PATIENCE", 50)
    p = torch.zeros(1, dtype=torch.int32)
    with interpret(engine="eager"):
        storing_kernel[(1,)](p, 200)
    assert p.item() == 199
