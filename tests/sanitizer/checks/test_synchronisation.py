"""Scopes of atomics, waits that never end, second orders, and lost signals."""

from __future__ import annotations

import linecache

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def count_kernel(counter_ptr, SCOPE: tl.constexpr):
    tl.atomic_add(counter_ptr, 1, sem="relaxed", scope=SCOPE)


@pytest.mark.parametrize(
    ("scope", "programs", "kinds"),
    [("cta", 4, ["race"]), ("cta", 1, []), ("gpu", 4, []), ("sys", 4, [])],
)
def test_atomics_of_programs_exclude_each_other_in_a_common_scope(
    scope: str, programs: int, kinds: list[str]
) -> None:
    counter = torch.zeros(1, dtype=torch.int32)
    with sanitize() as report:
        count_kernel[(programs,)](counter, SCOPE=scope)
    assert [finding.kind for finding in report.findings] == kinds
    assert all("scope" in (finding.help or "") for finding in report.findings)
    assert counter.item() == programs


@triton.jit
def wait_for_the_initial_value_kernel(flag_ptr, data_ptr, out_ptr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(data_ptr, 7)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") != 0:
            pass
        tl.store(out_ptr + pid, tl.load(data_ptr))


def test_a_launch_that_hangs_in_one_order_is_analysed_in_another() -> None:
    flag, data, out = (torch.zeros(n, dtype=torch.int32) for n in (1, 1, 3))
    with sanitize(threads=1) as report:
        wait_for_the_initial_value_kernel[(3,)](flag, data, out)
    hang, race = report.findings
    assert (hang.kind, race.kind, race.argument.name) == ("deadlock", "race", "data_ptr")
    assert race.notes[-1] == "seen when the programs run in reverse order"


@triton.jit
def ticket_kernel(counter_ptr, order_ptr, squares_ptr, last):
    program = tl.program_id(0)
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.store(order_ptr + tl.minimum(ticket, last), program)
    tl.store(squares_ptr + program, program * program)


def test_another_order_starts_from_the_same_memory_and_is_undone() -> None:
    counter = torch.tensor([3], dtype=torch.int32)
    order = torch.full((3 + 64,), -1, dtype=torch.int32)
    squares = torch.full((64,), -1, dtype=torch.int32)
    with sanitize(threads=1) as report:
        ticket_kernel[(64,)](counter, order, squares, 3 + 63)
    # If the second run started with the results of the first, all programs would store to the last
    # element.
    assert not report.findings, report.report()
    assert counter.item() == 3 + 64
    assert order.tolist() == [-1] * 3 + list(range(64))
    assert squares.tolist() == [n * n for n in range(64)]


@triton.jit
def mailbox_kernel(x_ptr, box_ptr, full_ptr, empty_ptr, out_ptr, n, WAITS: tl.constexpr):
    if tl.program_id(0) == 0:
        for t in range(n):
            if WAITS:
                while tl.atomic_xchg(empty_ptr, 0, sem="acquire") != 1:
                    pass
            tl.store(box_ptr, tl.load(x_ptr + t))
            tl.atomic_xchg(full_ptr, 1, sem="release")  # raised again
    else:
        for t in range(n):
            while tl.atomic_xchg(full_ptr, 0, sem="acquire") != 1:
                pass
            tl.store(out_ptr + t, tl.load(box_ptr))
            tl.atomic_xchg(empty_ptr, 1, sem="release")


@pytest.mark.parametrize("waits", [False, True])
def test_signals_that_are_raised_again_before_they_are_consumed(waits: bool) -> None:
    full, empty = (torch.tensor([n], dtype=torch.int32) for n in (0, 1))
    x, out = torch.arange(4.0), torch.zeros(4)
    with sanitize() as report:
        mailbox_kernel[(2,)](x, torch.zeros(1), full, empty, out, 4, WAITS=waits)
    if waits:
        assert report.findings == []
        assert torch.equal(x, out)
        return
    hang = report.findings[0]
    assert (hang.kind, hang.argument.name) == ("deadlock", "full_ptr")
    (again,) = hang.related
    assert again.message.startswith(
        "the word is set again here before another program has received"
    )
    assert "raised again" in linecache.getline(again.location.file, again.location.line)
    assert hang.help.endswith("wait until another program has received the signal")
