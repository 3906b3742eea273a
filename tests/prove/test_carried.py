"""Loop-carried bounds and reductions whose values depend on data, but stay in known ranges."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tests.prove.test_against_runs import check_claims, load_text

from ttools.ir.dialects import OPERATIONS
from ttools.prove.analysis import Analysis
from ttools.prove.concrete import operations as concrete
from ttools.prove.result import Result
from ttools.prove.symbolic import operations as symbolic


def _analyse(run: Callable[..., Any], first: int, last: int) -> Result:
    return Analysis(run, {"n": (first, last)}).analyse()


@triton.jit
def search_kernel(x_ptr, key_ptr, y_ptr, n, first, less):
    key = tl.load(key_ptr + tl.program_id(0))
    low = first
    high = n
    while low < high:
        middle = (low + high) // 2
        if tl.load(x_ptr + middle) <= key:
            low = middle + 1
        else:
            high = middle
    tl.store(y_ptr + tl.program_id(0), tl.load(x_ptr + tl.maximum(low - less, 0)))


def _search(n: Any, first: int = 0, less: int = 1) -> None:
    x, key = torch.ones(n, dtype=torch.int32), torch.ones(7, dtype=torch.int32)
    search_kernel[(7,)](x, key, torch.empty(7, dtype=torch.int32), n, first, less)


def _search_before(n: Any) -> None:
    x, key = torch.ones(n, dtype=torch.int32), torch.zeros(7, dtype=torch.int32)
    search_kernel[(7,)](x, key, torch.empty(7, dtype=torch.int32), n, -3, 1)


def _search_behind(n: Any) -> None:
    _search(n, less=0)


@triton.jit
def halving_kernel(x_ptr, start, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    step = start
    while step > 0:
        both = tl.load(x_ptr + i, mask=i < step) + tl.load(x_ptr + i + step, mask=i < step)
        tl.store(x_ptr + i, both, mask=i < step)
        tl.debug_barrier()
        step //= 2


def _halving(n: Any) -> None:
    halving_kernel[(1,)](torch.randn(n), n // 2, BLOCK=256)


def _halving_from_n(n: Any) -> None:
    halving_kernel[(1,)](torch.randn(n), n, BLOCK=256)


@triton.jit
def doubling_kernel(x_ptr, n):
    step = 1
    while step < n:
        tl.store(x_ptr + step, 1)
        step *= 2


def _doubling(n: Any) -> None:
    doubling_kernel[(1,)](torch.empty(n, dtype=torch.int8), n)


@triton.jit
def last_seen_kernel(x_ptr, y_ptr, start, trips):
    seen = start
    for i in range(trips):
        seen = tl.where(tl.load(x_ptr + i) > 0, i, seen)
    tl.store(y_ptr + seen, 1)


def _last_seen(n: Any) -> None:
    last_seen_kernel[(1,)](torch.zeros(n, dtype=torch.int32), torch.empty(n), 0, n)


def _last_seen_from_n(n: Any) -> None:
    last_seen_kernel[(1,)](torch.zeros(n, dtype=torch.int32), torch.empty(n), n, n)


def _no_trips(n: Any) -> None:
    """Launch a loop without iterations, so that the bounds of its counter say nothing."""
    last_seen_kernel[(1,)](torch.zeros(n, dtype=torch.int32), torch.empty(n), n, 0 * n)


@triton.jit
def last_lane_kernel(x_ptr, y_ptr, n, other, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    last = tl.max(tl.where(i < n, i, other))
    tl.store(y_ptr + tl.program_id(0), tl.load(x_ptr + last))


def _last_lane(n: Any, other: int = 0) -> None:
    programs = n // 64 + 1
    last_lane_kernel[(programs,)](torch.randn(n), torch.empty(programs), n, other, BLOCK=64)


def _lane_before(n: Any) -> None:
    _last_lane(n, -1)


@triton.jit
def mirrored_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.abs(i - 3)
    j = tl.where(j >= n, 2 * n - 2 - j, j)
    tl.store(y_ptr + i, tl.load(x_ptr + j, mask=i < n), mask=i < n)


def _mirrored(n: Any) -> None:
    mirrored_kernel[(triton.cdiv(n, 64),)](torch.randn(n), torch.empty(n), n, BLOCK=64)


@triton.jit
def clamped_kernel(x_ptr, y_ptr, n, last, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    end = tl.zeros([BLOCK], tl.int32) + last
    j = tl.minimum(i.to(tl.uint32), end.to(tl.uint32))
    tl.store(y_ptr + i, tl.load(x_ptr + j), mask=i < n)


def _clamped(n: Any) -> None:
    clamped_kernel[(triton.cdiv(n, 64),)](torch.randn(n), torch.empty(n), n, n - 1, BLOCK=64)


def _clamped_to_n(n: Any) -> None:
    clamped_kernel[(triton.cdiv(n, 64),)](torch.randn(n), torch.empty(n), n, n, BLOCK=64)


@triton.jit
def windows_kernel(x_ptr, y_ptr, row, K: tl.constexpr):
    c = tl.arange(0, K)
    x = tl.load(x_ptr + tl.program_id(0) * row + c)
    tl.store(y_ptr + tl.program_id(0) * K + c, x)


def _windows(n: Any) -> None:
    x = torch.randn(n + 7).unfold(0, 8, 1)
    windows_kernel[(n,)](x, torch.empty(n, 8), x.stride(0), K=8)


def _windows_with_gaps(n: Any) -> None:
    """Pass a view whose rows are 9 elements apart, while the kernel assumes 8."""
    windows_kernel[(n,)](torch.randn(9 * n).unfold(0, 8, 9), torch.empty(n, 8), 8, K=8)


@pytest.mark.parametrize(
    "run", [_search, _halving, _last_seen, _last_lane, _clamped, _windows, _doubling]
)
def test_bounded_values_that_depend_on_data_are_proved(run: Callable[..., Any]) -> None:
    result = _analyse(run, 1, 1 << 20)
    assert (result.verdict, result.abstained) == ("proved", [])


@pytest.mark.parametrize(
    ("run", "last", "kind", "size"),
    [
        (_search_before, 1 << 20, "oob_load", 1),
        (_search_behind, 1 << 20, "oob_load", 1),
        (_halving_from_n, 1 << 20, "oob_load", 1),
        (_lane_before, 1 << 20, "oob_load", 64),
        (_mirrored, 1 << 20, "oob_load", 1),
        (_clamped_to_n, 1 << 20, "oob_load", 1),
        (_windows_with_gaps, 1 << 20, "view_oob", 2),
        # Larger sizes are not proved; a run shows an overflow at this size.
        (_doubling, (1 << 31) - 1, "int_overflow", (1 << 30) + 1),
        (_no_trips, 1 << 20, "oob_store", 1),
    ],
)
def test_defects_of_values_that_depend_on_data(
    run: Callable[..., Any], last: int, kind: str, size: int
) -> None:
    defects = [(d.event.kind, d.sizes) for d in _analyse(run, 1, last).defects]
    assert (kind, {"n": size}) in defects


def test_a_start_out_of_bounds_is_not_proved() -> None:
    assert _analyse(_last_seen_from_n, 1, 1 << 20).verdict != "proved"


@triton.jit
def bits_kernel(y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, i, mask=i < n)


def test_bits_of_sizes_in_host_code() -> None:
    def run(n: Any) -> None:
        bits_kernel[(triton.cdiv(n, 64),)](torch.empty((n ^ 1) + (n | 4) + ~n), n, BLOCK=64)

    first = next(n for n in range(1, 60) if (n ^ 1) + (n | 4) + ~n < n)
    (defect,) = _analyse(run, 1, 60).defects
    assert (defect.event.kind, defect.sizes) == ("oob_store", {"n": first})


def test_symbolic_operations_can_be_evaluated_at_one_size() -> None:
    """Compare the rules of both evaluations, except for operations that declare their semantics."""
    declared = {n for n, op in OPERATIONS.items() if op.integer is not None or op.lanes is not None}
    assert {*symbolic.rule, *symbolic.several} - declared <= {*concrete.rule}


_MOVED = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(t_ptr, y_ptr, n, s):
    pid = tl.program_id(0)
    a = {a}
    b = {b}
    count = 0
    while ({condition}) & (count < 24):
        v = tl.load(t_ptr + {table})
        if v {relation} {key}:
            a = {step_a}
        else:
            b = {step_b}
        count += 1
    for i in range({trips}):
        b = tl.where(tl.load(t_ptr + i) > a, {kept}, b)
    tl.store(y_ptr + {end}, 1)

def run(n):
    s = {s}
    t, y = {content}, torch.empty({extent}, dtype=torch.int32)
    kernel[({grid},)](t, y, n, s)
"""


