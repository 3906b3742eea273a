"""Synchronising kernels over all combinations of barriers, orders, scopes and atomics."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize

YES_NO = (False, True)
ATOMICS = ("xchg", "add", "cas", "max")
#: Memory orders, by whether they acquire and whether they release.
ORDERS = {
    (False, False): "relaxed",
    (True, False): "acquire",
    (False, True): "release",
    (True, True): "acq_rel",
}
B = 64


def kinds(kernel: Any, programs: int, *arguments: Any, **constants: Any) -> set[str]:
    """Return the kinds of the findings of racecheck in one launch."""
    with sanitize(checks="racecheck,deadlock") as report:
        kernel[(programs,)](*arguments, **{"B": B, **constants})
    return {finding.kind for finding in report.findings if finding.severity != "note"}


def flags() -> torch.Tensor:
    return torch.zeros(4, dtype=torch.int32)


def product(*choices: Iterable[Any]) -> list[Any]:
    return list(itertools.product(*choices))


@triton.jit
def message(
    data_ptr,
    flag_ptr,
    o_ptr,
    BARRIER: tl.constexpr,
    WRITER: tl.constexpr,
    READER: tl.constexpr,
    WRITER_SCOPE: tl.constexpr,
    READER_SCOPE: tl.constexpr,
    SLOT: tl.constexpr,
    B: tl.constexpr,
):
    i = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i * 1.0)
        if BARRIER:
            tl.debug_barrier()
        tl.atomic_xchg(flag_ptr, 1, sem=WRITER, scope=WRITER_SCOPE)
        tl.atomic_xchg(flag_ptr + 1, 1, sem="relaxed")
    else:
        while tl.atomic_add(flag_ptr + SLOT, 0, sem=READER, scope=READER_SCOPE) == 0:
            pass
        tl.store(o_ptr + i, tl.load(data_ptr + i))


def expected(*, ordered: bool, barrier: bool) -> set[str]:
    """Return the expected kinds: none, those of a missing barrier, or those of a missing order."""
    return set() if ordered and barrier else {"intra_program_race"} if ordered else {"race"}


@pytest.mark.parametrize(("release", "acquire"), product(YES_NO, YES_NO))
@pytest.mark.parametrize("barrier", YES_NO)
def test_a_message_is_passed(barrier: bool, release: bool, acquire: bool) -> None:
    for writes_to_all, reads_of_all in product(YES_NO, YES_NO):
        scopes = ["gpu" if wide else "cta" for wide in (writes_to_all, reads_of_all)]
        kinds_found = kinds(
            *(message, 2, torch.zeros(B), flags(), torch.zeros(B)),
            BARRIER=barrier,
            WRITER=ORDERS[False, release],
            READER=ORDERS[acquire, False],
            WRITER_SCOPE=scopes[0],
            READER_SCOPE=scopes[1],
            SLOT=0,
        )

        ordered = release and acquire and writes_to_all and reads_of_all

        assert kinds_found == expected(ordered=ordered, barrier=barrier), scopes


def test_a_flag_that_is_not_the_one_released_orders_nothing() -> None:
    kinds_found = kinds(
        *(message, 2, torch.zeros(B), flags(), torch.zeros(B)),
        BARRIER=True,
        WRITER="release",
        READER="acquire",
        WRITER_SCOPE="gpu",
        READER_SCOPE="gpu",
        SLOT=1,
    )
    assert kinds_found == {"race"}


@triton.jit
def polled(
    data_ptr,
    flag_ptr,
    o_ptr,
    POLL: tl.constexpr,
    THEN: tl.constexpr,
    USED: tl.constexpr,
    B: tl.constexpr,
):
    i = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i * 1.0)
        tl.debug_barrier()
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        if POLL == "volatile":
            while tl.load(flag_ptr, volatile=True) == 0:
                pass
        else:
            while tl.atomic_add(flag_ptr, 0, sem=POLL) == 0:
                pass
        seen = 1
        if THEN != "nothing":
            again = tl.atomic_add(flag_ptr, 0, sem=THEN)
            if USED:
                seen = again
        tl.debug_barrier()
        tl.store(o_ptr + i, tl.load(data_ptr + i) * seen)


@pytest.mark.parametrize("poll", ["volatile", "relaxed", "acquire"])
@pytest.mark.parametrize("then", ["nothing", "relaxed", "acquire"])
def test_a_volatile_poll_is_a_relaxed_one(poll: str, then: str) -> None:
    for used in YES_NO:
        arguments = torch.zeros(B), flags(), torch.zeros(B)
        kinds_found = kinds(polled, 2, *arguments, POLL=poll, THEN=then, USED=used)
        assert kinds_found == (set() if "acquire" in (poll, then) else {"race"}), used


@triton.jit
def raised(flag_ptr, HOW: tl.constexpr, ORDER: tl.constexpr):
    if HOW == "xchg":
        tl.atomic_xchg(flag_ptr, 1, sem=ORDER)
    elif HOW == "add":
        tl.atomic_add(flag_ptr, 1, sem=ORDER)
    elif HOW == "cas":
        tl.atomic_cas(flag_ptr, 0, 1, sem=ORDER)
    else:
        tl.atomic_max(flag_ptr, 1, sem=ORDER)


@triton.jit
def seen(flag_ptr, HOW: tl.constexpr, ORDER: tl.constexpr):
    if HOW == "xchg":
        value = tl.atomic_xchg(flag_ptr, 1, sem=ORDER)
    elif HOW == "add":
        value = tl.atomic_add(flag_ptr, 0, sem=ORDER)
    elif HOW == "cas":
        value = tl.atomic_cas(flag_ptr, 1, 1, sem=ORDER)
    else:
        value = tl.atomic_max(flag_ptr, 0, sem=ORDER)
    return value


@triton.jit
def any_atomic(
    data_ptr,
    flag_ptr,
    o_ptr,
    RAISE: tl.constexpr,
    SEE: tl.constexpr,
    WRITER: tl.constexpr,
    READER: tl.constexpr,
    B: tl.constexpr,
):
    i = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i * 1.0)
        tl.debug_barrier()
        raised(flag_ptr, RAISE, WRITER)
    else:
        if seen(flag_ptr, SEE, READER) == 1:
            tl.store(o_ptr + i, tl.load(data_ptr + i))


@pytest.mark.parametrize(
    ("rise", "see"),
    [
        pytest.param(rise, see, marks=() if rise == see or see == "cas" else pytest.mark.slow)
        for rise, see in product(ATOMICS, ATOMICS)
    ],
)
def test_every_atomic_orders(rise: str, see: str) -> None:
    for releases, acquires in ((True, True), (rise == see, rise != see)):
        # The reader looks only once; with one thread, program 0 has raised the flag before.
        with sanitize(checks="racecheck", threads=1) as report:
            any_atomic[(2,)](
                *(torch.zeros(B), flags(), torch.zeros(B)),
                RAISE=rise,
                SEE=see,
                WRITER=ORDERS[True, releases],
                READER=ORDERS[acquires, True],
                B=B,
            )
        kinds_found = {f.kind for f in report.findings}
        assert kinds_found == expected(ordered=releases and acquires, barrier=True), (
            releases,
            acquires,
        )


@triton.jit
def locked(
    x_ptr,
    lock_ptr,
    TAKE: tl.constexpr,
    GIVE: tl.constexpr,
    BARRIER: tl.constexpr,
    LOCKS: tl.constexpr,
    B: tl.constexpr,
):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    lock = lock_ptr + p % LOCKS
    while tl.atomic_cas(lock, 0, 1, sem=TAKE) == 1:
        pass
    tl.store(x_ptr + i, tl.load(x_ptr + i) + p)
    if BARRIER:
        tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem=GIVE)


@pytest.mark.parametrize(("acquire", "release"), product(YES_NO, YES_NO))
@pytest.mark.parametrize("barrier", YES_NO)
def test_a_lock_is_held(acquire: bool, release: bool, barrier: bool) -> None:
    for same in YES_NO:
        kinds_found = kinds(
            *(locked, 4, torch.zeros(B), flags()),
            TAKE=ORDERS[acquire, False],
            GIVE=ORDERS[False, release],
            BARRIER=barrier,
            LOCKS=1 if same else 2,
        )

        ordered = acquire and release and same

        kinds_found -= {"overlapping_store"}  # follows from the race of the sums
        wanted = expected(ordered=ordered, barrier=barrier)
        # Programs that share a lock lack the barrier as well.
        assert wanted <= kinds_found <= wanted | {"intra_program_race"}
        assert bool(kinds_found) == (not (ordered and barrier))


@triton.jit
def touched(x_ptr, o_ptr, HOW: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.program_id(0)
    if HOW == "load":
        tl.store(o_ptr + p * B + i, tl.load(x_ptr + i))
    elif HOW == "store":
        tl.store(x_ptr + i, p * 1.0)
    elif HOW == "atomic":
        tl.atomic_add(x_ptr + i, 1.0, sem="relaxed")
    else:
        tl.atomic_add(x_ptr + i, 1.0, sem="relaxed", scope="cta")


@triton.jit
def unordered(x_ptr, o_ptr, FIRST: tl.constexpr, SECOND: tl.constexpr, B: tl.constexpr):
    if tl.program_id(0) == 0:
        touched(x_ptr, o_ptr, FIRST, B)
    else:
        touched(x_ptr, o_ptr, SECOND, B)


@pytest.mark.parametrize("second", ["load", "store", "atomic", "own atomic"])
@pytest.mark.parametrize("first", ["load", "store", "atomic", "own atomic"])
def test_two_programs_meet(first: str, second: str) -> None:
    kinds_found = kinds(
        unordered, 2, torch.zeros(B), torch.zeros(2 * B), FIRST=first, SECOND=second
    )

    harmless = first == second and first in ("load", "atomic")

    both_store = first == second == "store"
    assert kinds_found == (set() if harmless else {"overlapping_store" if both_store else "race"})


@triton.jit
def again(
    x_ptr,
    o_ptr,
    HOW: tl.constexpr,
    BARRIER: tl.constexpr,
    MOVED: tl.constexpr,
    B: tl.constexpr,
):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, i * 1.0)
    if BARRIER:
        tl.debug_barrier()
    j = B - 1 - i if MOVED else i
    if HOW == "load":
        tl.store(o_ptr + i, tl.load(x_ptr + j))
    elif HOW == "store":
        tl.store(x_ptr + j, i * 2.0)
    else:
        tl.atomic_add(x_ptr + j, 1.0)


@pytest.mark.parametrize("how", ["load", "store", "atomic"])
@pytest.mark.parametrize(("barrier", "moved"), product(YES_NO, YES_NO))
def test_a_program_accesses_its_own_stores_again(how: str, barrier: bool, moved: bool) -> None:
    kinds_found = kinds(
        again, 1, torch.zeros(B), torch.zeros(B), HOW=how, BARRIER=barrier, MOVED=moved
    )
    assert kinds_found == ({"intra_program_race"} if moved and not barrier else set())


@triton.jit
def last(
    part_ptr,
    count_ptr,
    o_ptr,
    N: tl.constexpr,
    ORDER: tl.constexpr,
    SCOPE: tl.constexpr,
    BARRIER: tl.constexpr,
    USED: tl.constexpr,
    B: tl.constexpr,
):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(part_ptr + p * B + i, p + i * 1.0)
    if BARRIER:
        tl.debug_barrier()
    count = tl.atomic_add(count_ptr, 1, sem=ORDER, scope=SCOPE)
    if (count if USED else p) == N - 1:
        g = tl.arange(0, N)
        tl.store(o_ptr + i, tl.sum(tl.load(part_ptr + g[:, None] * B + i[None, :]), 0))


@pytest.mark.parametrize("scope", ["gpu", "cta"])
@pytest.mark.parametrize("barrier", YES_NO)
@pytest.mark.parametrize("used", YES_NO)
def test_the_last_block_reads_all(used: bool, barrier: bool, scope: str) -> None:
    for (acquires, releases), order in ORDERS.items():
        kinds_found = kinds(
            *(last, 4, torch.zeros(4, B), flags(), torch.zeros(B)),
            N=4,
            ORDER=order,
            SCOPE=scope,
            BARRIER=barrier,
            USED=used,
        )

        ordered = used and acquires and releases and scope == "gpu"

        # Without a barrier, other threads of the last program load the program's own partial
        # results.
        own = set() if barrier else {"intra_program_race"}
        assert kinds_found - own == expected(ordered=ordered, barrier=barrier) - own, order
        assert bool(kinds_found) == (not (ordered and barrier)), order


@triton.jit
def met(count_ptr, part_ptr, o_ptr, N: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    tl.store(part_ptr + p, p * 1.0)
    tl.debug_barrier()
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < N:
        pass
    tl.debug_barrier()
    tl.store(o_ptr + p, tl.sum(tl.load(part_ptr + tl.arange(0, N)), 0))


@pytest.mark.parametrize("programs", [2, 4])
@pytest.mark.parametrize("threads", [1, 8, pytest.param(2, marks=pytest.mark.slow)])
def test_kernels_that_need_co_resident_programs_are_reported_on_any_host(
    threads: int, programs: int
) -> None:
    arguments = flags(), torch.zeros(programs), torch.zeros(programs)
    with sanitize(threads=threads) as report:
        met[(programs,)](*arguments, N=programs, B=B)
    reported = {(finding.kind, finding.severity) for finding in report.findings}
    # Any GPU can run two neighbouring programs at the same time.
    assert reported == (set() if programs == 2 else {("deadlock", "warning")})
