"""Tests of launches that a timeout or a signal stops, and that no other launch is stopped."""

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
def test_loops_that_check_for_a_stop_compute_the_same(
    n: int, m: int, block: int, calls: bool, fused: bool
) -> None:
    out = torch.zeros(3, block, dtype=torch.int32)
    with interpret(threads=2, timeout=600, schedule="fused" if fused else "materialised"):
        nested[(3,)](out, n, m, block, calls)
    assert torch.equal(out, expected(3, n, m, block))


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_finished_programs_of_a_stopped_launch_are_correct(calls: bool, threads: int) -> None:
    programs, n, m = 1 << 20, 1000, 100
    out = torch.zeros(programs, 1, dtype=torch.int32)
    with interpret(threads=threads):
        nested[(1,)](out, n, m, 1, calls)  # the time limit includes the first compilation
    out.zero_()
    with interpret(threads=threads, timeout=0.1), pytest.raises(KernelError) as stopped:
        nested[(programs,)](out, n, m, 1, calls)
    assert stopped.value.kind == "timeout"
    assert stopped.value.location is not None
    finished = out[:, 0] != 0
    assert 0 < int(finished.sum()) < programs
    assert torch.equal(out[finished], torch.full_like(out[finished], 3 * n + 1))


def test_a_launch_within_the_limit_is_not_stopped() -> None:
    out = torch.zeros(1, 16, dtype=torch.int32)
    with interpret(timeout=30):
        for _ in range(3):
            nested[(1,)](out, 5, 5, 16, False)
    assert torch.equal(out, expected(1, 5, 5, 16))


def test_short_launches_do_not_wake_the_watching_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that no thread wakes up, waits for Python's lock and so slows down short launches."""
    looks = []
    look = stopping._State._look
    monkeypatch.setattr(stopping._State, "_look", lambda self: (looks.append(1), look(self))[1])
    out = torch.zeros(1, 16, dtype=torch.int32)
    with interpret(timeout=600):
        nested[(1,)](out, 5, 5, 16, False)
        before, began = len(looks), time.monotonic()
        while time.monotonic() - began < 0.5:
            nested[(1,)](out, 5, 5, 16, False)
    assert len(looks) <= before + 1  # a launch of an earlier test may have had a limit


def test_a_launch_with_a_shorter_limit_than_an_earlier_one_is_stopped() -> None:
    """Check that the watching thread does not wait for the limit of an earlier launch."""
    with interpret(timeout=600):
        nested[(1,)](torch.zeros(1, 16, dtype=torch.int32), 5, 5, 16, False)
    began = time.monotonic()
    with interpret(threads=1, timeout=0.2), pytest.raises(KernelError) as stopped:
        for_ever[(1,)](torch.zeros(2, dtype=torch.int32), 10**15)
    assert stopped.value.kind == "timeout"
    assert 0.2 <= time.monotonic() - began < 120


def test_ctrl_c_just_before_native_code_stops_the_launch() -> None:
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
    with interpret(timeout=600):  # start the watching thread
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


def test_a_late_stop_affects_no_other_launch() -> None:
    """Stop a launch that has ended, whose memory the next launch uses."""
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


def test_timeout_must_not_be_negative() -> None:
    with pytest.raises(UsageError, match="timeout="):
        interpret(timeout=-1)


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


def test_ctrl_c_works_repeatedly() -> None:
    """Interrupt several launches; LLVM's signal handlers remove themselves at the first signal."""
    for _ in range(3):
        out = torch.zeros(2, dtype=torch.int32)
        thread = _signal_when(out, signal.SIGINT)
        with interpret(threads=1), pytest.raises(KeyboardInterrupt):
            for_ever[(1,)](out, 10**15)
        thread.join()


def test_ctrl_c_works_after_the_program_restored_pythons_handler() -> None:
    """Set a handler and then Python's default handler, as event loops do."""
    with interpret(threads=1, timeout=30):  # start the watching thread
        for_ever[(1,)](torch.zeros(2, dtype=torch.int32), 10)
    for _ in range(3):
        out = torch.zeros(2, dtype=torch.int32)
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = _signal_when(out, signal.SIGINT)
        started = time.monotonic()
        with interpret(threads=1, timeout=60), pytest.raises(KeyboardInterrupt):
            for_ever[(1,)](out, 10**15)
        assert time.monotonic() - started < 60, "the timeout and not the signal ended the launch"
        thread.join()


def test_handlers_of_the_program_are_visible() -> None:
    out = torch.zeros(2, dtype=torch.int32)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    threads = threading.enumerate()
    report: Any = lambda number: None  # noqa: E731
    with stopping.before_termination(report), interpret():
        for_ever[(1,)](out, 10)
        assert {number: signal.getsignal(number) for number in handlers} == handlers
        assert threading.enumerate() == threads


FORK = """
import os, signal, time
from ttools.interpreter.runtime.stopping import before_termination
with before_termination(lambda number: print("terminated by", number, flush=True)):
    child = os.fork()
    if child == 0:
        time.sleep(60)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""


def test_forks_print_no_report() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120, check=False
    )
    assert completed.stdout == "-15\nterminated by 15\n"
    assert (completed.returncode, completed.stderr) == (-signal.SIGTERM, "")


OWN_HANDLER = """
import os, signal, time
from ttools.interpreter.runtime.stopping import before_termination
signal.signal(signal.SIGTERM, lambda *_: print("mine", flush=True))
with before_termination(lambda number: print("terminated", flush=True)):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)
"""


def test_the_programs_handler_of_sigterm_runs() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", OWN_HANDLER], capture_output=True, text=True, timeout=120, check=True
    )
    assert completed.stdout == "mine\n"


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
    own = [open("own", "w+") for _ in range(20)]  # can reuse the closed descriptors
    for n in range(101, 104):
        loop[(1,)](out, n)
        print(out.item())
try:
    with interpret(threads=1, timeout=0.2):  # the watching thread must notice this launch
        loop[(1,)](out, 1 << 30)
except KernelError as error:
    print(error.kind)
print(repr(own[0].read()))
"""


def test_a_program_can_close_all_descriptors(tmp_path: Path) -> None:
    (tmp_path / "closes.py").write_text(CLOSES_ALL)
    completed = PYTHON.run(["closes.py"], cwd=tmp_path)
    assert (completed.stdout, completed.stderr) == ("510050\n525402\n541059\ntimeout\n''\n", "")
    assert completed.returncode == 0