def _moved(choose: random.Random) -> str:
    steps = ["{m} + 1", "{m}", "b", "a + 1", "b - 1", "a * 2", "b // 2", "a + b", "b - s", "a - 1"]
    middle = choose.choice(["(a + b) // 2", "(a + (b - a) // 2)", "a", "b"])
    table = choose.choice([middle, middle, "tl.maximum(a, 0)", "tl.minimum(b, n - 1)"])
    return _MOVED.format(
        a=choose.choice(["0", "0", "1", "pid", "-1"]),
        b=choose.choice(["n", "n - 1", "s", "n + pid"]),
        condition=choose.choice(["a < b", "a < b", "a <= b", "b > 0", "a + 1 < b", "a < n"]),
        table=table,
        relation=choose.choice(["<", "<=", ">"]),
        key=choose.choice(["pid", "n // 2", "1", "n", "-1"]),
        step_a=choose.choice(steps).format(m=middle),
        step_b=choose.choice(steps[1:]).format(m=middle),
        trips=choose.choice(["0", "n", "s", "pid"]),
        kept=choose.choice(["i", "i + 1", "b", "b - 1", "n - 1 - i"]),
        end=choose.choice(["a", "b", "tl.maximum(a, 0)", "a + b", "b - 1", "pid"]),
        s=choose.choice(["2", "n", "n // 2"]),
        content=choose.choice(["torch.arange(n)", "torch.ones(n, dtype=torch.int32)"]),
        extent=choose.choice(["n", "n + 1", "2 * n + 2", "n + 8"]),
        grid=choose.choice(["1", "1", "n", "3"]),
    )


