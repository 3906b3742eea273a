"""Tests of integer expressions, compared with the arithmetic of Python and of Z3."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.ir.expr import (
    LANE,
    SIZE,
    Expr,
    Ranges,
    Symbol,
    array_functions,
    as_expr,
    ceildiv,
    evaluate,
    floordiv,
    maximum,
    minimum,
    modulo,
    next_power_of_2,
    power_of_2,
    product,
    substitute,
    z3_functions,
)

N, M, L = Symbol("n", "size", SIZE), Symbol("m", "size", SIZE), Symbol("lane", "lane", LANE)
SYMBOLS = {"n": N, "m": M, "lane": L}
#: Functions that build an expression from two, with the same functions of Python's integers.
#: Divisors are positive.
OPERATIONS: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[int, int], int]]] = {
    "+": (lambda p, q: p + q, lambda a, b: a + b),
    "-": (lambda p, q: p - q, lambda a, b: a - b),
    "*": (lambda p, q: p * q, lambda a, b: a * b),
    "//": (lambda p, q: floordiv(p, q * q + 1), lambda a, b: a // (b * b + 1)),
    "//2": (lambda p, q: floordiv(p, as_expr(2)) + q, lambda a, b: a // 2 + b),
    "//n": (lambda p, q: floordiv(p * as_expr(N), as_expr(N)) - q, lambda a, b: a - b),
    "%": (lambda p, q: modulo(p, q * q + 1), lambda a, b: a % (b * b + 1)),
    "%3": (lambda p, q: modulo(p, as_expr(3)) + q, lambda a, b: a % 3 + b),
    "cdiv": (lambda p, q: ceildiv(p, q * q + 2), lambda a, b: -(-a // (b * b + 2))),
    "min": (minimum, min),
    "max": (maximum, max),
    "power": (lambda p, q: power_of_2(p) + q, lambda a, b: next_power_of_2(a) + b),
}
TREES = st.recursive(
    st.one_of(st.sampled_from(sorted(SYMBOLS)), st.integers(-5, 5)),
    lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner),
    max_leaves=8,
)
VALUES = st.fixed_dictionaries(
    {"n": st.integers(1, 9), "m": st.integers(1, 9), "lane": st.integers(0, 7)}
)


def _expression(tree: object) -> Expr:
    if isinstance(tree, tuple):
        name, left, right = tree
        return OPERATIONS[name][0](_expression(left), _expression(right))
    return as_expr(SYMBOLS[tree] if isinstance(tree, str) else int(str(tree)))


def _value(tree: object, values: dict[str, int]) -> int:
    if isinstance(tree, tuple):
        name, left, right = tree
        return OPERATIONS[name][1](_value(left, values), _value(right, values))
    return values[tree] if isinstance(tree, str) else int(str(tree))


def _functions() -> dict[str, object]:
    powers = {"next_power_of_2": next_power_of_2}
    return {"min": min, "max": max, "cdiv": lambda a, b: -(-a // b), **powers}


@given(TREES, VALUES)
def test_expressions_have_the_value_of_pythons_arithmetic(
    tree: object, values: dict[str, int]
) -> None:
    expr, expected = _expression(tree), _value(tree, values)
    assert expr.at(values) == expected
    assert eval(repr(expr), {**values, **_functions()}) == expected
    substitutions = {SYMBOLS[name]: as_expr(value) for name, value in values.items()}
    assert substitute(expr, substitutions).constant == expected
    assert substitute(expr, {N: substitutions[N]}).at(values) == expected


@given(TREES, VALUES)
def test_bounds_contain_all_values(tree: object, values: dict[str, int]) -> None:
    ranges = Ranges({N: (1, 9), M: (1, 9)})
    ranges.declare(L, 0, 7)
    low, high = ranges.range(_expression(tree))
    value = _value(tree, values)
    assert low is None or low <= value
    assert high is None or value <= high


@given(TREES, st.lists(VALUES, min_size=1, max_size=5))
def test_evaluation_of_arrays(tree: object, several: list[dict[str, int]]) -> None:
    lanes = {s: np.array([v[name] for v in several]) for name, s in SYMBOLS.items()}
    actual = np.broadcast_to(evaluate(_expression(tree), lanes, array_functions()), len(several))
    expected = [_value(tree, values) for values in several]
    if all(abs(value) < 1 << 40 for value in expected):
        assert actual.tolist() == expected


@given(TREES, TREES)
def test_equal_expressions_have_one_normal_form(first: object, second: object) -> None:
    p, q = _expression(first), _expression(second)
    assert (p + q) * (p + q) == p * p + 2 * q * p + q * q
    assert hash(p - q) == hash(-(q - p))
    assert floordiv(p * 6, as_expr(6)) == p
    assert modulo(p * 6 + 1, as_expr(6)) == as_expr(1)
    assert minimum(p, q) - minimum(p, minimum(q, p)) == as_expr(0) or p != q
    assert maximum(p, p + 1) == p + 1
    assert product([p, q, as_expr(1)]) == p * q


@given(TREES, VALUES)
def test_z3_computes_the_same(tree: object, values: dict[str, int]) -> None:
    z3 = pytest.importorskip("z3")
    expr = _expression(tree)
    if any(atom.kind == "power_of_2" for atom in expr.atoms()):
        return
    variables = {SYMBOLS[name]: z3.IntVal(value) for name, value in values.items()}
    result = z3.simplify(z3.IntVal(0) + evaluate(expr, variables, z3_functions()))
    assert result.as_long() == _value(tree, values)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (as_expr(N) * 16 + 3 - as_expr(M) * as_expr(N), "-n * m + n * 16 + 3"),
        (floordiv(as_expr(N) + 63, as_expr(64)) * 4, "cdiv(n, 64) * 4"),
        (-floordiv(-as_expr(N), as_expr(M)), "cdiv(n, m)"),
        (floordiv(as_expr(N), as_expr(4)), "n // 4"),
        (floordiv(as_expr(N), as_expr(4)) + 1, "n // 4 + 1"),
        (floordiv(as_expr(N), as_expr(4)) * as_expr(M), "m * (n // 4)"),
        (modulo(floordiv(as_expr(N), as_expr(4)), as_expr(3)), "(n // 4) % 3"),
        (minimum(minimum(as_expr(N), as_expr(9)), as_expr(5)), "min(n, 5)"),
        (maximum(as_expr(N), maximum(as_expr(M), as_expr(N))), "max(n, m)"),
        (power_of_2(as_expr(N) + 1), "next_power_of_2(n + 1)"),
        (as_expr(0), "0"),
    ],
)
def test_expressions_print_as_source(expr: Expr, text: str) -> None:
    assert repr(expr) == text


def test_quotients_of_quotients_are_merged() -> None:
    n = as_expr(N)
    assert floordiv(floordiv(n, as_expr(4)), as_expr(8)) == floordiv(n, as_expr(32))
    assert floordiv(n * 8 + 5, as_expr(4)) == n * 2 + 1
    assert floordiv(as_expr(M), as_expr(M)) == as_expr(1)


def test_importing_expressions_imports_no_solver_and_no_arrays() -> None:
    heavy = "{'z3', 'torch', 'llvmlite', 'numpy'} & set(sys.modules)"
    code = f"import sys, ttools.ir.expr; print(sorted({heavy}))"
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "[]"
