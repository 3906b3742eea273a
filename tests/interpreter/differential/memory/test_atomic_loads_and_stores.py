"""Tests of atomic loads, stores and polls of every type, scope and order."""

from __future__ import annotations

import itertools
import linecache

import kernel_text
import numpy as np
import pytest
import torch
import triton.language as tl
from number_formats import ALL, I16, I32, I64, U32, U64, Format, assert_same, samples, to_torch
from number_formats import empty as empty_tensor
from number_formats import to_numpy as contents
from triton.compiler.errors import CompilationError

from ttools.core.errors import KernelError
from ttools.interpreter import interpret

pytestmark = [
    pytest.mark.skipif(
        not hasattr(tl, "atomic_poll"), reason="this version of Triton has no atomic loads"
    ),
    pytest.mark.usefixtures("schedule"),
]
SCOPES = ("gpu", "cta", "sys")

MOVED = """
@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    order: tl.constexpr = "release" if SEM == "acquire" else SEM
    value = tl.atomic_load(x_ptr + lanes, mask=mask, sem=SEM, scope=SCOPE)
    tl.atomic_store(y_ptr + lanes, value, mask=mask, sem=order, scope=SCOPE)
    tl.atomic_store(y_ptr + n, tl.atomic_load(x_ptr + n, sem=SEM, scope=SCOPE), sem=order)
    off = tl.atomic_load(x_ptr + n + 1, mask=n < 0, sem=SEM)
    tl.atomic_store(y_ptr + n + 1, off, mask=n < 0, sem=order)
"""


