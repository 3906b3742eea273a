"""Races between programs in orders that were not run, because a wait could have ended earlier.

Rings, flags and barriers are launched over a product of parameters; the expected finding is
computed from these in one line.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize

B = 16


def words(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


def kinds(kernel: Any, programs: int, *arguments: Any, **constants: Any) -> set[str]:
    with sanitize(checks="racecheck,deadlock") as report:
        kernel[(programs,)](*arguments, **constants, B=B)
    return {finding.kind for finding in report.findings if finding.severity != "note"}


@triton.jit
def reached(word_ptr, value, HOW: tl.constexpr):
    if HOW == "add":
        while tl.atomic_add(word_ptr, 0, sem="acquire") < value:
            pass
    elif HOW == "or":
        while tl.atomic_or(word_ptr, 0) < value:
            pass
    elif HOW == "carried":
        seen = tl.atomic_add(word_ptr, 0)
        while seen < value:
            seen = tl.atomic_add(word_ptr, 0, sem="acquire")
    else:
        while tl.atomic_cas(word_ptr, value, value, sem="acquire") < value:
            pass


@triton.jit(do_not_specialize=["slots", "lag", "producer"])
def counted_ring(
    ring_ptr,
    full_ptr,
    free_ptr,
    o_ptr,
    n,
    slots,
    lag,
    producer,
    HOW: tl.constexpr,
    B: tl.constexpr,
):
    i = tl.arange(0, B)
    for step in range(n):
        slot = ring_ptr + step % slots * B + i
        if tl.program_id(0) == producer:
            reached(free_ptr, step - lag, HOW)  # waits until this number of slots have been read
            tl.debug_barrier()
            tl.store(slot, step * 1.0)
            tl.debug_barrier()
            tl.atomic_xchg(full_ptr, step + 1, sem="release")
        else:
            reached(full_ptr, step + 1, HOW)
            tl.debug_barrier()
            tl.store(o_ptr + step * B + i, tl.load(slot))
            tl.debug_barrier()
            tl.atomic_xchg(free_ptr, step + 1, sem="release")


@pytest.mark.parametrize("how", ["add", "or", "carried", "cas"])
def test_a_ring_is_not_written_before_it_was_read(how: str) -> None:
    rings = itertools.product((1, 2, 4), (0, 1, 3, 99)) if how == "add" else [(2, 1), (2, 2)]
    for (slots, lag), producer in itertools.product(rings, (0, 1)):
        o = torch.zeros(9, B)
        arguments = torch.zeros(slots, B), words(1), words(1), o, 9, slots, lag, producer
        kinds_found = kinds(counted_ring, 2, *arguments, HOW=how)
        # In step s the producer waits until s - lag slots are read; it needs s - (slots - 1).
        assert kinds_found == ({"race"} if lag > slots - 1 else set()), (slots, lag, producer)
        if not kinds_found:
            assert o[:, 0].tolist() == list(range(9))


@triton.jit(do_not_specialize=["slots"])
def slotted_ring(
    ring_ptr,
    flag_ptr,
    o_ptr,
    n,
    slots,
    WAITS: tl.constexpr,
    ACQUIRES: tl.constexpr,
    B: tl.constexpr,
):
    i = tl.arange(0, B)
    sem: tl.constexpr = "acquire" if ACQUIRES else "relaxed"
    for step in range(n):
        slot = ring_ptr + step % slots * B + i
        flag = flag_ptr + step % slots
        turn = step // slots
        if tl.program_id(0) == 0:
            if WAITS:
                while tl.atomic_add(flag, 0, sem=sem) < 2 * turn:
                    pass
            tl.store(slot, step * 1.0)
            tl.debug_barrier()
            tl.atomic_max(flag, 2 * turn + 1, sem="release")
        else:
            while tl.atomic_add(flag, 0, sem="acquire") < 2 * turn + 1:
                pass
            tl.store(o_ptr + step * B + i, tl.load(slot))
            tl.debug_barrier()
            tl.atomic_max(flag, 2 * turn + 2, sem="release")


@pytest.mark.parametrize(("waits", "acquires"), [(0, 0), (1, 0), (1, 1)])
def test_a_ring_with_a_flag_for_each_slot(waits: int, acquires: int) -> None:
    for slots in (1, 2, 4):
        o = torch.zeros(9, B)
        kinds_found = kinds(
            *(slotted_ring, 2, torch.zeros(slots, B), words(slots), o, 9, slots),
            WAITS=bool(waits),
            ACQUIRES=bool(acquires),
        )
        assert kinds_found == (set() if waits and acquires else {"race"}), slots


@triton.jit
def handed_over(ring_ptr, full_ptr, o_ptr, n, BACK: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for step in range(n):
        if tl.program_id(0) == 0:
            if BACK:
                while tl.atomic_or(full_ptr, 0) != 0:
                    pass
            tl.store(ring_ptr + i, step * 1.0)
            tl.debug_barrier()
            tl.atomic_xchg(full_ptr, 1)
        else:
            while tl.atomic_or(full_ptr, 0) == 0:
                pass
            tl.store(o_ptr + step * B + i, tl.load(ring_ptr + i))
            tl.debug_barrier()
            if BACK:
                tl.atomic_xchg(full_ptr, 0)


@pytest.mark.parametrize("back", [False, True])
def test_a_flag_that_is_raised_and_lowered(back: bool) -> None:
    """Check that an old value of a program's own flag does not end its wait."""
    kinds_found = kinds(handed_over, 2, torch.zeros(B), words(1), torch.zeros(5, B), 5, BACK=back)
    assert kinds_found == (set() if back else {"race"})


