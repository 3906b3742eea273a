"""Launches that are stopped from outside: what they leave, and that none is stopped by mistake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.forked_python import PYTHON

from ttools.core.errors import KernelError, UsageError
from ttools.interpreter import interpret
from ttools.interpreter.abi.launch_layout import NativeLaunch
from ttools.interpreter.runtime import stopping


@triton.jit
def nested(out_ptr, n, m, BLOCK: tl.constexpr, CALLS: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.int32)
    for i in range(n):
        if CALLS:
            total += offs * inner(pid, m) + 3
        else:
            for j in range(0, m, 2):
                total += offs * (j + pid) + i * 0
            k = 0
            while k < 3:
                total += 1
                k += 1
    tl.store(out_ptr + pid * BLOCK + offs, total + 1)


@triton.jit(noinline=True)
def inner(pid, m):
    total = pid * 0
    for j in range(0, m, 2):
        total += j + pid
    return total


def expected(programs: int, n: int, m: int, block: int) -> torch.Tensor:
    steps = torch.arange(0, max(m, 0), 2)
    offs = torch.arange(block)
    rows = [max(n, 0) * (offs * int((steps + pid).sum()) + 3) + 1 for pid in range(programs)]
    return torch.stack(rows).to(torch.int32)


@settings(max_examples=12)
@given(
    n=st.integers(0, 70),
    m=st.integers(0, 70),
    block=st.sampled_from([1, 16]),
    calls=st.booleans(),
    fused=st.booleans(),
)
def test_loops_that_look_whether_they_go_on_do_as_before(
    n: int, m: int, block: int, calls: bool, fused: bool
) -> None:
    out = torch.zeros(3, block, dtype=torch.int32)
    with interpret(threads=2, timeout=600, schedule="fused" if fused else "materialised"):
        nested[(3,)](out, n, m, block, calls)
    assert torch.equal(out, expected(3, n, m, block))


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_stopped_launch_leaves_is_right(calls: bool, threads: int) -> None:
    programs, n, m = 1 << 20, 1000, 100
    out = torch.zeros(programs, 1, dtype=torch.int32)
    with interpret(threads=threads):
        nested[(1,)](out, n, m, 1, calls)  # the time limit includes the first compilation
    out.zero_()
    with interpret(threads=threads, timeout=0.1), pytest.raises(KernelError) as stopped:
        nested[(programs,)](out, n, m, 1, calls)
    assert stopped.value.kind == "timeout"
    assert stopped.value.location is not None
    done = out[:, 0] != 0
    assert 0 < int(done.sum()) < programs
    assert torch.equal(out[done], torch.full_like(out[done], 3 * n + 1))


def test_a_launch_in_time_is_not_stopped() -> None:
    out = torch.zeros(1, 16, dtype=torch.int32)
    with interpret(timeout=30):
        for _ in range(3):
            nested[(1,)](out, 5, 5, 16, False)
    assert torch.equal(out, expected(1, 5, 5, 16))


def test_short_launches_do_not_wake_what_watches_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that wakes up during such launches waits for Python's lock, and slows each down."""
    looks = []
    look = stopping._State._look
    monkeypatch.setattr(stopping._State, "_look", lambda self: (looks.append(1), look(self))[1])
    out = torch.zeros(1, 16, dtype=torch.int32)
    with interpret(timeout=600):
        nested[(1,)](out, 5, 5, 16, False)
        before, began = len(looks), time.monotonic()
        while time.monotonic() - began < 0.5:
            nested[(1,)](out, 5, 5, 16, False)
    assert len(looks) <= before + 1  # what ran before this may have had a limit


def test_a_launch_that_may_take_less_than_one_before_is_stopped_in_time() -> None:
    """What watches would wait for the end of the first one's time."""
    with interpret(timeout=600):
        nested[(1,)](torch.zeros(1, 16, dtype=torch.int32), 5, 5, 16, False)
    began = time.monotonic()
    with interpret(threads=1, timeout=0.2), pytest.raises(KernelError) as stopped:
        for_ever[(1,)](torch.zeros(2, dtype=torch.int32), 10**15)
    assert stopped.value.kind == "timeout"
    assert 0.2 <= time.monotonic() - began < 120


def test_ctrl_c_just_before_native_code_stops_it() -> None:
    launch = NativeLaunch()
    with stopping.Running(1, launch, None) as running:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert launch.abort == 0
        running.hold_main()
        until = time.monotonic() + 60
        while not launch.abort and time.monotonic() < until:
            time.sleep(0.01)
    assert (launch.abort, running.reason) == (1, "interrupt")


