"""Tests of loops, branches and calls with all kinds of carried values."""

from __future__ import annotations

import itertools

import kernel_text
import numpy as np
import pytest
import torch

pytestmark = pytest.mark.usefixtures("schedule")


def run(text: str, *arguments: object, out: int = 16, grid: int = 1, **constants: object) -> list:
    """Launch `kernel(out_ptr, …)` and return its int64 results; -99 means that none was stored."""
    result = torch.full((out,), -99, dtype=torch.int64)
    kernel_text.kernel(text)[(grid,)](result, *arguments, **constants)
    return result.tolist()


LOOP = """
@triton.jit
def kernel(out_ptr, start, stop, step):
    count = 0
    total = 0
    last = -1
    for i in range(start, stop, step):
        count += 1
        total += i * i
        last = i
    tl.store(out_ptr, count)
    tl.store(out_ptr + 1, total)
    tl.store(out_ptr + 2, last)
"""


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 10, 1), (0, 0, 1), (5, 2, 1), (-7, 8, 3), (3, 4, 100), (-20, -5, 4), (0, 2000, 7)],
)
def test_loop_bounds_known_at_launch(start: int, stop: int, step: int) -> None:
    steps = list(range(start, stop, step))
    got = run(LOOP, start, stop, step)
    assert got[:3] == [len(steps), sum(i * i for i in steps), steps[-1] if steps else -1]


def test_loops_counting_down_and_unrolled() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, n, STOP: tl.constexpr):
        down = 0
        for i in range(n, 0, -1):
            down = down * 3 + i
        tl.store(out_ptr, down)
        for i in tl.static_range(STOP):
            tl.store(out_ptr + 1 + i, i * n)
        total = 0
        for i in tl.range(0, n, num_stages=3, loop_unroll_factor=2):
            total += i
        tl.store(out_ptr + 1 + STOP, total)
        for i in tl.static_range(6, 0, -3):
            total += i
        tl.store(out_ptr + 2 + STOP, total)
    """
    down = 0
    for i in range(5, 0, -1):
        down = down * 3 + i
    assert run(text, 5, STOP=4)[:7] == [down, 0, 5, 10, 15, 10, 19]


def test_swapped_and_rotated_values() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, n):
        lanes = tl.arange(0, 4)
        a, b = tl.zeros((4,), tl.int64) + lanes, tl.full((4,), 1, tl.int64)
        x, y, z = 1, 2, 3
        for i in range(n):
            a, b = b, a + b
            x, y, z = y, z, x
        tl.store(out_ptr + lanes, a)
        tl.store(out_ptr + 4 + lanes, b)
        tl.store(out_ptr + 8 + lanes, tl.where(lanes == 0, x, tl.where(lanes == 1, y, z)))
    """
    a, b = np.arange(4), np.ones(4, np.int64)
    xyz = [1, 2, 3]
    for _ in range(7):
        a, b = b, a + b
        xyz = [xyz[1], xyz[2], xyz[0]]
    assert run(text, 7)[:12] == [*a, *b, *xyz, xyz[2]]


def test_carried_pointers() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, x_ptr, y_ptr, n):
        lanes = tl.arange(0, 8)
        p, q = x_ptr + lanes, y_ptr + lanes
        near = x_ptr
        total = tl.zeros((8,), tl.int64)
        for i in range(n):
            total = total * 2 + tl.load(p)
            p, q = q, p + 8
            near += tl.load(near)
        tl.store(out_ptr + lanes, total)
        tl.store(out_ptr + 8, tl.load(near))
    """
    x = torch.arange(1, 41)
    y = torch.arange(101, 141)
    sources, position = [x.numpy()[0:], y.numpy()[0:]], 0
    total = np.zeros(8, np.int64)
    for _ in range(4):
        total = total * 2 + sources[0][:8]
        sources = [sources[1], sources[0][8:]]
        position += x.numpy()[position]
    assert run(text, x, y, 4)[:9] == [*total, x.numpy()[position]]


def test_nested_loops_with_carried_tiles() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, m, n):
        lanes = tl.arange(0, 4)
        outer = tl.zeros((4,), tl.int64)
        for i in range(m):
            inner = outer + lanes
            for j in range(i, n):
                inner = inner * 2 + j
                for k in range(j):
                    inner -= k
            outer += inner % 1000
        tl.store(out_ptr + lanes, outer)
    """
    lanes = np.arange(4)
    outer = np.zeros(4, np.int64)
    for i in range(3):
        inner = outer + lanes
        for j in range(i, 5):
            inner = inner * 2 + j - sum(range(j))
        outer = outer + np.fmod(inner, 1000)
    assert run(text, 3, 5)[:4] == outer.tolist()


