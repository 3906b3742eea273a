"""Hints that the data contradict, and unusual hints that are harmless."""

from __future__ import annotations

import re
from typing import Any

import instrumented
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from instrumented import Held, line_of

from ttools.sanitizer.passes.hints import bad_hint

B = 16


def run(kernel: Any, programs: int, *, schedule: str = "fused", **arguments: Any) -> list[Held]:
    arguments.setdefault("x_ptr", torch.zeros(4096))
    arguments.setdefault("o_ptr", torch.zeros(4096))
    return instrumented.run(
        kernel,
        (programs,),
        arguments,
        {"B": B},
        bad_hint.apply,
        schedule=schedule,  # type: ignore[arg-type]
    )


@triton.jit
def rows(x_ptr, o_ptr, s, n, B: tl.constexpr):
    r = tl.program_id(0)
    off = tl.multiple_of(r * s, 16)  # here
    c = tl.arange(0, B)
    tl.store(o_ptr + r * B + c, tl.load(x_ptr + off + c))


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
@pytest.mark.parametrize("stride", [35, 32])
def test_a_scalar_that_is_no_multiple(stride: int, schedule: str) -> None:
    (failure,) = run(rows, 4, s=stride, n=0, schedule=schedule)
    expected = [bool(r * stride % 16) for r in range(4)]
    assert failure.where.any(axis=1).tolist() == expected
    assert line_of(failure) == "off = tl.multiple_of(r * s, 16)  # here"
    assert failure.argument == 0
    promise, use = failure.message.split(", and the ")
    assert promise == "the values contradict the hint tl.multiple_of(…, 16)"
    assert re.fullmatch(r"load at line \d+ relies on it", use)


