"""Launches whose result does not depend on the order of programs are not run in a second order.

A kernel that holds a lock during all accesses that depend on the order needs no second run. Each
kernel is launched with and without this optimisation. If it omits the second run, the findings must
agree; otherwise, the second run must take place.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize
from ttools.sanitizer.checks import racecheck
from ttools.sanitizer.launch.replay import in_another_order

B, ROWS, GROUPS = 32, 24, 3


@triton.jit
def take(lock_ptr, FORM: tl.constexpr):
    if FORM == "not free":
        while tl.atomic_cas(lock_ptr, 0, 1) != 0:
            pass
    elif FORM == "relaxed":
        while tl.atomic_cas(lock_ptr, 0, 1, sem="relaxed") == 1:
            pass
    elif FORM == "own scope":
        while tl.atomic_cas(lock_ptr, 0, 1, scope="cta") == 1:
            pass
    elif FORM == "no wait":
        while tl.atomic_cas(lock_ptr, 0, 1) == 2:
            pass
    elif FORM == "exchange":
        while tl.atomic_xchg(lock_ptr, 1) == 1:
            pass
    elif FORM == "two words":
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            tl.atomic_add(lock_ptr + 64, 1)
    else:
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass


@triton.jit
def begin(x, row, begun_ptr, o_ptr, i, GROUPS: tl.constexpr, FORM: tl.constexpr, B: tl.constexpr):
    """Run the part of the kernel that is executed only by the first program of a group."""
    if FORM == "counted":
        tl.atomic_xchg(begun_ptr, 1)
    else:
        tl.store(begun_ptr, 1)
    if FORM == "first":
        tl.store(o_ptr + i, x)
    if FORM == "first of others, alone":
        tl.store(o_ptr + row % 8 * B + i, x)
    if FORM == "first of others":
        for _ in range(row // GROUPS):
            tl.store(o_ptr + i, x)


@triton.jit
def add(x, begun, sums, o_ptr, i, FORM: tl.constexpr, B: tl.constexpr):
    """Run the part of the kernel that is executed by all programs of a group."""
    if FORM == "loaded address":
        tl.store(o_ptr + begun * B + i, x)
    if FORM == "loaded mask":
        tl.store(o_ptr + i, x, mask=(i < B) & (begun == 1))
    if FORM == "other lanes":
        x += tl.sum(tl.load(sums - i + 31 - i), axis=0)
    tl.store(sums, x, mask=i < B - 3)
    if FORM == "late store":
        tl.debug_barrier()
        tl.store(sums, x + 1, mask=i < B - 3)
    elif FORM != "no barrier":
        tl.debug_barrier()


@triton.jit
def give_back(lock_ptr, FORM: tl.constexpr):
    if FORM == "stays":
        tl.atomic_xchg(lock_ptr, 2)
    elif FORM == "relaxed release":
        tl.atomic_xchg(lock_ptr, 0, sem="relaxed")
    else:
        tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def grouped_sums(
    x_ptr, sums_ptr, locks_ptr, begun_ptr, o_ptr, GROUPS: tl.constexpr, FORM: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    row, i = tl.program_id(0), tl.arange(0, B)
    group = row % GROUPS
    x = tl.load(x_ptr + row * B + i)
    tl.store(o_ptr + (group if FORM == "before" else 8 + row) * B + i, x)
    lock_ptr = locks_ptr + group
    if FORM == "a lock each":
        lock_ptr = locks_ptr + row
    if FORM == "one lock":
        lock_ptr = locks_ptr
    take(lock_ptr, FORM)
    begun = tl.load(begun_ptr + group)
    sums = sums_ptr + group * (B // 2 if FORM == "overlap" else B) + i
    if begun == 0:
        begin(x, row, begun_ptr + group, o_ptr, i, GROUPS, FORM, B)
    else:
        x += tl.load(sums, mask=i < B - (2 if FORM == "other mask" else 3), other=0.0)
    add(x, begun, sums, o_ptr, i, FORM, B)
    give_back(locks_ptr + (row + 1) % GROUPS if FORM == "another" else lock_ptr, FORM)
    if FORM == "after":
        tl.store(o_ptr + group * B + i, x)


#: For each form: True if a second order cannot change the findings, and None if nothing orders the
#: programs, so that no second order is run.
FORMS = {
    "": True,
    "not free": True,
    "one lock": True,
    "counted": True,
    "relaxed": None,
    "own scope": None,
    "exchange": False,
    "two words": False,
    "a lock each": False,
    "before": False,
    "after": False,
    "overlap": False,
    "first": False,
    "first of others": False,
    "first of others, alone": False,
    "other mask": False,
    "loaded address": False,
    "loaded mask": False,
    "other lanes": False,
    "late store": False,
    "no barrier": False,
    "relaxed release": False,
    "no wait": False,
    "stays": False,
    "another": False,
}


class Orders:
    """Counts the launches that are run in a second order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.second = 0
        self._patch = monkeypatch
        monkeypatch.setattr(racecheck, "in_another_order", self._count)

    def _count(self, *arguments: Any) -> Any:
        self.second += 1
        return in_another_order(*arguments)

    def forget(self) -> None:
        """Disable the optimisation, so that all kernels are run in a second order."""
        self._patch.setattr(racecheck, "lock_sections", lambda module, readonly: None)


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Orders:
    return Orders(monkeypatch)