WHILE = """
@triton.jit(do_not_specialize=["n"])
def kernel(out_ptr, n):
    steps = 0
    largest = n
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        largest = max(largest, n)
        steps += 1
    tl.store(out_ptr, steps)
    tl.store(out_ptr + 1, largest)
"""


@pytest.mark.smoke
@pytest.mark.parametrize("n", [1, 6, 27])
def test_while(n: int) -> None:
    got = run(WHILE, n)
    steps, largest = 0, n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        largest, steps = max(largest, n), steps + 1
    assert got[:2] == [steps, largest]


def test_while_with_tiles_and_a_reduction_as_its_condition() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, limit):
        lanes = tl.arange(0, 8)
        x = lanes.to(tl.int64) + 1
        rounds = 0
        while tl.sum(x, 0) < limit:
            x = tl.where(x % 2 == 0, x + 3, x * 2)
            rounds += 1
        tl.store(out_ptr + lanes, x)
        tl.store(out_ptr + 8, rounds)
    """
    x, rounds = np.arange(1, 9), 0
    while x.sum() < 500:
        x = np.where(x % 2 == 0, x + 3, x * 2)
        rounds += 1
    assert run(text, 500)[:9] == [*x, rounds]


def test_branches_carry_scalars_tiles_and_pointers() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, x_ptr, y_ptr, n):
        program = tl.program_id(0)
        lanes = tl.arange(0, 4)
        tile = tl.zeros((4,), tl.int64)
        p = x_ptr + lanes
        if program < n:
            tile += program + 10
            p = y_ptr + lanes
            if program % 2 == 0:
                tile = tile * lanes
            elif program == 1:
                tile -= lanes
        else:
            tile -= 5
        tl.store(out_ptr + program * 4 + lanes, tile + tl.load(p))
    """
    x, y = torch.arange(0, 400, 100), torch.arange(0, 4000, 1000)
    lanes = np.arange(4)
    tiles = [(10 + 0 * lanes) * lanes, 11 - lanes, 12 * lanes]
    expected = [*(t + y.numpy() for t in tiles), -5 + x.numpy()]
    assert run(text, x, y, 3, grid=4) == np.concatenate(expected).tolist()


def test_stores_in_branches_and_early_return() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, n):
        program = tl.program_id(0)
        if program >= n:
            return
        tl.store(out_ptr + program, program)
        if program == 1:
            tl.store(out_ptr + 8, 77)
            return
        tl.store(out_ptr + program + 4, program * program)
    """
    got = run(text, 3, grid=8)
    assert got[:9] == [0, 1, 2, -99, 0, -99, 4, -99, 77]


def test_conditions_of_every_kind() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, x_ptr, a, b, FLAG: tl.constexpr):
        if FLAG:
            tl.store(out_ptr, 1)
        if a > 0 and b > 0:
            tl.store(out_ptr + 1, 1)
        if a > 0 or b > 0:
            tl.store(out_ptr + 2, 1)
        if not (a > b):
            tl.store(out_ptr + 3, 1)
        if tl.load(x_ptr) > 0.5:
            tl.store(out_ptr + 4, 1)
        chosen = 5 if a > 0 else 6
        tl.store(out_ptr + chosen, 1)
        if tl.load(x_ptr) > 0.5 and tl.load(x_ptr + 1) > 0.5:
            tl.store(out_ptr + 7, 1)
    """
    got = run(text, torch.tensor([0.75, 0.25]), 3, 0, FLAG=True, out=8)
    assert got == [1, -99, 1, -99, 1, 1, -99, -99]


