"""Programs that wait for each other: more of them than threads, co-residency, deadlocks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import pytest
from handmade_kernels import HERE, SPIN_SITE, TAKE_TURNS, WAIT, kernel

from ttools.core.errors import KernelError, UsageError
from ttools.interpreter import parking
from ttools.interpreter.launch import LaunchOptions, LaunchReport, run


def wait_for(targets: Sequence[int], **options: object) -> LaunchReport:
    """Launches one program per target: each waits for its target's end, -1 for nobody's."""
    size = len(targets)
    flags = (ctypes.c_int32 * size)()
    table = (ctypes.c_int64 * size)(*targets)
    addresses = [ctypes.addressof(flags), ctypes.addressof(table)]
    report = run(kernel(WAIT, 2, [SPIN_SITE]), addresses, (size,), LaunchOptions(**options))  # type: ignore[arg-type]
    assert list(flags) == [1] * size
    return report


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_nobody_waits(threads: int) -> None:
    assert wait_for([-1] * 500, threads=threads).warnings == ()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_waiting_for_earlier_programs_needs_no_co_residency(threads: int) -> None:
    assert wait_for([-1, *range(2999)], threads=threads).warnings == ()


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


def test_each_waits_for_the_next() -> None:
    assert wait_for([*range(1, 120), -1], threads=2).warnings


def test_a_reversed_order_waits_for_later_starts() -> None:
    (warning,) = wait_for([-1, *range(60)], threads=1, order="reverse").warnings
    assert warning.program == (60, 0, 0)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_deadlock_is_an_error_that_names_who_waits(threads: int) -> None:
    with pytest.raises(KernelError) as raised:
        wait_for([-1, 2, 1, -1], threads=threads)
    text = str(raised.value)
    assert "kernel.py:12:5: error: deadlock in kernel `handmade`" in text
    assert "every running program waits" in text
    assert "programs (1, 0, 0), (2, 0, 0) at kernel.py:12:5" in text


def test_the_limit_on_parked_programs(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_taking_turns_is_no_deadlock(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without patience any moment in which nobody can go on would be an error.
    monkeypatch.setattr(parking, "_DEADLOCK_SECONDS", 0.0)
    cell, rounds = ctypes.c_int64(0), 1000
    k = kernel(TAKE_TURNS, 2, [SPIN_SITE])
    run(k, [ctypes.addressof(cell), rounds], (2,), LaunchOptions(threads=threads))
    assert cell.value == 2 * rounds