def launch(kernel: Any, **constants: Any) -> list[Finding]:
    """Return the findings of a launch on one thread.

    Programs that run at the same time may show further races of a wrong lock. One thread makes that
    rare but does not exclude it: the scheduler of blocked programs starts a thread for a program
    that has waited for two milliseconds.
    """
    x = torch.rand(ROWS, B)
    sums, locks = torch.zeros(GROUPS, B), torch.zeros(128, dtype=torch.int32)
    begun, o = torch.zeros(GROUPS, dtype=torch.int32), torch.zeros(8 + ROWS, B)
    with sanitize(checks="racecheck,deadlock", threads=1) as report:
        kernel[(ROWS,)](x, sums, locks, begun, o, GROUPS=GROUPS, B=B, **constants)
    return list(report.findings)


def kinds(findings: list[Finding]) -> set[tuple[str, Any]]:
    return {(finding.kind, finding.location) for finding in findings}


@pytest.mark.parametrize("form", FORMS)
def test_omitting_the_second_order_loses_no_finding(form: str, orders: Orders) -> None:
    findings = launch(grouped_sums, FORM=form)
    second_runs = orders.second
    assert second_runs == (FORMS[form] is False)
    orders.forget()
    expected = launch(grouped_sums, FORM=form)
    assert orders.second == second_runs + (FORMS[form] is not None)
    if FORMS[form] is False:
        return  # both launches ran the same two orders, and timing may decide what these show
    assert kinds(findings) == kinds(expected)
    assert not (FORMS[form] and findings)


def test_a_race_of_another_order_is_found(orders: Orders) -> None:
    (finding,) = launch(grouped_sums, FORM="first of others")
    assert finding.kind == "overlapping_store"


@triton.jit
def in_a_loop(
    x_ptr, sums_ptr, locks_ptr, begun_ptr, o_ptr, GROUPS: tl.constexpr, N: tl.constexpr,
    NESTED: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    row, i = tl.program_id(0), tl.arange(0, B)
    for step in range(N):
        group = (row + step) % GROUPS
        take(locks_ptr + group, "")
        if NESTED:
            take(locks_ptr + 64, "")
        sums = sums_ptr + group * B + i
        tl.store(sums, tl.load(sums) + tl.load(x_ptr + row * B + i))
        tl.debug_barrier()
        if NESTED:
            tl.atomic_xchg(locks_ptr + 64, 0)
        tl.atomic_xchg(locks_ptr + group, 0)


@pytest.mark.parametrize("nested", [False, True])
def test_locks_are_taken_in_loops(nested: bool, orders: Orders) -> None:
    assert not launch(in_a_loop, N=4, NESTED=nested)
    assert orders.second == nested


@triton.jit
def until_loaded(
    x_ptr, sums_ptr, locks_ptr, begun_ptr, o_ptr, GROUPS: tl.constexpr, B: tl.constexpr
):
    row, i = tl.program_id(0), tl.arange(0, B)
    take(locks_ptr, "")
    turn = tl.load(begun_ptr)
    tl.store(begun_ptr, turn + 1)
    tl.atomic_xchg(locks_ptr, 0)
    for step in range(turn):  # only the last of 24 programs enters the loop
        if step == 22:
            tl.store(o_ptr + i, row)


def test_how_often_a_loop_runs_may_depend_on_the_order(orders: Orders) -> None:
    launch(until_loaded)
    assert orders.second == 1


@triton.jit
def at_a_loaded_place(o_ptr, locks_ptr, place_ptr, B: tl.constexpr):
    take(locks_ptr, "")
    rows = o_ptr + tl.load(place_ptr) * B + tl.arange(0, B)
    tl.store(rows, tl.load(rows) + tl.program_id(0))
    tl.debug_barrier()
    tl.atomic_xchg(locks_ptr, 0)


def test_written_arguments_are_determined_per_launch(orders: Orders) -> None:
    o, locks = (torch.zeros(n * B, dtype=torch.int32) for n in (40, 1))
    for place, second in ((torch.zeros(1, dtype=torch.int32), 0), (o[8 * B :], 1)):
        with sanitize(checks="racecheck", threads=1) as report:
            at_a_loaded_place[(4,)](o, locks, place, B=B)
        assert not report.findings
        assert orders.second == second