_CHOSEN = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, s, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    r = i[:, None]
    c = tl.arange(0, 4)[None, :]
    j = {index}
    p = tl.{first}({masked}{axis})
    x = tl.load(x_ptr + p{shift}{mask})
    tl.store(y_ptr + {store}, x{store_mask})

def run(n):
    s = {s}
    x, y = torch.randn({extent}), torch.empty({other_extent})
    kernel[({grid},)](x, y, n, s, BLOCK=4)
"""


def _chosen(choose: random.Random) -> str:
    flat = choose.random() < 0.5
    index = ["i", "n - 1 - i", "i * s", "i // 2", "i % 3", "(i - 2) % n", "i + pid"]
    tile = ["r * 4 + c", "r + c * n", "c", "r * s + c", "tl.minimum(r * 4 + c, n)"]
    axis = choose.choice(["0", "1"])
    row = "tl.arange(0, 4)" if axis == "0" else "i"
    index_of = choose.choice(["argmax", "argmin"]) if choose.random() < 0.3 else None
    default = choose.choice(["0", "n", "n - 1", "-1", "4 * n - 1"])
    # An index is inside the tile, whatever is masked.
    masked = "j" if index_of else f"tl.where({'i' if flat else 'r'} < n, j, {default})"
    stores = ["pid", "p", "pid * 4 + p % 4"] if flat else [row, f"pid * 4 + {row}", "p"]
    return _CHOSEN.format(
        index=choose.choice(index if flat else tile),
        first=index_of or choose.choice(["max", "min"]),
        masked=masked,
        axis="" if flat and not index_of else f", {'0' if flat else axis}",
        shift=choose.choice(["", "", " + 1", " - 1"]),
        mask=choose.choice(["", "", ", mask=p < n", ", mask=(p >= 0) & (p < n)"]),
        store=choose.choice(stores),
        store_mask=choose.choice(["", ", mask=p < n"]),
        s=choose.choice(["2", "n", "4"]),
        extent=choose.choice(["n", "n + 4", "4 * n", "4 * n + 16", "max(n, 4)"]),
        other_extent=choose.choice(["4 * n + 16", "n + 4", "4 * n"]),
        grid=choose.choice(["triton.cdiv(n, 4)", "1", "2"]),
    )


@pytest.mark.parametrize("make", [_moved, _chosen])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 20))]
)
def test_claims_hold_at_every_size(
    tmp_path: Path, make: Callable[[random.Random], str], seed: int
) -> None:
    check_claims(load_text(tmp_path, f"sizes{make.__name__}_{seed}", make(random.Random(seed))))