@pytest.mark.parametrize("sem", ["acquire", pytest.param("relaxed", marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", ALL, ids=str)
def test_values_are_loaded_and_stored_unchanged(format: Format, sem: str) -> None:
    for scope in SCOPES:
        values = np.resize(samples(format, 40), 40)
        target = empty_tensor(40, format)
        before = contents(target).copy()
        kernel = kernel_text.kernel(MOVED)
        kernel[(1,)](to_torch(values), target, 27, BLOCK=32, SEM=sem, SCOPE=scope)
        moved = np.arange(40) < 28
        assert_same(contents(target), np.where(moved, values, before), scope)


POLLED = """
@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr, TIMED: tl.constexpr):
    lanes = tl.arange(0, BLOCK)[:, None] * 4 + tl.arange(0, 4)[None, :]
    wanted = tl.load(y_ptr + lanes)
    if TIMED:
        seen = tl.atomic_poll(x_ptr + lanes, wanted, sem="relaxed", timeout_ns=0)
        one = tl.atomic_poll(x_ptr, tl.load(y_ptr), scope="sys", timeout_ns=5)
    else:
        seen = tl.atomic_poll(x_ptr + lanes, wanted)
        one = tl.atomic_poll(x_ptr, tl.load(y_ptr), scope="cta")
    tl.store(out_ptr + lanes, tl.where(one, seen, not seen).to(tl.int8))
"""


@pytest.mark.parametrize("format", [I16, I32, U32, I64, U64], ids=str)
def test_polls_compare_each_lane(format: Format) -> None:
    values = samples(format, 64)[:64]
    for is_timed, miss in ((False, 0), (True, 0), (True, 1)):
        # The last bit of every third lane differs from memory.
        difference = (np.arange(64) % 3 == 2) * miss
        out = torch.full((64,), 2, dtype=torch.int8)
        x, y = to_torch(values), to_torch(values ^ difference.astype(format.numpy))
        kernel_text.kernel(POLLED)[(1,)](x, y, out, BLOCK=16, TIMED=is_timed)
        assert out.tolist() == (difference == 0).astype(int).tolist(), (is_timed, miss)


@pytest.mark.parametrize(
    "call",
    [
        "tl.atomic_load(p, sem='release')",
        "tl.atomic_load(p, sem='acq_rel')",
        "tl.atomic_store(p, 1, sem='acquire')",
        "tl.atomic_poll(p, 1, sem='release')",
        "tl.atomic_poll(p.to(tl.pointer_type(tl.int8)), 1)",
        "tl.atomic_poll(p.to(tl.pointer_type(tl.float32)), 1)",
        "tl.atomic_poll(p, 1, timeout_ns=-1)",
        "tl.atomic_load(p, scope='world')",
    ],
)
def test_calls_that_triton_rejects_are_errors_at_their_line(call: str, schedule: str) -> None:
    text = f"@triton.jit\ndef kernel(p):\n    tl.store(p, 0)\n    {call}\n"
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Triton's, or ours of eager programs
        kernel_text.kernel(text)[(1,)](torch.zeros(1, dtype=torch.int32))
    if schedule != "eager":
        assert isinstance(raised.value, CompilationError)
        assert "at 3:4" in str(raised.value)


CHAIN = """
@triton.jit
def kernel(flag_ptr, sum_ptr, BACKWARD: tl.constexpr, HOW: tl.constexpr):
    program = tl.program_id(0)
    source = program + 1 if BACKWARD else program
    target = program if BACKWARD else program + 1
    if HOW == "load":
        while tl.atomic_load(flag_ptr + source) != 1:
            pass
    elif HOW == "timed":
        while not tl.atomic_poll(flag_ptr + source, 1, timeout_ns=100):
            pass
    else:
        tl.atomic_poll(flag_ptr + source, 1)
    tl.store(sum_ptr + target, tl.load(sum_ptr + source) + program)
    tl.atomic_store(flag_ptr + target, 1)
"""


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("how", ["poll", "load", "timed"])
def test_each_program_waits_for_its_neighbour(how: str, backward: bool) -> None:
    count = 40
    flags, sums = (torch.zeros(count + 1, dtype=torch.int32) for _ in range(2))
    flags[count if backward else 0] = 1
    kernel_text.kernel(CHAIN)[(count,)](flags, sums, BACKWARD=backward, HOW=how)
    order = range(count - 1, -1, -1) if backward else range(count)
    expected = list(itertools.accumulate(order, initial=0))
    assert sums.tolist() == (expected[::-1] if backward else expected)
    assert flags.tolist() == [1] * (count + 1)


def test_a_tile_waits_for_many_programs() -> None:
    text = """
    @triton.jit
    def kernel(flag_ptr, value_ptr, out_ptr, BLOCK: tl.constexpr):
        program, lanes = tl.program_id(0), tl.arange(0, BLOCK)
        if program == 0:
            seen = tl.atomic_poll(flag_ptr + lanes, lanes + 1)
            tl.store(out_ptr, tl.sum(tl.load(value_ptr + lanes)))
            tl.store(out_ptr + 1, tl.sum(seen.to(tl.int32)))
        else:
            lane = tl.num_programs(0) - 1 - program
            tl.store(value_ptr + lane, lane * lane)
            tl.atomic_store(flag_ptr + lane, lane + 1)
    """
    flags, values, out = (torch.zeros(16, dtype=torch.int32) for _ in range(3))
    kernel_text.kernel(text)[(17,)](flags, values, out, BLOCK=16)
    assert out[:2].tolist() == [sum(n * n for n in range(16)), 16]


def test_an_endless_poll_is_a_deadlock_at_its_line() -> None:
    text = """
    @triton.jit
    def kernel(flag_ptr):
        program = tl.program_id(0)
        tl.atomic_poll(flag_ptr + program, 1)
        tl.atomic_store(flag_ptr + 1 - program, 1)
    """
    kernel = kernel_text.kernel(text)
    with pytest.raises(KernelError) as raised:
        kernel[(2,)](torch.zeros(2, dtype=torch.int32))
    assert raised.value.kind == "deadlock"
    location = raised.value.location
    assert location is not None
    assert "atomic_poll" in linecache.getline(location.file, location.line)


@pytest.mark.native_only
def test_a_poll_with_a_timeout_is_no_deadlock() -> None:
    text = """
    @triton.jit
    def kernel(flag_ptr, out_ptr):
        seen = tl.atomic_poll(flag_ptr, 1, timeout_ns=1_500_000_000)
        tl.store(out_ptr, seen.to(tl.int32))
    """
    out = torch.full((1,), 2, dtype=torch.int32)
    kernel_text.kernel(text)[(1,)](torch.zeros(1, dtype=torch.int32), out)
    assert out.item() == 0


def test_a_timed_poll_lets_later_programs_begin() -> None:
    text = """
    @triton.jit
    def kernel(flag_ptr, out_ptr):
        if tl.program_id(0) + 1 < tl.num_programs(0):
            seen = tl.atomic_poll(flag_ptr, 1, timeout_ns=60_000_000_000)
            tl.store(out_ptr + tl.program_id(0), seen.to(tl.int32))
        else:
            tl.atomic_store(flag_ptr, 1)
    """
    out = torch.zeros(40, dtype=torch.int32)
    kernel_text.kernel(text)[(41,)](torch.zeros(1, dtype=torch.int32), out)
    assert out.sum() == 40


def test_atomic_loads_and_stores_are_not_moved_or_removed() -> None:
    """Check that every iteration of a loop executes its atomic loads and stores."""
    text = """
    @triton.jit
    def kernel(x_ptr, out_ptr, n):
        total = 0
        for turn in range(n):
            before = tl.atomic_load(x_ptr, sem="relaxed")
            tl.atomic_store(x_ptr, before + 1, sem="relaxed")
            after = tl.atomic_load(x_ptr, sem="relaxed")
            total += before * 100 + after
        tl.store(out_ptr, total)
    """
    x, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    kernel_text.kernel(text)[(1,)](x, out, 5)
    assert x.item() == 5
    assert out.item() == sum(n * 100 + n + 1 for n in range(5))


@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_threads(threads: int) -> None:
    flags, sums = (torch.zeros(31, dtype=torch.int32) for _ in range(2))
    flags[30] = 1
    with interpret(threads=threads):
        kernel_text.kernel(CHAIN)[(30,)](flags, sums, BACKWARD=True, HOW="poll")
    assert sums[0].item() == sum(range(30))