@triton.jit
def fan_out(data_ptr, turn_ptr, seen_ptr, o_ptr, n, readers, WAITS: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.program_id(0)
    for step in range(n):
        if p == 0:
            if WAITS:
                while tl.atomic_add(seen_ptr, 0) < step * readers:
                    pass
            tl.store(data_ptr + i, step * 1.0)
            tl.debug_barrier()
            tl.atomic_add(turn_ptr, 1)
        else:
            while tl.atomic_add(turn_ptr, 0) <= step:
                pass
            tl.store(o_ptr + (step * readers + p - 1) * B + i, tl.load(data_ptr + i))
            tl.debug_barrier()
            tl.atomic_add(seen_ptr, 1)


@pytest.mark.parametrize("readers", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("waits", [False, True])
def test_a_broadcast_waits_for_all_readers(waits: bool, readers: int) -> None:
    o = torch.zeros(5 * readers, B)
    kinds_found = kinds(
        *(fan_out, 1 + readers, torch.zeros(B), words(1), words(1), o, 5, readers), WAITS=waits
    )
    assert kinds_found - {"deadlock"} == (set() if waits else {"race"})


@triton.jit
def meetings(x_ptr, count_ptr, n, P: tl.constexpr, TWICE: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.program_id(0)
    for step in range(n):
        neighbour = tl.load(x_ptr + (p + 1) % P * B + i)
        if TWICE:  # all programs have read before any of them writes
            tl.debug_barrier()
            tl.atomic_add(count_ptr, 1)
            while tl.atomic_add(count_ptr, 0) < (2 * step + 1) * P:
                pass
        tl.store(x_ptr + p * B + i, neighbour + 1)
        tl.debug_barrier()
        tl.atomic_add(count_ptr, 1)
        while tl.atomic_add(count_ptr, 0) < ((2 if TWICE else 1) * (step + 1)) * P:
            pass
        tl.debug_barrier()


@pytest.mark.parametrize("programs", [2, 3])
@pytest.mark.parametrize("twice", [False, True])
def test_a_barrier_of_all_programs(twice: bool, programs: int) -> None:
    kinds_found = kinds(
        meetings, programs, torch.zeros(programs, B), words(1), 4, P=programs, TWICE=twice
    )
    assert kinds_found - {"deadlock"} == (set() if twice else {"race"})


def test_any_seed_finds_it() -> None:
    for seed in range(8):
        with sanitize(seed=seed) as report:
            counted_ring[(2,)](
                *(torch.zeros(2, B), words(1), words(1), torch.zeros(9, B), 9, 2, 2, 0),
                HOW="add",
                B=B,
            )
        (finding,) = report.findings
        assert (finding.kind, finding.argument.name) == ("race", "ring_ptr"), seed
