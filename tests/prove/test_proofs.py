"""Proofs of inequalities between polynomials agree with all values of their symbols."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from ttools.ir.expr import (
    LANE,
    LOOP,
    PROGRAM,
    SIZE,
    Expr,
    Symbol,
    as_expr,
    evaluate,
    floordiv,
    maximum,
    minimum,
    modulo,
)
from ttools.prove.algebra.proofs import Space


def _term(choose: random.Random, symbols: list[Symbol], depth: int) -> Expr:
    if depth == 0 or choose.random() < 0.3:
        return choose.choice([as_expr(choose.choice(symbols)), as_expr(choose.randrange(-3, 4))])
    left, right = (_term(choose, symbols, depth - 1) for _ in range(2))
    divisor = choose.choice([as_expr(2), as_expr(3), as_expr(symbols[0]) + 1, right])
    if divisor.constant is not None and divisor.constant < 1:
        divisor = as_expr(4)
    return choose.choice(
        [
            lambda: left + right,
            lambda: left - right,
            lambda: left * choose.choice([as_expr(2), as_expr(4), right]),
            lambda: floordiv(left, divisor),
            lambda: modulo(left, divisor),
            lambda: minimum(left, right),
            lambda: maximum(left, right),
        ]
    )()


def _holds(expr: Expr, values: dict[Symbol, int]) -> bool | None:
    """Return whether an expression is at least 0, or None for a division by zero."""
    try:
        return _positive_divisors(expr, values) and evaluate(expr, values) >= 0
    except ZeroDivisionError:
        return None


def _positive_divisors(expr: Expr, values: dict[Symbol, int]) -> bool:
    for symbol in expr.symbols():
        if symbol.kind in ("floordiv", "mod") and evaluate(symbol.args[1], values) < 1:
            raise ZeroDivisionError
        for argument in symbol.args:
            _positive_divisors(argument, values)
    return True


@pytest.mark.parametrize("seed", range(40))
def test_proved_goals_hold_for_all_values(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(12):
        n = Symbol("n", "size", SIZE)
        program, step, lane = (
            Symbol(name, kind, level)
            for name, kind, level in (
                ("p", "program", PROGRAM),
                ("k", "iteration", LOOP),
                ("l", "lane", LANE),
            )
        )
        symbols = [n, program, step, lane]
        low, last = choose.randrange(3), choose.randrange(3, 7)
        space = Space({n: (low, last)})
        extent = choose.choice([as_expr(n), floordiv(as_expr(n) + 1, as_expr(2)), as_expr(n) + 1])
        space.declare(program, 0, 8)
        space.relate(program, extent - 1 - as_expr(program))
        space.declare(step, 0, 2)
        space.declare(lane, 0, 3)
        facts = [_term(choose, symbols, 2) for _ in range(choose.randrange(3))]
        goal = _term(choose, symbols, 3)
        if choose.random() < 0.5:
            facts.append(goal * choose.choice([2, 3]) + choose.randrange(3))
        if not space.nonneg(goal, facts):
            continue
        ranges = (range(low, last + 1), range(9), range(3), range(4))
        for numbers in itertools.product(*ranges):
            values = dict(zip(symbols, numbers, strict=True))
            assumptions_hold = [_holds(f, values) for f in (*facts, extent - 1 - as_expr(program))]
            if all(assumptions_hold):
                assert _holds(goal, values) is not False, (goal, facts, values)


@pytest.mark.parametrize("first", [floordiv, modulo])
def test_quotients_and_remainders_go_together(first: Callable[[Expr, Expr], Expr]) -> None:
    """Prove the bound in both orders of elimination; the order depends on which symbol is older.

    TorchInductor computes such indices.
    """
    n, p, k = Symbol("n", "size", SIZE), Symbol("p", "program", PROGRAM), Symbol("k", "k", LOOP)
    size, program, step = map(as_expr, (n, p, k))
    space = Space({n: (1, 2**20)})
    space.declare(p, 0, None)
    space.declare(k, 0, None)

    def lane(extent: int) -> Expr:
        symbol = Symbol("lane", "lane", LANE)
        space.declare(symbol, 0, extent - 1)
        return as_expr(symbol)

    def divided(x: Expr, by: int) -> tuple[Expr, Expr]:
        first(x, as_expr(by))
        return floordiv(x, as_expr(by)), modulo(x, as_expr(by))

    i = lane(256)
    row, column = divided(i, 64)  # rows of 64 elements at a distance of 128 elements
    mask = [64 * size - 1 - 256 * program - i]
    gap = 128 * size - 65 - 512 * program - 128 * row - column
    assert space.nonneg(gap, mask)
    assert not space.nonneg(gap - 1, mask)

    i = lane(128) + 128 * program
    row, column = divided(i, 48)  # a tensor of [n, 16] beside one of [n, 32]
    mask = [48 * size - 1 - i]
    assert space.nonneg(16 * size - 1 - 16 * row - column, [*mask, 15 - column])
    assert space.nonneg(32 * size - 1 - 32 * row - (column - 16), [*mask, column - 16])

    j = lane(32) + 32 * step
    row, column = divided(lane(64), 8)  # a tensor of [16, n, 8], summed over the middle axis
    gap = 128 * size - 1 - 64 * size * program - 8 * size * row - 8 * j - column
    assert space.nonneg(gap, [127 - 64 * program, size - 1 - j, 1 - program])
    assert not space.nonneg(gap - 1, [127 - 64 * program, size - 1 - j, 1 - program])


def test_a_short_proof_is_found_among_long_dead_ends() -> None:
    """Prove `2 * o + 1 < n` for the columns of a pooling, for which one of two masks suffices."""
    n = Symbol("n", "size", SIZE)
    row, block = (Symbol(name, "program", PROGRAM) for name in ("row", "block"))
    i = Symbol("lane", "lane", LANE)
    size, outputs = as_expr(n), floordiv(as_expr(n) - 1, as_expr(2))
    space = Space({n: (3, 2**16)})
    space.declare(row, 0, 3)
    space.declare(block, 0, 511)
    space.relate(block, floordiv(outputs + 64, as_expr(64)) - 1 - as_expr(block))
    space.declare(i, 0, 63)
    output = as_expr(i) + 64 * as_expr(block)
    column = 2 * output + 1
    masks = [outputs - output, column, size - 1 - column]
    assert space.nonneg(4 * size - 1 - size * as_expr(row) - column, masks)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 12))]
)
def test_bounds_of_quotients_of_quotients_hold(seed: int) -> None:
    """Bound nested quotients, as upsampling and convolutions compute them."""
    choose = random.Random(seed)
    n, p, i = (
        Symbol(name, kind, level)
        for name, kind, level in (
            ("n", "size", SIZE),
            ("p", "program", PROGRAM),
            ("i", "lane", LANE),
        )
    )
    size = as_expr(n)
    space = Space({n: (1, 6)})
    space.declare(p, 0, 30)
    space.declare(i, 0, 3)
    shown = 0
    for _ in range(60):
        x = 4 * as_expr(p) + as_expr(i)
        divisor = choose.choice([size, 2 * size, as_expr(3), 3 * size])
        row, column = floordiv(x, divisor), modulo(x, divisor)
        inner = as_expr(choose.choice([2, 3]))
        facts = [choose.randrange(1, 7) * size + choose.randrange(-2, 2) - x]
        parts = (floordiv(row, inner), floordiv(column, inner), modulo(row, inner))
        goal = choose.randrange(5) * size + choose.randrange(-2, 4)
        for part in parts:
            goal = goal - choose.choice([as_expr(0), as_expr(1), size]) * part
        if space.nonneg(goal, facts):
            shown += 1
            for numbers in itertools.product(range(1, 7), range(31), range(4)):
                values = dict(zip((n, p, i), numbers, strict=True))
                if _holds(facts[0], values):
                    assert _holds(goal, values), (goal, facts, values)
    assert shown


def test_upsampled_rows_and_columns_are_shown_to_be_inside() -> None:
    n, p, i = Symbol("n", "size", SIZE), Symbol("p", "program", PROGRAM), Symbol("i", "i", LANE)
    size, two = as_expr(n), as_expr(2)
    space = Space({n: (2, 2**20)})
    space.declare(p, 0, None)
    space.declare(i, 0, 1023)
    x = 1024 * as_expr(p) + as_expr(i)
    row, column = floordiv(floordiv(x, 2 * size), two), floordiv(modulo(x, 2 * size), two)
    gap = 64 * size - 1 - size * row - column
    assert space.nonneg(gap, [256 * size - 1 - x])
    assert not space.nonneg(gap - 1, [256 * size - 1 - x])
