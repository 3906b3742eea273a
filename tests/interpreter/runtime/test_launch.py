"""Tests that every selected program of a launch runs exactly once."""

from __future__ import annotations

import ctypes
import math
import threading
from typing import Literal

import numpy as np
import pytest
from handmade_kernels import ADD, COUNT, LOG, WORK, Counters, kernel

from ttools.core.errors import UsageError
from ttools.interpreter.abi.launch_layout import NativeLaunch
from ttools.interpreter.runtime import launch
from ttools.interpreter.runtime.launch import run
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.stopping import Running

Order = Literal["natural", "reverse", "random"]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("order", ["natural", "reverse", "random"])
@pytest.mark.parametrize("grid", [(1,), (7,), (1000,), (3, 5, 7), (1, 1, 64), (0,), (4, 0, 2)])
def test_every_program_runs_once(grid: tuple[int, ...], order: Order, threads: int) -> None:
    k = kernel(COUNT, 1)
    size = math.prod(grid)
    for _ in range(3):  # the first launch, of unknown cost, uses another path than later ones
        counters = Counters(size)
        report = run(k, [counters.address], grid, LaunchOptions(threads=threads, order=order))
        assert report.programs == size
        assert counters.values() == [1] * size


@pytest.mark.parametrize("threads", [1, 3])
def test_a_million_programs(threads: int) -> None:
    counters = Counters(1_000_000)
    k = kernel(COUNT, 1)
    for order in ("natural", "random"):
        run(k, [counters.address], (1000, 10, 100), LaunchOptions(threads=threads, order=order))
    assert counters.values() == [2] * 1_000_000


def logged(grid: tuple[int, ...], options: LaunchOptions) -> list[int]:
    """Return the ids of the programs in the order in which they started."""
    cursor, log = ctypes.c_int64(0), (ctypes.c_int64 * math.prod(grid))()
    run(kernel(LOG, 2), [ctypes.addressof(cursor), ctypes.addressof(log)], grid, options)
    return list(log[: cursor.value])


def test_orders() -> None:
    natural = list(range(24))
    assert logged((4, 6), LaunchOptions(threads=1)) == natural
    assert logged((4, 6), LaunchOptions(threads=1, order="reverse")) == natural[::-1]
    first = logged((4, 6), LaunchOptions(threads=1, order="random", seed=3))
    assert first != natural
    assert sorted(first) == natural
    assert first == logged((4, 6), LaunchOptions(threads=1, order="random", seed=3))
    assert first != logged((4, 6), LaunchOptions(threads=1, order="random", seed=4))


def test_selection_and_order_together() -> None:
    options = LaunchOptions(threads=1, order="reverse", programs="0,5:8,last,(1,2)")
    assert logged((4, 6), options) == [23, 9, 7, 6, 5, 0]


def test_programs_outside_the_selection_do_not_run() -> None:
    counters = Counters(100)
    options = LaunchOptions(programs="3,50:52")
    assert run(kernel(COUNT, 1), [counters.address], (100,), options).programs == 3
    assert [i for i, n in enumerate(counters.values()) if n] == [3, 50, 51]


def test_every_thread_has_an_aligned_arena() -> None:
    x, y = np.arange(16 * 257, dtype=np.float32), np.float32(0.5) * np.arange(16 * 257)
    y = y.astype(np.float32)
    out = np.zeros_like(x)
    k = kernel(ADD, 3, arena_bytes=3 << 20)
    for threads in (1, 4):
        out[:] = 0
        k.cost = None
        addresses = [x.ctypes.data, y.ctypes.data, out.ctypes.data]
        run(k, addresses, (257,), LaunchOptions(threads=threads))
        np.testing.assert_array_equal(out, x + y)


def test_short_work_is_measured_on_one_thread_first() -> None:
    counters = Counters(100)
    k = kernel(COUNT, 1)
    k.cost = 1e-6  # as if measured on several threads, including the time of waking them
    options = LaunchOptions(threads=4)
    assert run(k, [counters.address], (100,), options).threads == 1
    k.cost = 1e-6
    assert run(k, [counters.address], (100,), options).threads > 1
    assert counters.values() == [2] * 100


def test_negative_parameters_are_passed_as_bits() -> None:
    counters = Counters(4)
    run(kernel(WORK, 2), [counters.address, -(2**63)], (4,))
    assert counters.values() == [1] * 4


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ((-1,), "cannot be negative"),
        ((1, 2**31), "at most 2"),
        ((2**31 - 1, 2**31 - 1, 2**31 - 1), r"less than 2\*\*63"),
        ((), "one to three"),
        ((1, 1, 1, 1), "one to three"),
    ],
)
def test_impossible_grids(grid: tuple[int, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(kernel(COUNT, 1), [0], grid)


def test_wrong_number_of_parameters() -> None:
    with pytest.raises(UsageError, match="has 1 parameters, not 2"):
        run(kernel(COUNT, 1), [0, 0], (1,))


def test_zero_threads_are_an_error() -> None:
    with pytest.raises(UsageError, match="at least one thread"):
        LaunchOptions(threads=0)


def test_threads_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from ttools.interpreter.runtime.pool import default_threads

    monkeypatch.setenv("TTOOLS_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.setenv("TTOOLS_THREADS", "many")
    with pytest.raises(UsageError, match="TTOOLS_THREADS=many"):
        default_threads()


def test_concurrent_launches_from_python_threads() -> None:
    k = kernel(WORK, 2)
    errors: list[BaseException] = []

    def launches() -> None:
        try:
            for n in range(40):
                counters = Counters(50)
                run(k, [counters.address, 200], (50,), LaunchOptions(threads=1 + n % 4))
                assert counters.values() == [1] * 50
        except BaseException as error:  # noqa: BLE001 - shown below
            errors.append(error)

    threads = [threading.Thread(target=launches) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize(
    ("seconds_before", "limit", "expected"),
    [
        (None, 600.0, True),  # the cost of the kernel is unknown
        (None, None, False),
        (4e-6, 0.5, False),
        (4e-3, 600.0, False),
        (4e-3, 1.0, True),
        (0.4, 3600.0, True),  # long enough for Ctrl-C
        (0.4, None, False),
    ],
)
def test_launches_without_loops_are_watched_if_their_limit_is_near(
    monkeypatch: pytest.MonkeyPatch,
    seconds_before: float | None,
    limit: float | None,
    expected: bool,
) -> None:
    """Check which launches are watched, because watching slows down short ones."""
    watched: list[float | None] = []

    class LoggedRunning(Running):
        def __init__(self, address: int, of: NativeLaunch, seconds: float | None) -> None:
            watched.append(seconds)
            super().__init__(address, of, seconds)

    monkeypatch.setattr(launch, "Running", LoggedRunning)
    k, counters = kernel(COUNT, 1), Counters(4)
    k.cost = None if seconds_before is None else seconds_before / 4
    run(k, [counters.address], (4,), LaunchOptions(threads=1, seconds=limit))
    assert watched == [limit] * expected
