"""The report of a deadlock names the program that holds the lock, and where it took it."""

from __future__ import annotations

import linecache
from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


@triton.jit
def keep(lock_ptr, n):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # taken and waited for
        pass
    tl.debug_barrier()
    if tl.program_id(0) < n:
        tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def take_twice(lock_ptr, n):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # taken
        pass
    tl.debug_barrier()
    if tl.program_id(0) >= n:
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # waited for
            pass
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def take_in_two_orders(lock_ptr, n):
    pid = tl.program_id(0)
    while tl.atomic_cas(lock_ptr + pid, 0, 1) == 1:  # taken
        pass
    tl.debug_barrier()
    tl.atomic_add(lock_ptr + 2, 1)
    while tl.atomic_add(lock_ptr + 2, 0) < n:  # both programs hold a lock
        pass
    while tl.atomic_cas(lock_ptr + 1 - pid, 0, 1) == 1:  # waited for
        pass
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + 1 - pid, 0)
    tl.atomic_xchg(lock_ptr + pid, 0)


@triton.jit
def release_by_a_plain_store(lock_ptr, n):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.debug_barrier()
    if tl.program_id(0) < n:
        tl.store(lock_ptr, 0)


@triton.jit
def wait_for_a_flag(lock_ptr, n):
    while tl.atomic_add(lock_ptr, 0) != n:
        pass


def deadlock_of(kernel: Callable[..., None], programs: int, n: int) -> Finding:
    with sanitize() as report:
        kernel[(programs,)](torch.zeros(3, dtype=torch.int32), n)  # type: ignore[index]
    return next(finding for finding in report.findings if finding.kind == "deadlock")


def line_of(finding: Finding, number: int = 0) -> str:
    location = finding.related[number].location
    assert location is not None
    return linecache.getline(location.file, location.line)


def test_a_program_that_ended_holds_the_lock() -> None:
    finding = deadlock_of(keep, 6, 3)
    (held,) = finding.related
    assert held.program == (3, 0, 0)
    assert held.message == (
        "the lock that program (4, 0, 0) waits for was taken here and never released"
    )
    assert "# taken and waited for" in line_of(finding)
    assert finding.notes == ("programs (4, 0, 0), (5, 0, 0) wait here",)
    assert finding.help == "release the lock on every path of the program that takes it"


def test_a_program_waits_for_its_own_lock() -> None:
    finding = deadlock_of(take_twice, 2, 0)
    (held,) = finding.related
    assert held.program == finding.program == (0, 0, 0)
    assert held.message.endswith("taken here and not released")
    assert line_of(finding).endswith("# taken\n")
    line = finding.related[0].location.line  # type: ignore[union-attr]
    assert finding.notes == (
        "program (0, 0, 0) waits here",
        f"program (1, 0, 0) waits at line {line}",
    )
    assert finding.help == "release the lock before the same program takes it again"


def test_two_programs_hold_the_locks_for_which_the_other_one_waits() -> None:
    finding = deadlock_of(take_in_two_orders, 2, 2)
    assert [held.program for held in finding.related] == [(1, 0, 0), (0, 0, 0)]
    assert all(line_of(finding, n).endswith("# taken\n") for n in (0, 1))
    assert (finding.help or "").startswith("take locks in the same order everywhere")


@pytest.mark.parametrize(
    ("kernel", "n"), [(release_by_a_plain_store, 1), (wait_for_a_flag, 1)], ids=["store", "flag"]
)
def test_a_holder_that_is_not_known_is_not_named(kernel: Callable[..., None], n: int) -> None:
    finding = deadlock_of(kernel, 3, n)
    assert finding.related == ()
    assert finding.help == "on a GPU this launch would hang"
