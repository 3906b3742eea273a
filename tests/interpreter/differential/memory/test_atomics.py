"""Tests of atomic operations: kinds, formats, masks, shared elements and returned values."""

from __future__ import annotations

import kernel_text
import numpy as np
import pytest
import torch
from atomic_kinds import KINDS
from joint_kernels import Cases, Launch
from number_formats import (
    BF16,
    F16,
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    Array,
    Format,
    assert_same,
    to_numpy,
    to_torch,
)

pytestmark = pytest.mark.usefixtures("schedule")

FLOATS = {"add": (F32, F64, F16, BF16)} | dict.fromkeys(set(KINDS) - {"add"}, (F32, F64))
CASES = [(kind, f) for kind in KINDS for f in (I32, U32, I64, U64, *FLOATS.get(kind, ()))]

ONE_EACH = """
@triton.jit
def kernel(x_ptr, y_ptr, old_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < n
    y = tl.load(y_ptr + lanes, mask=mask)
    old = tl.atomic_{kind}(x_ptr + lanes, y, mask=mask)
    tl.store(old_ptr + lanes, old, mask=mask)
"""


def operands(format: Format, count: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    if format.is_float:
        x, y = (rng.integers(-50, 50, count).astype(np.float32) for _ in range(2))
        return x.astype(format.numpy), y.astype(format.numpy)
    low = np.iinfo(format.numpy).min // 2
    high = np.iinfo(format.numpy).max // 2
    x, y = (rng.integers(low, high, count, dtype=format.numpy) for _ in range(2))
    return x, y


def one_each(case: tuple[str, Format]) -> Launch:
    kind, format = case
    x, y = operands(format, 100)
    old = to_torch(np.zeros_like(x))
    return Launch(
        ONE_EACH.format(kind=kind), (to_torch(x.copy()), to_torch(y), old, 100), {"BLOCK": 64}
    )


ONE_EACH_CASES = Cases(CASES, one_each, programs=2)


@pytest.mark.parametrize(("kind", "format"), CASES, ids=str)
def test_lanes_with_different_elements(kind: str, format: Format, schedule: str) -> None:
    x, y = operands(format, 100)
    target, _, old, _ = ONE_EACH_CASES.arguments((kind, format), schedule)
    assert_same(to_numpy(target), KINDS[kind](x, y).astype(format.numpy))
    assert_same(to_numpy(old), x)


ADJACENT = """
@triton.jit
def kernel(x_ptr, y_ptr, wanted_ptr, old_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    wanted = tl.load(wanted_ptr + lanes) != 0
    old = tl.atomic_{kind}(x_ptr + lanes, tl.load(y_ptr + lanes), mask=wanted)
    tl.store(old_ptr + lanes, old, mask=wanted)
"""


def mask_of_lanes() -> Array:
    """Return a mask: sixteen lanes off, sixteen lanes on, and random lanes."""
    mask = np.random.default_rng(2).integers(0, 2, 64).astype(np.int32)
    mask[:16], mask[16:32] = 0, 1
    return mask


def adjacent(case: tuple[str, Format], skipped: int) -> Launch:
    """Return the launch of atomic operations on all elements except the first ones."""
    kind, format = case
    x, y = operands(format, 64 + skipped)
    target, old = to_torch(x.copy()), to_torch(np.zeros_like(x[skipped:]))
    arguments = target[skipped:], to_torch(y[skipped:].copy()), to_torch(mask_of_lanes()), old
    return Launch(ADJACENT.format(kind=kind), arguments, {"BLOCK": 64})


#: Number of skipped elements, and of skipped elements of eight bytes. In the first case the other
#: elements are aligned to sixteen bytes, in the last two they are not.
SKIPPED = [(0, 0), (1, 1), (2, 3)]
ADJACENT_CASES = [
    Cases(CASES, lambda case, by=by: adjacent(case, by[case[1].bits == 64])) for by in SKIPPED
]


@pytest.mark.parametrize(("kind", "format"), CASES, ids=str)
def test_adjacent_lanes_under_any_mask(kind: str, format: Format, schedule: str) -> None:
    for by, cases in zip(SKIPPED, ADJACENT_CASES, strict=True):
        skipped = by[format.bits == 64]
        part, _, _, old = cases.arguments((kind, format), schedule)
        x, y = operands(format, 64 + skipped)
        chosen = np.concatenate([np.zeros(skipped, bool), mask_of_lanes() != 0])
        changed = KINDS[kind](x, y).astype(format.numpy)
        all_elements = part.as_strided((x.size,), (1,), 0)
        assert_same(to_numpy(all_elements), np.where(chosen, changed, x), f"without {skipped}")
        assert_same(to_numpy(old), np.where(chosen, x, np.zeros_like(x))[skipped:])


@pytest.mark.parametrize("format", [I32, F32, F64, F16, BF16], ids=str)
def test_overlapping_runs_of_lanes_lose_no_update(format: Format) -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, ones_ptr, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        ones = tl.load(ones_ptr + lanes)
        for turn in range(20):
            tl.atomic_add(x_ptr + tl.program_id(0) % 5 + lanes, ones)
    """
    target = to_torch(np.zeros(36, format.numpy))
    ones = to_torch(np.ones(32, format.numpy))
    kernel_text.kernel(text)[(10,)](target, ones, BLOCK=32)
    # The numbers are small enough to be exact in every format.
    expected = sum(np.pad(np.full(32, 40), (first, 4 - first)) for first in range(5))
    assert_same(to_numpy(target), np.asarray(expected).astype(format.numpy))


SAME_ELEMENTS = """
@triton.jit
def kernel(x_ptr, y_ptr, where_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < n
    y = tl.load(y_ptr + lanes, mask=mask)
    where = tl.load(where_ptr + lanes, mask=mask, other=0)
    tl.atomic_{kind}(x_ptr + where, y, mask=mask)
"""


def crowd(format: Format) -> tuple[Array, Array, Array]:
    """Return a few elements, many operands, and the element that each operand updates."""
    x, y = operands(format, 1000)
    x = x[:7].copy()
    if format in (F16, BF16):
        # Sums of -1, 0 and 1 are exact in any order.
        y = np.sign(y.astype(np.float32)).astype(format.numpy)
        x = np.zeros_like(x)
    return x, y, np.random.default_rng(1).integers(0, 7, 1000).astype(np.int32)


def same_elements(case: tuple[str, Format]) -> Launch:
    kind, format = case
    arguments = (*map(to_torch, crowd(format)), 1000)
    return Launch(SAME_ELEMENTS.format(kind=kind), arguments, {"BLOCK": 64})


COMMUTING = [case for case in CASES if case[0] != "xchg"]
CROWDED = Cases(COMMUTING, same_elements, programs=16)


@pytest.mark.smoke
@pytest.mark.parametrize(("kind", "format"), COMMUTING, ids=str)
def test_many_lanes_and_programs_at_the_same_elements(
    kind: str, format: Format, schedule: str
) -> None:
    x, y, where = crowd(format)
    target = CROWDED.arguments((kind, format), schedule)[0]
    expected = x.copy()
    with np.errstate(over="ignore"):
        for i, value in zip(where, y, strict=True):
            expected[i] = KINDS[kind](expected[i], value)
    assert_same(to_numpy(target), expected)


def test_returned_values_of_one_counter_are_a_permutation() -> None:
    text = """
    @triton.jit
    def kernel(counter_ptr, seen_ptr, BLOCK: tl.constexpr):
        ticket = tl.atomic_add(counter_ptr + tl.zeros((BLOCK,), tl.int32), 1)
        tl.store(seen_ptr + ticket, tl.program_id(0) + 1)
    """
    counter = torch.zeros(1, dtype=torch.int32)
    returned = torch.zeros(50 * 32, dtype=torch.int32)
    kernel_text.kernel(text)[(50,)](counter, returned, BLOCK=32)
    assert counter.item() == 1600
    assert (torch.bincount(returned)[1:] == 32).all()


def test_scalar_operations_and_orderings() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, old_ptr):
        program = tl.program_id(0)
        tl.atomic_add(x_ptr, 1, sem="relaxed")
        tl.atomic_max(x_ptr + 1, program, sem="release", scope="cta")
        tl.atomic_min(x_ptr + 2, program, sem="acquire", scope="sys")
        tl.atomic_or(x_ptr + 3, 1 << program, sem="acq_rel", scope="gpu")
        tl.atomic_xor(x_ptr + 4, 1 << (program % 3))
        tl.atomic_and(x_ptr + 5, ~(1 << program))
        tl.atomic_xchg(x_ptr + 6 + program, program)
        tl.atomic_add(x_ptr, 5, mask=program == 3)
        tl.store(old_ptr + program, tl.atomic_add(x_ptr + 30, program))
    """
    x = torch.zeros(32, dtype=torch.int32)
    x[2], x[5] = 9, -1
    old = torch.full((16,), -1, dtype=torch.int32)
    kernel_text.kernel(text)[(16,)](x, old)
    assert x[:6].tolist() == [21, 15, 0, 0xFFFF, 0b110, ~0xFFFF]
    assert x[6:22].tolist() == list(range(16))
    assert x[30].item() == 120
    assert sorted(old.tolist())[0] == 0


@pytest.mark.smoke
@pytest.mark.parametrize("format", [I32, I64, U64], ids=str)
def test_compare_and_swap(format: Format) -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, expected_ptr, value_ptr, old_ptr, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        old = tl.atomic_cas(x_ptr + lanes, tl.load(expected_ptr + lanes), tl.load(value_ptr + lanes))
        tl.store(old_ptr + lanes, old)
    """  # noqa: E501
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, 64).astype(format.numpy)
    expected = rng.integers(0, 3, 64).astype(format.numpy)
    value = rng.integers(10, 20, 64).astype(format.numpy)
    target, old = to_torch(x.copy()), to_torch(np.zeros_like(x))
    kernel_text.kernel(text)[(1,)](target, to_torch(expected), to_torch(value), old, BLOCK=64)
    assert_same(to_numpy(target), np.where(x == expected, value, x))
    assert_same(to_numpy(old), x)


def test_a_lock_guards_a_sum() -> None:
    text = """
    @triton.jit
    def kernel(lock_ptr, sum_ptr, x_ptr, n, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.program_id(0) * BLOCK + lanes)
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        tl.store(sum_ptr + lanes, tl.load(sum_ptr + lanes) + x)
        tl.debug_barrier()
        tl.atomic_xchg(lock_ptr, 0)
    """
    x = torch.arange(200 * 16, dtype=torch.float32).reshape(200, 16) % 7
    lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(16)
    kernel_text.kernel(text)[(200,)](lock, total, x, 200, BLOCK=16)
    assert torch.equal(total, x.sum(0))
    assert lock.item() == 0


def test_histogram() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
        lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = lanes < n
        x = tl.load(x_ptr + lanes, mask=mask, other=0)
        tl.atomic_add(counts_ptr + x, 1, mask=mask)
        own = tl.histogram(x, BINS, mask=mask)
        tl.atomic_add(counts_ptr + BINS + tl.arange(0, BINS), own)
    """
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 32, 1000).astype(np.int32))
    counts = torch.zeros(64, dtype=torch.int32)
    kernel_text.kernel(text)[(8,)](x, counts, 1000, BLOCK=128, BINS=32)
    expected = torch.bincount(x, minlength=32).to(torch.int32)
    assert torch.equal(counts[:32], expected)
    assert torch.equal(counts[32:], expected)
