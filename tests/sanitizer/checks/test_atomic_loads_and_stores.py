"""Atomic loads, stores and polls: ordering, races, and checks of their addresses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize

pytestmark = pytest.mark.skipif(
    not hasattr(tl, "atomic_poll"), reason="this Triton has no atomic loads"
)
YES_NO = (False, True)
B = 64


def kinds(kernel: Any, programs: int, *arguments: Any, **constants: Any) -> set[str]:
    """Return the kinds of the findings of racecheck in one launch."""
    with sanitize(checks="racecheck,deadlock") as report:
        kernel[(programs,)](*arguments, **constants)
    return {finding.kind for finding in report.findings if finding.severity != "note"}


def words(count: int = 4) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


@triton.jit
def message(
    data_ptr, flag_ptr, o_ptr,
    WAIT: tl.constexpr, WRITER: tl.constexpr, READER: tl.constexpr,
    WRITER_SCOPE: tl.constexpr, READER_SCOPE: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    i = tl.arange(0, N)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i * 1.0)
        if WAIT == "tile":
            tl.atomic_store(flag_ptr + i, i + 1, sem=WRITER, scope=WRITER_SCOPE)
        else:
            tl.atomic_store(flag_ptr, 1, sem=WRITER, scope=WRITER_SCOPE)
    else:
        if WAIT == "poll":
            tl.atomic_poll(flag_ptr, 1, sem=READER, scope=READER_SCOPE)
        elif WAIT == "timed":
            while not tl.atomic_poll(flag_ptr, 1, sem=READER, scope=READER_SCOPE, timeout_ns=0):
                pass
        elif WAIT == "tile":
            tl.atomic_poll(flag_ptr + i, i + 1, sem=READER, scope=READER_SCOPE)
        else:
            while tl.atomic_load(flag_ptr, sem=READER, scope=READER_SCOPE) == 0:
                pass
        tl.store(o_ptr + i, tl.load(data_ptr + i))


@pytest.mark.parametrize("wait", ["poll", "timed", "tile", "load"])
@pytest.mark.parametrize("writer", YES_NO)
@pytest.mark.parametrize("reader", YES_NO)
def test_a_message_is_passed_without_a_barrier(wait: str, writer: bool, reader: bool) -> None:
    scopes_tried = list(itertools.product(YES_NO, YES_NO)) if wait == "poll" else [(True, True)]
    for written_to_all, read_of_all in scopes_tried:
        scopes = ["gpu" if wide else "cta" for wide in (written_to_all, read_of_all)]
        kinds_found = kinds(
            *(message, 2, torch.zeros(B), words(B), torch.zeros(B)),
            WAIT=wait,
            WRITER="release" if writer else "relaxed",
            READER="acquire" if reader else "relaxed",
            WRITER_SCOPE=scopes[0],
            READER_SCOPE=scopes[1],
            N=B,
        )
        ordered = writer and reader and written_to_all and read_of_all
        assert kinds_found == (set() if ordered else {"race"}), scopes


@triton.jit
def handed_on(data_ptr, flag_ptr, o_ptr, HOW: tl.constexpr, N: tl.constexpr):
    i, program = tl.arange(0, N), tl.program_id(0)
    if program == 0:
        tl.store(data_ptr + i, i * 1.0)
        tl.atomic_store(flag_ptr, 1)
        if HOW == "own store":
            tl.atomic_store(flag_ptr, 2, sem="relaxed")
    elif program == 1:
        if HOW == "store":
            tl.atomic_poll(flag_ptr, 1, sem="relaxed")
            tl.atomic_store(flag_ptr, 2, sem="relaxed")
        elif HOW == "exchange":
            tl.atomic_poll(flag_ptr, 1, sem="relaxed")
            tl.atomic_xchg(flag_ptr, 2, sem="relaxed")
        elif HOW == "acquired":
            tl.atomic_poll(flag_ptr, 1)
            tl.atomic_store(flag_ptr, 2)
    else:
        tl.atomic_poll(flag_ptr, 2)
        tl.store(o_ptr + i, tl.load(data_ptr + i))


@pytest.mark.parametrize(
    ("how", "expected"),
    [("own store", set()), ("store", {"race"}), ("exchange", set()), ("acquired", set())],
)
def test_accesses_that_continue_a_release_sequence(how: str, expected: set[str]) -> None:
    arguments = torch.zeros(B), words(), torch.zeros(B)
    assert kinds(handed_on, 3, *arguments, HOW=how, N=B) == expected


@triton.jit
def access(x_ptr, o_ptr, HOW: tl.constexpr, SCOPE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    if HOW == "load":
        tl.store(o_ptr + i, tl.load(x_ptr + i))
    elif HOW == "store":
        tl.store(x_ptr + i, i)
    elif HOW == "add":
        tl.atomic_add(x_ptr + i, i, sem="relaxed", scope=SCOPE)
    elif HOW == "atomic load":
        tl.store(o_ptr + i, tl.atomic_load(x_ptr + i, sem="relaxed", scope=SCOPE))
    else:
        tl.atomic_store(x_ptr + i, i, sem="relaxed", scope=SCOPE)


@triton.jit
def two(x_ptr, o_ptr, ONE: tl.constexpr, OTHER: tl.constexpr, SCOPE: tl.constexpr, N: tl.constexpr):
    if tl.program_id(0) == 0:
        access(x_ptr, o_ptr, ONE, SCOPE, N)
    else:
        access(x_ptr, o_ptr + N, OTHER, SCOPE, N)


ACCESSES = ("load", "store", "add", "atomic load", "atomic store")


PAIRS = list(itertools.combinations_with_replacement(ACCESSES, 2))


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("scope", ["gpu", "cta"])
def test_races_of_two_programs(one: str, other: str, scope: str) -> None:
    kinds_found = kinds(two, 2, words(B), words(2 * B), ONE=one, OTHER=other, SCOPE=scope, N=B)
    pair = {one, other}
    writes = pair & {"store", "add", "atomic store"}
    excluded = scope == "gpu" and not pair & {"load", "store"}
    if not writes or excluded:
        assert not kinds_found
    elif pair == {"store"}:
        assert kinds_found == set()  # equal values only lead to a note
    else:
        assert kinds_found == {"race"}


@triton.jit
def impatient(data_ptr, flag_ptr, o_ptr, READS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i * 1.0)
        tl.atomic_store(flag_ptr, 1)
    else:
        seen = tl.atomic_poll(flag_ptr, 2, timeout_ns=1000)
        if READS:
            tl.store(o_ptr + i, tl.load(data_ptr + i))
        else:
            tl.store(o_ptr + i, seen.to(tl.float32))


@pytest.mark.parametrize("reads", YES_NO)
def test_a_poll_that_times_out_acquires_nothing(reads: bool) -> None:
    arguments = torch.zeros(B), words(), torch.zeros(B)
    assert kinds(impatient, 2, *arguments, READS=reads, N=B) == ({"race"} if reads else set())


@triton.jit
def weak(data_ptr, flag_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i * 1.0)
        tl.atomic_store(flag_ptr, 1, sem="relaxed")
    else:
        tl.atomic_poll(flag_ptr, 1, sem="relaxed")
        tl.store(o_ptr + i, tl.load(data_ptr + i))


def test_a_race_names_the_accesses_that_lack_an_order() -> None:
    with sanitize(checks="racecheck") as report:
        weak[(2,)](torch.zeros(B), words(), torch.zeros(B), N=B)
    (race,) = report.findings
    related_messages = [related.message for related in race.related]
    assert any("release" in message for message in related_messages)
    assert any("acquire" in message for message in related_messages)


@triton.jit
def outside(x_ptr, o_ptr, HOW: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    if HOW == "load":
        tl.store(o_ptr + i, tl.atomic_load(x_ptr + i))
    elif HOW == "store":
        tl.atomic_store(x_ptr + i, i)
    elif HOW == "masked":
        tl.atomic_store(x_ptr + i, tl.atomic_load(x_ptr + i, mask=i < 60), mask=i < 60)
    else:
        tl.atomic_poll(x_ptr + i, 0, timeout_ns=0)


@pytest.mark.parametrize(
    ("how", "expected"),
    [("load", ["oob_load"]), ("store", ["oob_atomic"]), ("masked", []), ("poll", ["oob_load"])],
)
def test_lanes_outside_of_their_tensor(how: str, expected: list[str]) -> None:
    with sanitize(checks="memcheck") as report:
        outside[(1,)](words(60), words(B), HOW=how, N=B)
    assert [finding.kind for finding in report.findings] == expected


@triton.jit
def unwritten(x_ptr, o_ptr, HOW: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    if HOW == "masked":
        tl.store(o_ptr + i, tl.atomic_load(x_ptr + i, mask=i < 8))
    elif HOW == "chosen":
        tl.store(o_ptr + i, tl.where(i < 8, tl.atomic_load(x_ptr + i, mask=i < 8), 0))
    elif HOW == "poll":
        tl.store(o_ptr + i, tl.atomic_poll(x_ptr + i, 0).to(tl.int32))
    elif HOW == "store":
        tl.atomic_store(x_ptr + i, i)
        tl.debug_barrier()
        tl.store(o_ptr + i, tl.load(x_ptr + i))
    else:
        tl.store(o_ptr + i, tl.atomic_load(x_ptr + i))


@pytest.mark.parametrize(
    ("how", "is_written", "expected"),
    [
        ("masked", True, ["uninit_read"]),
        ("chosen", True, []),
        ("poll", True, []),
        ("store", False, []),
        ("load", True, []),
        ("load", False, ["uninit_read"]),
    ],
)
def test_undefined_elements(how: str, is_written: bool, expected: list[str]) -> None:
    with sanitize(checks="initcheck") as report:
        x = words(B) if is_written else torch.empty(B, dtype=torch.int32)
        unwritten[(1,)](x, words(B), HOW=how, N=B)
    assert [finding.kind for finding in report.findings] == expected


@triton.jit
def lost(flag_ptr):
    program = tl.program_id(0)
    tl.atomic_poll(flag_ptr + program, 1)
    tl.atomic_store(flag_ptr + 1 - program, 1)


def test_a_poll_that_never_ends_is_a_deadlock() -> None:
    with sanitize() as report:
        lost[(2,)](words())
    (hang,) = report.findings
    assert (hang.kind, hang.severity, hang.argument.name) == ("deadlock", "error", "flag_ptr")


@triton.jit
def wait_for_the_last(flag_ptr):
    if tl.program_id(0) < tl.num_programs(0) - 1:
        tl.atomic_poll(flag_ptr, 1)
    else:
        tl.atomic_store(flag_ptr, 1)


def test_a_poll_for_a_program_that_may_not_have_started() -> None:
    with sanitize(checks="deadlock") as report:
        wait_for_the_last[(64,)](words())
    assert [(f.kind, f.severity) for f in report.findings] == [("deadlock", "warning")]
