"""Proofs by Z3 agree with all values of small ranges, and with runs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.prove import indexing_kernels as kernels
from tests.prove.test_against_runs import check_claims, load_text
from tests.prove.test_proofs import _holds, _term

from ttools.ir.expr import LANE, PROGRAM, SIZE, Expr, Symbol, as_expr
from ttools.prove import analysis, prove
from ttools.prove.algebra.proofs import Element, Space
from ttools.prove.algebra.solver import Solver, is_installed

needs_z3 = pytest.mark.skipif(not is_installed(), reason="z3-solver is not installed")
#: Kernels that the built-in proofs cannot prove.
_BY_Z3 = [
    kernels.flat_stencil,
    kernels.flat_rope,
    kernels.butterfly,
    kernels.transposes,
    kernels.roll,
    kernels.triangle,
    kernels.heads_of_many,
]


#: The ones that the default test run proves.
_FEW_BY_Z3 = (kernels.flat_stencil, kernels.roll, kernels.triangle)
by_z3 = pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=run.__name__, marks=() if run in _FEW_BY_Z3 else pytest.mark.slow)
        for run in _BY_Z3
    ],
)


def _many(first: int, last: int) -> list[Any]:
    """Return seeds, of which only the first runs in tests that are not slow."""
    slow = (pytest.param(seed, marks=pytest.mark.slow) for seed in range(first + 1, last))
    return [first, *slow]


@needs_z3
@pytest.mark.parametrize("seed", _many(0, 40))
def test_proved_goals_hold_for_all_values(seed: int) -> None:
    choose = random.Random(seed)
    shown = 0
    for _ in range(10):
        n, p, i = (
            Symbol(name, kind, level)
            for name, kind, level in (
                ("n", "size", SIZE),
                ("p", "program", PROGRAM),
                ("i", "lane", LANE),
            )
        )
        space = Space({n: (1, 4)})
        space.declare(p, 0, 5)
        space.relate(p, as_expr(n) + 1 - as_expr(p))
        space.declare(i, 0, 3)
        facts = [_term(choose, [n, p, i], 2) for _ in range(choose.randrange(3))]
        goal = _term(choose, [n, p, i], 3)
        if choose.random() < 0.5:
            facts.append(goal * choose.choice([2, 3]) + choose.randrange(3))
        solver = Solver(60, 10)
        if not solver.shows(space, goal, facts):
            continue
        shown += 1
        for numbers in itertools.product(range(1, 5), range(6), range(4)):
            values = dict(zip((n, p, i), numbers, strict=True))
            if all(_holds(f, values) for f in (*facts, as_expr(n) + 1 - as_expr(p))):
                assert _holds(goal, values) is not False, (goal, facts, values)
    assert shown


@needs_z3
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("distinct", [False, True])
def test_assumptions_on_tables_agree_with_all_tables(ascending: bool, distinct: bool) -> None:
    """Compare with all tables of three elements from 0 to 3, at positions inside and outside."""
    choose = random.Random(f"{ascending} {distinct}")
    tables = [
        table
        for table in itertools.product(range(4), repeat=3)
        if not (ascending and list(table) != sorted(table))
        and not (distinct and len(set(table)) < 3)
    ]
    shown = 0
    for _ in range(40):
        p, q, s, t = (
            Symbol(name, kind, PROGRAM + n)
            for n, (name, kind) in enumerate(
                (("p", "program"), ("q", "program"), ("s", "data"), ("t", "data"))
            )
        )
        space = Space({})
        for symbol, high in ((p, 3), (q, 3), (s, 3), (t, 3)):
            space.declare(symbol, 0, high)
        ends = as_expr(0), as_expr(2)
        for symbol, position in ((s, p), (t, q)):
            space.elements[symbol] = Element(1, as_expr(position), ends, distinct, ascending)
        facts = [
            choose.choice([as_expr(q) - as_expr(p), as_expr(p) - as_expr(q)])
            - choose.randrange(-1, 3),
            2 - as_expr(q),
            2 - as_expr(p),
        ][: choose.randrange(4)]
        goal = choose.choice([1, -1]) * (as_expr(t) - as_expr(s)) + choose.randrange(-3, 3)
        if choose.random() < 0.5:
            facts += [as_expr(t) - as_expr(s), as_expr(s) - as_expr(t)]
            goal = as_expr(p) - as_expr(q)
        if not Solver(60, 10).shows(space, goal, facts):
            continue
        shown += 1
        for table, a, b in itertools.product(tables, range(4), range(4)):
            # At positions past the end of the table, where masks are off, any value may occur.
            for x, y in itertools.product(*(table[k : k + 1] or (table[-1],) for k in (a, b))):
                values = {p: a, q: b, s: x, t: y}
                if all(_value(fact, values) >= 0 for fact in facts):
                    assert _value(goal, values) >= 0, (goal, facts, table, a, b)
    assert shown or not (ascending or distinct)


def _value(expr: Expr, values: dict[Symbol, int]) -> int:
    total = 0
    for monomial, factor in expr.terms.items():
        for symbol in monomial:
            factor *= values[symbol]
        total += factor
    return total


@needs_z3
@by_z3
def test_proofs_by_z3_are_reported(run: Callable[..., Any]) -> None:
    last, assume = kernels.RIGHT[run]
    result = prove(run, n=range(1, last + 1), assume=assume, seconds=200)
    assert result.verdict == "proved"
    assert result.report.sizes is not None
    assert any("Z3" in proof for proof in result.report.sizes.by_solver)
    assert "Z3" in str(result)


@needs_z3
@by_z3
def test_a_tensor_that_is_one_element_too_short_is_found(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*shape: Any, dtype: Any = torch.float32) -> Any:
        count: Any = 1
        for extent in shape:
            count = count * extent
        return torch.empty(count - 1, dtype=dtype)

    monkeypatch.setattr(
        kernels, "torch", SimpleNamespace(empty=short, randn=short, int32=torch.int32)
    )
    result = prove(run, n=range(1, 25), seconds=100)
    assert result.verdict == "fails"
    assert {f.kind for f in result.findings} <= {"oob_load", "oob_store"}


_HIDDEN = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, n, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    apart = i % n - i // n
    at = (apart * apart + 2838).to(tl.int16)
    x = tl.load(x_ptr + at, mask=i < total)
    tl.store(x_ptr + 2838 + i, x, mask=i < total)

def run(n):
    kernel[(triton.cdiv(8 * n, 64),)](torch.empty(33000), n, 8 * n, BLOCK=64)
"""


