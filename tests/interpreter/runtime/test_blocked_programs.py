"""Tests of programs that wait for each other: more programs than threads, warnings, deadlocks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import pytest
from handmade_kernels import HERE, SPIN_SITE, TAKE_TURNS, WAIT, kernel
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import KernelError, UsageError
from ttools.interpreter.runtime import blocked_programs
from ttools.interpreter.runtime.launch import LaunchReport, run
from ttools.interpreter.runtime.launch_options import LaunchOptions

#: Estimated cost of a program: threads take single programs, or many cheap ones at once.
UNKNOWN, CHEAP = None, 1e-9


def wait_for(
    targets: Sequence[int], *, cost: float | None = UNKNOWN, **options: object
) -> LaunchReport:
    """Launch one program per target, which waits for the end of the target unless it is -1."""
    size = len(targets)
    flags = (ctypes.c_int32 * size)()
    table = (ctypes.c_int64 * size)(*targets)
    addresses = [ctypes.addressof(flags), ctypes.addressof(table)]
    waiting = kernel(WAIT, 2, [SPIN_SITE])
    waiting.cost = cost
    report = run(waiting, addresses, (size,), LaunchOptions(**options))  # type: ignore[arg-type]
    assert list(flags) == [1] * size
    return report


@pytest.mark.parametrize("cost", [UNKNOWN, CHEAP])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_program_waits(threads: int, cost: float | None) -> None:
    assert wait_for([-1] * 500, threads=threads, cost=cost).warnings == ()


@pytest.mark.parametrize("cost", [UNKNOWN, CHEAP])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_waiting_for_earlier_programs_needs_no_co_residency(
    threads: int, cost: float | None
) -> None:
    assert wait_for([-1, *range(2999)], threads=threads, cost=cost).warnings == ()


@pytest.mark.parametrize("threads", [2, 4])
def test_waiting_for_a_program_of_the_same_batch(threads: int) -> None:
    # Pairs of neighbours wait. A batch of an odd size splits a pair between two threads.
    targets = [i + 1 if i % 2 == 0 else -1 for i in range(700)]
    assert wait_for(targets, threads=threads, cost=CHEAP).programs == 700


@settings(deadline=None, max_examples=30)
@given(data=st.data(), threads=st.integers(1, 4), cost=st.sampled_from([UNKNOWN, CHEAP]))
def test_waits_without_a_cycle_end(data: st.DataObject, threads: int, cost: float | None) -> None:
    # Each program waits for another one according to a random order of finishing.
    finishing = data.draw(st.permutations(range(data.draw(st.integers(1, 150)))))
    targets = [-1] * len(finishing)
    for position, program in enumerate(finishing[:-1]):
        if data.draw(st.integers(0, 7)) == 0:
            later = data.draw(st.integers(position + 1, len(finishing) - 1))
            targets[program] = finishing[later]
    order = data.draw(st.sampled_from(["natural", "reverse", "random"]))
    report = wait_for(targets, threads=threads, cost=cost, order=order)
    assert report.programs == len(targets)


def test_the_first_waits_for_the_last_of_300() -> None:
    (warning,) = wait_for([299, *[-1] * 299], threads=1).warnings
    assert warning.kind == "deadlock"
    assert "requires co-residency" in warning.message
    assert warning.program == (0, 0, 0)
    assert warning.location == HERE
    assert str(warning).startswith("kernel.py:12:5: warning[deadlock]: requires co-residency")


@pytest.mark.parametrize("threads", [1, 2])
def test_more_waiting_programs_than_threads(threads: int) -> None:
    report = wait_for([*[299] * 299, -1], threads=threads)
    assert [w.kind for w in report.warnings] == ["deadlock"]


def test_each_program_waits_for_the_next() -> None:
    assert wait_for([*range(1, 120), -1], threads=2).warnings


def test_a_reversed_order_waits_for_later_starts() -> None:
    (warning,) = wait_for([-1, *range(60)], threads=1, order="reverse").warnings
    assert warning.program == (60, 0, 0)


@pytest.mark.parametrize(("threads", "others"), [(1, 0), (3, 0), (2, 500)])
def test_a_deadlock_is_an_error_that_names_the_programs(threads: int, others: int) -> None:
    with pytest.raises(KernelError) as raised:
        wait_for([-1, 2, 1, -1, *[-1] * others], threads=threads, cost=CHEAP)
    text = str(raised.value)
    assert "kernel.py:12:5: error: deadlock in kernel `handmade`" in text
    assert "every running program waits" in text
    assert "programs (1, 0, 0), (2, 0, 0) at kernel.py:12:5" in text


def test_the_limit_of_waiting_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTOOLS_MAX_PARKED", "8")
    assert wait_for([*range(1, 10), -1], threads=2).warnings
    with pytest.raises(KernelError, match="10 programs wait, 2 have not started") as raised:
        wait_for([*range(1, 12), -1], threads=2)
    assert "TTOOLS_MAX_PARKED (now 8)" in str(raised.value)
    monkeypatch.setenv("TTOOLS_MAX_PARKED", "some")
    with pytest.raises(UsageError, match="TTOOLS_MAX_PARKED=some"):
        wait_for([-1])


def test_the_pool_is_usable_after_a_deadlock() -> None:
    with pytest.raises(KernelError):
        wait_for([1, 0], threads=2)
    assert wait_for([-1] * 10, threads=2).warnings == ()


@pytest.mark.parametrize("threads", [1, 2])
def test_alternating_programs_are_no_deadlock(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Any moment in which no program can continue would now be reported at once.
    monkeypatch.setattr(blocked_programs, "_DEADLOCK_SECONDS", 0.0)
    cell, rounds = ctypes.c_int64(0), 1000
    k = kernel(TAKE_TURNS, 2, [SPIN_SITE])
    run(k, [ctypes.addressof(cell), rounds], (2,), LaunchOptions(threads=threads))
    assert cell.value == 2 * rounds