def test_ctrl_c_that_is_seen_late_stops_no_later_launch() -> None:
    with interpret(timeout=600):  # what watches has begun
        nested[(1,)](torch.zeros(1, 16, dtype=torch.int32), 5, 5, 16, False)
    launch, later = NativeLaunch(), NativeLaunch()
    with stopping.Running(1, launch, None) as running:
        running.holds_main = True
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with stopping.Running(2, later, None) as second:
            second.holds_main = True
            stopping._state._signalled(signal.SIGINT)
    assert (launch.abort, later.abort) == (1, 0)


def test_a_stop_that_comes_late_meets_no_other_launch() -> None:
    """The memory of a launch is the next one's."""
    launch = NativeLaunch()
    first = stopping.Running(1, launch, None)
    with first:
        pass
    with stopping.Running(1, launch, None) as second:
        first.stop("timeout")
        assert launch.abort == 0
        second.stop("interrupt")
        second.stop("timeout")
    assert (first.reason, second.reason, launch.abort) == (None, "interrupt", 1)


def test_timeout_must_be_positive() -> None:
    with pytest.raises(UsageError, match="timeout="):
        interpret(timeout=0)


@triton.jit
def for_ever(out_ptr, n):
    tl.store(out_ptr, 1)
    total = 0
    for i in range(n):
        total += tl.load(out_ptr + i % 2)
    tl.store(out_ptr, total)


def _signal_when(out: torch.Tensor, number: int) -> threading.Thread:
    def wait() -> None:
        while not out[0]:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ctrl_c_is_seen_again_and_again() -> None:
    """LLVM's handlers take themselves out at the first signal, and what stands before them."""
    for _ in range(3):
        out = torch.zeros(2, dtype=torch.int32)
        thread = _signal_when(out, signal.SIGINT)
        with interpret(threads=1), pytest.raises(KeyboardInterrupt):
            for_ever[(1,)](out, 10**15)
        thread.join()


def test_ctrl_c_is_seen_at_once_after_a_program_had_a_handler_of_its_own() -> None:
    """Event loops set a handler, and Python's own again when they are done."""
    with interpret(threads=1, timeout=30):  # what watches has begun
        for_ever[(1,)](torch.zeros(2, dtype=torch.int32), 10)
    for _ in range(3):
        out = torch.zeros(2, dtype=torch.int32)
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = _signal_when(out, signal.SIGINT)
        started = time.monotonic()
        with interpret(threads=1, timeout=60), pytest.raises(KeyboardInterrupt):
            for_ever[(1,)](out, 10**15)
        assert time.monotonic() - started < 60, "only the timeout ended it"
        thread.join()


def test_the_program_sees_its_own_handlers() -> None:
    out = torch.zeros(2, dtype=torch.int32)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    threads = threading.enumerate()
    words: Any = lambda number: None  # noqa: E731
    with stopping.last_words(words), interpret():
        for_ever[(1,)](out, 10)
        assert {number: signal.getsignal(number) for number in handlers} == handlers
        assert threading.enumerate() == threads


FORK = """
import os, signal, time
from ttools.interpreter.runtime.stopping import last_words
with last_words(lambda number: print("last words", number, flush=True)):
    child = os.fork()
    if child == 0:
        time.sleep(60)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""


def test_forks_have_no_last_words() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "-15\nlast words 15\n"
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


OWN_HANDLER = """
import os, signal, time
from ttools.interpreter.runtime.stopping import last_words
signal.signal(signal.SIGTERM, lambda *_: print("mine", flush=True))
with last_words(lambda number: print("last words", flush=True)):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)
"""


def test_a_program_that_handles_sigterm_does() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN_HANDLER], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "mine\n"


CLOSES_ALL = """
import os, torch, triton, triton.language as tl
from ttools.core.errors import KernelError
from ttools.interpreter import interpret

@triton.jit
def loop(out_ptr, n):
    total = 0
    for i in range(n):
        for j in range(n):
            total += j
    tl.store(out_ptr, total)

out = torch.zeros(1, dtype=torch.int32)
with interpret(timeout=60):
    loop[(1,)](out, 100)
    os.closerange(3, 1000)
    own = [open("own", "w+") for _ in range(20)]  # may have the numbers of what was closed
    for n in range(101, 104):
        loop[(1,)](out, n)
        print(out.item())
try:
    with interpret(threads=1, timeout=0.2):  # what watches has to learn of it
        loop[(1,)](out, 1 << 30)
except KernelError as error:
    print(error.kind)
print(repr(own[0].read()))
"""


def test_a_program_may_close_all_descriptors(tmp_path: Path) -> None:
    (tmp_path / "closes.py").write_text(CLOSES_ALL)
    done = PYTHON.run(["closes.py"], cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("510050\n525402\n541059\ntimeout\n''\n", "")
    assert done.returncode == 0