@needs_z3
def test_a_proof_by_z3_does_not_hide_a_race(tmp_path: Path) -> None:
    """Report the race that is only analysed once Z3 has proved that the index fits in 16 bits."""
    result = prove(load_text(tmp_path, "sizes_hidden", _HIDDEN).run, n=range(16, 175))
    assert result.report.sizes is not None
    assert any("Z3" in proof for proof in result.report.sizes.by_solver)
    assert [(f.kind, f.sizes) for f in result.findings] == [("race", {"n": 16})]


@pytest.mark.parametrize(
    "run", [run for run in kernels.RIGHT if run not in _BY_Z3], ids=lambda run: run.__name__
)
def test_indexing_of_libraries_is_proved(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "is_installed", lambda: False)
    last, assume = kernels.RIGHT[run]
    result = prove(run, n=range(1, last + 1), assume=assume, seconds=200)
    assert (result.verdict, result.findings) == ("proved", ())


def test_a_missing_z3_is_reported_if_it_could_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "is_installed", lambda: False)
    result = prove(kernels.roll, n=range(1, 1 << 20), seconds=1)
    assert result.verdict == "not proved"
    assert "Z3, which is not installed, may be able to prove this" in str(result)


_TEMPLATE = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = i // {divisor}, i % {divisor}
    x = tl.load(x_ptr + {load}, mask=i < total, other=0.0)
    tl.store(y_ptr + {store}, x + i, mask={mask})

def run(n):
    total = {total}
    x, y = torch.randn({extent}), torch.empty({other_extent})
    kernel[(triton.cdiv(total, 8),)](x, y, n, total, BLOCK=8)
"""


def _indexing(folder: Path, seed: int) -> Any:
    choose = random.Random(seed)
    divisor = choose.choice(["n", "n", "(n + 1)", "(2 * n)", "3"])
    factors = [divisor, "n", "(n + 1)", "(2 * n)", "3", "1"]

    def index() -> str:
        return choose.choice(
            [
                f"a * {choose.choice(factors)} + b",
                f"a * {choose.choice(factors)} + b * {choose.choice(factors)}",
                f"b * {choose.choice(factors)} + a",
                f"(i + {choose.choice(['1', 'n', 'a'])}) % {choose.choice(factors[:4])}",
                f"a * (a + 1) // 2 + b // {choose.choice(['1', '2'])}",
                f"i + {choose.choice(['0', '1', 'n'])}",
            ]
        )

    extents = ["n * n + n", "4 * n", "4 * n + 4", "2 * n * (n + 1)", "n"]
    text = _TEMPLATE.format(
        divisor=divisor,
        load=index(),
        store=index(),
        mask=choose.choice(["i < total", "(i < total) & (b > 0)", "(i < total) & (b < n - 1)"]),
        total=choose.choice(["n", "4 * n", "n * n", "2 * n + 1"]),
        extent=choose.choice(extents),
        other_extent=choose.choice(extents),
    )
    return load_text(folder, f"sizes_solver_{seed}", text)


@needs_z3
@pytest.mark.parametrize("seed", _many(0, 12))
def test_claims_hold_at_every_size(tmp_path: Path, seed: int) -> None:
    check_claims(_indexing(tmp_path, seed))
