"""Integers in host code: ranges, `int`, powers of two, and conditions on remainders."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
from tests.prove import kernels

from ttools.ir.expr import SIZE, Symbol, as_expr, modulo
from ttools.prove.analysis import Analysis
from ttools.prove.host.regions import region
from ttools.prove.host.symbolic_numbers import Condition

_CHUNK = 1 << 30


def _copied(x: Any, y: Any, n: Any) -> None:
    kernels.copy_kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)


def _chunks(n: Any) -> None:
    x = torch.zeros(n, dtype=torch.int8)
    y = torch.empty_like(x)
    for start in range(0, n, _CHUNK):
        part = x[start : start + _CHUNK]
        _copied(part, y[start : start + _CHUNK], part.numel())


def _chunks_backwards(n: Any) -> None:
    x, y = torch.zeros(n), torch.zeros(n)
    for stop in range(n, 0, -_CHUNK):
        start = max(stop - _CHUNK, 0)
        _copied(x[start:stop], y[start:stop], stop - start)


def _rounded(n: Any) -> None:
    most = int(n * 0.75)
    assert isinstance(most, int)
    assert [int("7"), int(7.5), int("11", 2)] == [7, 7, 3]
    _copied(torch.zeros(int(n)), torch.empty(most), most)


def _power_of_two(n: Any) -> None:
    if n & (n - 1) == 0 and n >= 256:
        kernels.unmasked_kernel[(n // 256,)](torch.zeros(n), torch.empty(n), BLOCK=256)


def _tensor_int(n: Any) -> None:
    # The attribute `int` is not the built-in type.
    assert isinstance(torch.zeros(n).int(), torch.Tensor)
    _copied(torch.zeros(n), torch.empty(n), int(n))


@pytest.mark.parametrize(
    ("run", "last"),
    [
        (_chunks, 1 << 33),
        (_chunks_backwards, 1 << 32),
        (_rounded, 1 << 30),
        (_power_of_two, 1 << 20),
    ],
)
def test_host_code_that_counts_is_followed(run: Callable[..., Any], last: int) -> None:
    result = Analysis(run, {"n": (1, last)}).analyse()
    assert (result.verdict, result.abstained) == ("proved", [])
    assert not {"range", "int"} & run.__globals__.keys()


def test_names_that_are_also_attributes_keep_their_meaning() -> None:
    assert Analysis(_tensor_int, {"n": (1, 64)}).analyse().verdict == "proved"


def _uncut_chunk(n: Any) -> None:
    x = torch.zeros(n, dtype=torch.int8)
    for start in range(0, n, 4096):
        kernels.copy_kernel[(16,)](x[start:], torch.empty(4096), 4096, BLOCK=256)


def test_chunks_without_an_end() -> None:
    defects = Analysis(_uncut_chunk, {"n": (4096, 100_000)}).analyse().defects
    assert [(d.event.kind, d.sizes) for d in defects] == [("oob_load", {"n": 4097})]


def _two_remainders(n: Any) -> None:
    if n % 1000 == 0 and n % 7 == 3:
        _copied(torch.zeros(n), torch.empty(min(n, 50_000)), n)


def _rare(n: Any) -> None:
    """Fail only at sizes that are further apart than the range that the analysis enumerates."""
    if n % 7 * (n % 1000) == 3 * 999 and n > 3:
        _copied(torch.zeros(n), torch.empty(min(n, 50_000)), n)


def test_sizes_with_two_remainders() -> None:
    (defect,) = Analysis(_two_remainders, {"n": (1, 1_000_000)}).analyse().defects
    assert (defect.event.kind, defect.sizes, defect.is_least) == ("oob_store", {"n": 53_000}, True)


def test_sizes_that_are_far_apart_are_not_overlooked() -> None:
    assert Analysis(_rare, {"n": (1, 1_000_000)}).analyse().verdict != "proved"


@pytest.mark.parametrize("seed", range(12))
def test_regions_hold_all_sizes_that_meet_their_conditions(seed: int) -> None:
    choose, n = random.Random(seed), Symbol("n", "size", SIZE)
    conditions = []
    for _ in range(choose.randrange(1, 4)):
        divisor = choose.choice([2, 3, 4, 6, 10, 15])
        modulus = modulo(as_expr(n) + choose.randrange(4), as_expr(divisor))
        answer = choose.random() < 0.8
        conditions.append(Condition(modulus - choose.randrange(divisor), "eq", answer))
    allowed = region({n: (1, 400)}, conditions)
    step, remainder = allowed.steps.get(n, (1, 0))
    low, high = allowed.box[n]
    for size in range(1, 401):
        if all(c.holds({n: size}) for c in conditions):
            assert low <= size <= high
            assert size % step == remainder
            assert allowed.holds({n: size})


def test_a_small_region_without_solution_is_searched_completely() -> None:
    n, m = Symbol("n", "size", SIZE), Symbol("m", "size", SIZE)
    product = Condition(as_expr(n) * as_expr(m) - 7, "ge", True)
    allowed = region({n: (1, 2), m: (1, 3)}, [product])
    assert not allowed.is_empty
    assert allowed.is_small
    assert not [*allowed.points()]
    assert not region({n: (1, 2), m: (1, 30)}, [product]).is_small
