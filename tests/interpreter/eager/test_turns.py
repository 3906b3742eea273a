"""Programs that wait for one another: those that can go on do, as in native code."""

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
    """Each program waits for the one after it, which begins later."""
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
    """Two programs that wait for each other in turn, with a lock around what both change."""
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
    """Gives up after a while."""
    seen = 0
    for _ in range(300):
        seen += tl.atomic_add(flag_ptr, 0)
    tl.store(out_ptr + tl.program_id(0), seen)


@triton.jit
def circle(flag_ptr, n):
    pid = tl.program_id(0)
    if pid == 3:
        tl.device_assert(n > 0, "no room")
    while tl.atomic_add(flag_ptr + pid, 0) == 0:
        pass
    tl.atomic_xchg(flag_ptr + (pid + 1) % n, 1)


@pytest.mark.parametrize("order", ["natural", "reverse", "random"])
def test_each_waits_for_the_next(order: Literal["natural", "reverse", "random"]) -> None:
    x = torch.arange(64.0)
    out, flags = torch.zeros(8), torch.zeros(8, dtype=torch.int32)
    with interpret(engine="eager", order=order):
        sums_so_far[(8,)](x, out, flags, BLOCK=8)
    rows = x.reshape(8, 8).sum(1)
    assert torch.equal(out, rows.flip(0).cumsum(0).flip(0))


def eager_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "eager programs"]


def test_two_that_wait_in_turn_do_as_in_native_code() -> None:
    found = []
    for engine in ("native", "eager"):
        log = torch.zeros(10, dtype=torch.int32)
        with interpret(engine=engine):
            back_and_forth[(2,)](log, torch.zeros(3, dtype=torch.int32), 5)
        found.append(log.tolist())
    assert found[0] == found[1] == [0, 1, 3, 4, 6, 7, 9, 10, 12, 13]


def test_a_sum_behind_locks_is_that_of_native_code() -> None:
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "layer_norm.py"))
    with interpret(threads=1):
        native = example["main"]()
    with interpret(engine="eager"):
        eager = example["main"]()
    torch.testing.assert_close(eager, native)


def test_who_only_looks_is_not_stuck() -> None:
    out = torch.full((3,), -1, dtype=torch.int32)
    with interpret(engine="eager"):
        polls[(3,)](out, torch.zeros(1, dtype=torch.int32))
    assert out.tolist() == [0, 0, 0]


def test_a_circle_is_an_error_that_names_who_waits() -> None:
    with (
        interpret(engine="eager"),
        pytest.raises(KernelError, match=r"program .2, 0, 0. waits for memory") as raised,
    ):
        circle[(3,)](torch.zeros(3, dtype=torch.int32), 3)
    assert "(0, 0, 0), (1, 0, 0) wait as well" in str(raised.value)
    assert raised.value.kind == "deadlock"
    assert raised.value.location is not None
    lines, first = inspect.getsourcelines(circle.fn)
    wanted = next(n for n, line in enumerate(lines) if "while" in line)
    assert raised.value.location.line == first + wanted
    assert not eager_threads()


def test_an_error_ends_those_that_wait() -> None:
    with interpret(engine="eager"), pytest.raises(KernelError, match="no room"):
        circle[(4,)](torch.zeros(4, dtype=torch.int32), 0, debug=True)
    assert not eager_threads()


class _Stops(bdb.Bdb):
    """Notes where it stops, and in which program."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def user_line(self, frame: FrameType) -> None:
        if "pid" in frame.f_locals:
            self.seen.append(str(frame.f_locals["pid"]))
        self.set_continue()


def test_a_debugger_stops_in_programs_that_began_meanwhile() -> None:
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


def test_who_stores_again_and_again_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_PATIENCE", 50)
    p = torch.zeros(1, dtype=torch.int32)
    with interpret(engine="eager"):
        storing_kernel[(1,)](p, 200)
    assert p.item() == 199