@triton.jit
def classic(x_ptr, o_ptr, s, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.max_contiguous(tl.multiple_of(c, B), B)
    tl.store(o_ptr + c, tl.load(x_ptr + c, mask=c < n), mask=c < n)


@triton.jit
def classic_columns(x_ptr, o_ptr, s, n, B: tl.constexpr):
    for start in range(0, n, B):
        first = tl.multiple_of(start, B)
        c = tl.max_contiguous(tl.multiple_of(first + tl.arange(0, B), B), B)
        tl.store(o_ptr + c, tl.load(x_ptr + c, mask=c < n), mask=c < n)


@pytest.mark.parametrize("kernel", [classic, classic_columns])
def test_the_usual_form_needs_no_checks(kernel: Any) -> None:
    assert run(kernel, 3, s=0, n=41) == []


@triton.jit
def clamped(x_ptr, o_ptr, s, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.where(offs < n, offs, 0)
    c = tl.max_contiguous(tl.multiple_of(c, B), B)
    x = tl.load(x_ptr + c)
    tl.store(o_ptr + offs, x * 2, mask=offs < n)
    tl.store(o_ptr + 1024 + offs, x * 2, mask=offs < s)


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
def test_clamped_tails_matter_only_where_they_are_used(schedule: str) -> None:
    first, second = run(clamped, 2, s=25, n=20, schedule=schedule)
    assert not first.any
    np.testing.assert_array_equal(second.where[1], [4 <= lane < 9 for lane in range(B)])
    assert not second.where[0].any()


@triton.jit
def loaded(x_ptr, i_ptr, o_ptr, n, B: tl.constexpr):
    c = tl.arange(0, B)
    i = tl.max_constancy(tl.multiple_of(tl.load(i_ptr + c), 4), 4)
    j = tl.max_contiguous(tl.load(i_ptr + B + c), 8)
    tl.store(o_ptr + c, tl.load(x_ptr + i))
    tl.store(o_ptr + B + c, tl.load(x_ptr + j))


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
def test_loaded_indices(schedule: str) -> None:
    i = np.repeat([0, 8, 8, 100], 4)
    j = np.concatenate([np.arange(8) + 3, np.arange(8) + 30])
    index = torch.tensor([*i, *j], dtype=torch.int32)
    assert not any(h.any for h in run(loaded, 1, i_ptr=index, n=0, schedule=schedule))
    index[6] += 4  # no longer constant
    index[9:12] = 13  # neither a multiple of 4 nor constant
    index[B + 11] = 99
    first, second = run(loaded, 1, i_ptr=index, n=0, schedule=schedule)
    assert first.where[0].nonzero()[0].tolist() == [6, 9, 10, 11]
    assert second.where[0].nonzero()[0].tolist() == [11]
    assert "max_constancy" in first.message


@triton.jit
def pointers(x_ptr, o_ptr, s, n, B: tl.constexpr):
    p = tl.multiple_of(x_ptr + s, 16)
    tl.store(o_ptr, tl.load(p))


@pytest.mark.parametrize(("s", "broken"), [(4, False), (3, True)])
def test_divisors_of_pointers_are_in_bytes(s: int, broken: bool) -> None:
    (check,) = run(pointers, 1, s=s, n=0)
    assert check.any == broken


@triton.jit
def far_pointers(x_ptr, o_ptr, s, n, B: tl.constexpr):
    p = tl.max_contiguous(tl.multiple_of(x_ptr + s + tl.arange(0, B), 4096), B)
    tl.store(o_ptr + tl.arange(0, B), tl.load(p))


@pytest.mark.parametrize(("s", "broken"), [(0, False), (1024, False), (16, False), (4, True)])
def test_addresses_of_storages_are_no_defect(s: int, broken: bool) -> None:
    """Ignore the alignment of storages, which is 64 bytes on the CPU and 512 bytes on a GPU."""
    storage = torch.zeros(8192)
    first = -storage.data_ptr() // 4 % 1024 + 16  # 64 bytes past a multiple of 4096
    (check,) = run(far_pointers, 1, x_ptr=storage[first:], s=s, n=0)
    assert check.any == broken


@triton.jit
def carried(x_ptr, o_ptr, s, n, B: tl.constexpr):
    off = 0
    for i in range(n):
        off = tl.multiple_of(off, 16)
        tl.store(o_ptr + i, tl.load(x_ptr + off))
        off += s
    off = tl.multiple_of(off, 32)
    tl.store(o_ptr + 100, tl.load(x_ptr + off))


def _divisor(message: str) -> int:
    match = re.search(r"multiple_of\(…, (\d+)\)", message)
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize(
    ("s", "n", "broken"), [(32, 3, []), (16, 3, [32]), (16, 2, []), (8, 4, [16]), (8, 5, [16, 32])]
)
def test_hints_on_loop_carried_values(s: int, n: int, broken: list[int]) -> None:
    failures = [h for h in run(carried, 1, s=s, n=n) if h.any]
    # Several accesses may violate one hint.
    assert {_divisor(h.message) for h in failures} == set(broken)


@triton.jit
def tiles(x_ptr, o_ptr, s, n, B: tl.constexpr):
    c = tl.arange(0, B)
    p = x_ptr + c[:, None] * s + c[None, :]
    sums = tl.zeros((B, B), tl.float32)
    for _ in range(n):
        p = tl.multiple_of(p, [16, 16])  # here
        sums += tl.load(p)
        p += B
    tl.store(o_ptr + c[:, None] * B + c[None, :], sums)


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
@pytest.mark.parametrize(("s", "rows"), [(64, []), (62, [1, 3, 5, 7, 9, 11, 13, 15])])
def test_divisors_are_those_of_rows_where_columns_are_contiguous(
    s: int, rows: list[int], schedule: str
) -> None:
    (check,) = run(tiles, 1, s=s, n=2, schedule=schedule)
    assert line_of(check) == "p = tl.multiple_of(p, [16, 16])  # here"
    # 62 floats are 248 bytes, so that every second row does not start at a multiple of 16 bytes.
    assert sorted({*check.where[0].reshape(B, B).nonzero()[0].tolist()}) == rows


@triton.jit
def scaled(x_ptr, o_ptr, s, n, B: tl.constexpr):
    c = tl.max_contiguous((tl.arange(0, B) + s) % n, B)
    tl.store(o_ptr + tl.arange(0, B), tl.load(x_ptr + c * n))


def test_contiguity_ends_at_products() -> None:
    assert run(scaled, 1, s=3, n=11) == []


@triton.jit
def assuming(x_ptr, o_ptr, s, n, B: tl.constexpr):
    tl.assume(n > s)
    tl.store(o_ptr, n)


@pytest.mark.parametrize("n", [3, 4])
def test_false_assumptions(n: int) -> None:
    (check,) = run(assuming, 1, s=3, n=n)
    assert check.any == (n == 3)
    assert line_of(check) == "tl.assume(n > s)"


def test_specialisations_of_a_kernel() -> None:
    module = instrumented.parsed(
        rows, {"x_ptr": torch.zeros(1), "o_ptr": torch.zeros(1)} | {"s": 1, "n": 1}, {"B": B}
    )
    kernel = module.kernel
    kernel.attributes["arg_attrs"] = ({"tt.divisibility": 16}, {}, {"tt.divisibility": 8}, {})
    assert bad_hint.specialised(module) == {0: 16, 2: 8}


@triton.jit
def hinted_later(x_ptr, o_ptr, s, n, B: tl.constexpr):
    c = tl.arange(0, B)
    off = tl.program_id(0) * s
    n = tl.multiple_of(n, 4)
    off = tl.multiple_of(off, 8)  # here
    tl.store(o_ptr + c, tl.load(x_ptr + off + c))


def test_the_location_is_that_of_the_hint() -> None:
    (check,) = run(hinted_later, 2, s=12, n=4)
    assert check.where.any(axis=1).tolist() == [False, True]
    assert line_of(check) == "off = tl.multiple_of(off, 8)  # here"