CALLS = """
@triton.jit
def square(x):
    return x * x

@triton.jit
def divide(x, y):
    quotient = x // y
    return quotient, x - quotient * y

@triton.jit(noinline=True)
def apart(x, n, out_ptr):
    total = 0
    for i in range(n):
        total += square(x) + i
    lanes = tl.arange(0, 4)
    tl.store(out_ptr + 8 + lanes, lanes * n)
    return total, tl.sum(lanes * x, 0)

@triton.jit
def choose(x, limit):
    if limit > 3:
        return x + 1000
    return x

@triton.jit
def stepped(x, STEPS: tl.constexpr):
    for i in tl.static_range(STEPS):
        x = square(x) % 97 + i
    return x

@triton.jit
def kernel(out_ptr, n, STEPS: tl.constexpr):
    lanes = tl.arange(0, 4)
    q, r = divide(square(lanes.to(tl.int64) + 5), n)
    tl.store(out_ptr + lanes, q)
    tl.store(out_ptr + 4 + lanes, r + stepped(lanes, STEPS))
    total, dot = apart(n + 1, n, out_ptr)
    tl.store(out_ptr + 12, total)
    tl.store(out_ptr + 13, dot)
    tl.store(out_ptr + 14, choose(n, n))
    tl.store(out_ptr + 15, choose(n, n - 3))
"""


@pytest.mark.smoke
def test_calls() -> None:
    lanes = np.arange(4)
    squares = (lanes + 5) ** 2
    x = lanes
    for i in range(3):
        x = x * x % 97 + i
    expected = [*(squares // 4), *(squares % 4 + x), *(lanes * 4), 106, 30, 1004, 4]
    assert run(CALLS, 4, STEPS=3) == expected


def test_functions_as_constants_and_tuples() -> None:
    text = """
    @triton.jit
    def double(x):
        return x * 2

    @triton.jit
    def apply(F: tl.constexpr, pair):
        return F(pair[0]) + pair[1]

    @triton.jit
    def kernel(out_ptr, sizes, n):
        lanes = tl.arange(0, 4)
        pair = (lanes, n)
        tl.store(out_ptr + lanes, apply(double, pair))
        total = 0
        for i in tl.static_range(len(sizes)):
            total = total * 10 + sizes[i]
        tl.store(out_ptr + 4, total)
    """
    assert run(text, (3, 1, 4), 7)[:5] == [7, 9, 11, 13, 314]


def test_dynamic_loop_over_dynamic_counts_from_memory() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, starts_ptr, values_ptr):
        row = tl.program_id(0)
        total = tl.zeros((), tl.int64)
        for i in range(tl.load(starts_ptr + row), tl.load(starts_ptr + row + 1)):
            value = tl.load(values_ptr + i)
            if value > 0:
                total += value
        tl.store(out_ptr + row, total)
    """
    starts = torch.tensor([0, 3, 3, 7, 12], dtype=torch.int32)
    values = torch.tensor([1, -2, 3, 4, 5, -6, 7, 8, 9, 10, -11, 12])
    bounds = starts.tolist()
    expected = [sum(max(0, v) for v in values.tolist()[a:b]) for a, b in itertools.pairwise(bounds)]
    assert run(text, starts, values, grid=4)[:4] == expected


def test_i64_loop_counters_and_scalars_of_every_argument_type() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, big, small, flag, fraction, unsigned):
        total = tl.zeros((), tl.int64)
        for i in range(big, big + 3):
            total += i - big
        tl.store(out_ptr, total)
        tl.store(out_ptr + 1, big // 3 + small)
        tl.store(out_ptr + 2, flag.to(tl.int64))
        tl.store(out_ptr + 3, (fraction * 8).to(tl.int64))
        tl.store(out_ptr + 4, (unsigned >> 60).to(tl.int64))
    """
    got = run(text, 2**40, -5, True, 1.625, 2**63 + 5)
    assert got[:5] == [3, 2**40 // 3 - 5, 1, 13, 8]
