"""Tests of the thread pool with forks, exit, Ctrl-C, and launches inside launches."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from handmade_kernels import CALL, COUNT, WORK, Counters, kernel
from tests.forked_python import PYTHON
from tests.forks import in_fork

from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.runtime import printing
from ttools.interpreter.runtime.launch import run
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.pool import Pool, pool

TWO = LaunchOptions(threads=2)


def counts_right(size: int = 200) -> bool:
    counters = Counters(size)
    run(kernel(COUNT, 1), [counters.address], (size,), TWO)
    return counters.values() == [1] * size


def test_a_forked_child_and_its_parent_can_launch() -> None:
    assert counts_right()
    for _ in range(3):
        assert in_fork(lambda: counts_right() and counts_right()) == 0
        assert counts_right()


def test_fork_while_another_thread_launches() -> None:
    stop = threading.Event()
    failures: list[str] = []

    def launches() -> None:
        while not stop.is_set():
            if not counts_right(64):
                failures.append("wrong counts")

    other = threading.Thread(target=launches)
    other.start()
    try:
        for _ in range(5):
            assert in_fork(counts_right) == 0
    finally:
        stop.set()
        other.join()
    assert failures == []


@pytest.mark.parametrize("threads", [1, 3])
def test_a_launch_from_a_callback(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inner: list[bool] = []

    def launch(*_: object) -> list[str]:
        inner.append(counts_right(40))
        return []

    monkeypatch.setattr(printing, "lines", launch)
    outer = kernel(CALL, 3, [Site(CallbackKind.PRINT, None)])
    run(outer, [int(CallbackKind.PRINT), 0, 0], (10,), LaunchOptions(threads=threads))
    assert inner == [True] * 10


def test_concurrent_launches_share_the_pool() -> None:
    k = kernel(WORK, 2)
    results: list[bool] = []

    def work() -> None:
        counters = Counters(64)
        run(k, [counters.address, 20_000], (64,), LaunchOptions(threads=3))
        results.append(counters.values() == [1] * 64)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 5


def test_a_pool_starts_lends_and_ends_threads() -> None:
    own = Pool()
    three = own.lease(3, 100, limit=3)
    assert len(three) == 3
    assert all(worker.arena.size >= 100 for worker in three)
    assert own.lease(2, 100, limit=3) == []
    own.take_back(three, keep=2)
    assert own.idle == 2
    (leased,) = own.lease(1, 1 << 20, limit=3)
    assert leased.arena.size >= 1 << 20
    own.take_back([leased], keep=2)
    own.close()
    assert own.idle == 0


def test_threads_end_when_they_are_no_longer_kept() -> None:
    def alive() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    own = Pool()
    workers = own.lease(20, 64, limit=20)
    most = alive()
    own.take_back(workers, keep=0)
    deadline = time.monotonic() + 10
    while alive() > most - 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive() <= most - 20


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_launch(threads: int) -> None:
    k = kernel(WORK, 2)
    counters = Counters(100_000)
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(k, [counters.address, 1_000_000], (100_000,), LaunchOptions(threads=threads))
    timer.join()
    assert time.monotonic() - start < 20
    assert 0 < sum(counters.values()) < 100_000
    assert counts_right()


def test_ctrl_c_ends_waiting_programs(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        f"""
import sys, ctypes, threading, os, signal
sys.path.insert(0, {str(Path(__file__).parent)!r})
from handmade_kernels import SPIN_SITE, WAIT, kernel
from ttools.interpreter.runtime import blocked_programs
from ttools.interpreter.runtime.launch import run
from ttools.interpreter.runtime.launch_options import LaunchOptions
blocked_programs._DEADLOCK_SECONDS = 1e9
flags, table = (ctypes.c_int32 * 2)(), (ctypes.c_int64 * 2)(1, 0)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    run(kernel(WAIT, 2, [SPIN_SITE]), [ctypes.addressof(flags), ctypes.addressof(table)], (2,))
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    completed = PYTHON.run([str(script)], timeout=60)
    assert (completed.stdout, completed.stderr, completed.returncode) == ("interrupted\n", "", 0)


def test_an_exception_in_a_callback_ends_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[str]:
        raise OSError("the disk is full")

    monkeypatch.setattr(printing, "lines", broken)
    k = kernel(CALL, 3, [Site(CallbackKind.PRINT, None)])
    with pytest.raises(OSError, match="the disk is full"):
        run(k, [int(CallbackKind.PRINT), 0, 0], (10,), TWO)


def test_a_process_with_idle_threads_exits_cleanly(tmp_path: Path) -> None:
    script = tmp_path / "exits.py"
    script.write_text(
        f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from handmade_kernels import COUNT, Counters, kernel
from ttools.interpreter.runtime.launch import run
from ttools.interpreter.runtime.launch_options import LaunchOptions
counters = Counters(100)
k = kernel(COUNT, 1)
for _ in range(20):
    k.cost = None
    run(k, [counters.address], (100,), LaunchOptions(threads=4))
print(sum(counters.values()))
"""
    )
    for _ in range(3):
        completed = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, timeout=60
        )
        assert (completed.stdout, completed.stderr, completed.returncode) == ("2000\n", "", 0)


def test_the_mailbox_contains_no_python_memory() -> None:
    (worker,) = pool().lease(1, 64, limit=1 << 20)
    assert worker.address % 64 == 0
    assert ctypes.c_int32.from_address(worker.address).value == 0
    pool().take_back([worker], keep=4)
