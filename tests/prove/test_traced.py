"""Traced integers behave like integers, and their provenance gives their value at other sizes."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import triton
from hypothesis import given
from hypothesis import strategies as st

from ttools.ir.expr import SIZE, Expr, Symbol, as_expr
from ttools.prove.trace.traced import (
    Trace,
    TracedInt,
    TracedRatio,
    extent,
    extremum,
    next_power,
    provenance,
    stripped,
    traced_value,
    with_extents,
)

LEAST, GREATEST = extremum("min", min), extremum("max", max)
POWER = next_power(lambda n: 1 << (n - 1).bit_length())
#: Operations on two integers, or on an integer and a float.
BINARY: dict[str, Callable[[int, int], object]] = {
    **{
        name: getattr(operator, name)
        for name in (
            *("add", "sub", "mul", "floordiv", "mod", "truediv", "and_", "or_", "xor"),
            *("eq", "ne", "lt", "le", "gt", "ge"),
        )
    },
    "divmod": divmod,
    "min": LEAST,
    "max": GREATEST,
    "cdiv": lambda a, b: triton.cdiv(a, b),
    "ceil": lambda a, b: math.ceil(a / b),
    "floor": lambda a, b: math.floor(a / b),
    "negated": lambda a, b: -(-a // b),
    "gcd": math.gcd,
}
UNARY: dict[str, Callable[[int], object]] = {
    **{name: getattr(operator, name) for name in ("neg", "pos", "abs", "invert", "index")},
    "bool": bool,
    "int": int,
    "float": float,
    "hash": hash,
    "repr": repr,
    "format": lambda n: f"{n:>7,} {n:x} {n}",
    "round": round,
    "shift": lambda n: (n << 3, n >> 2),
    "power": lambda n: (n**2, n**-1, pow(n, 3, 7)),
    "next": POWER,
    "bits": lambda n: n.bit_length(),
    "range": lambda n: list(range(n)),
    "json": lambda n: json.dumps([n, n / 2]),
    "numpy": lambda n: np.arange(n).sum() * n,
}
LENGTHS = st.integers(2, 97)


def _root(length: int, trace: Trace | None = None) -> int:
    return (trace or Trace()).integer(length, extent(length))


@given(st.sampled_from(sorted(BINARY)), LENGTHS, LENGTHS, st.sampled_from(["a", "b", "both"]))
def test_operations_are_those_of_integers(name: str, a: int, b: int, which: str) -> None:
    operation = BINARY[name]
    first = _root(a) if which in ("a", "both") else a
    right = _root(b) if which in ("b", "both") else b
    result = operation(first, right)
    assert result == operation(a, b)
    assert type(stripped(result)) is type(operation(a, b))
    assert isinstance(result, type(operation(a, b)))


@given(st.sampled_from(sorted(UNARY)), LENGTHS)
def test_unary_operations_are_those_of_integers(name: str, n: int) -> None:
    assert UNARY[name](_root(n)) == UNARY[name](n)


_FOLLOWED = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "cdiv", "ceil", "negated")
_TREES = st.recursive(
    st.one_of(st.sampled_from("ABC"), st.integers(1, 9)),
    lambda inner: st.tuples(st.sampled_from(_FOLLOWED), inner, inner),
    max_leaves=6,
)


def _computed(tree: object, values: dict[str, int]) -> int:
    if isinstance(tree, tuple):
        name, first, right = tree
        result = BINARY[name](_computed(first, values), _computed(right, values))
        assert isinstance(result, int)
        return result
    return values[tree] if isinstance(tree, str) else int(str(tree))


@given(_TREES, st.lists(LENGTHS, min_size=3, max_size=3))
def test_provenances_give_the_number_at_all_other_sizes(tree: object, others: list[int]) -> None:
    here, there = dict(zip("ABC", (61, 67, 71), strict=True)), dict(zip("ABC", others, strict=True))
    trace = Trace()
    try:
        result = _computed(tree, {name: _root(n, trace) for name, n in here.items()})
        expected = _computed(tree, there)
    except ZeroDivisionError:
        return
    if type(result) is not TracedInt:
        assert not isinstance(tree, tuple) or result == _computed(tree, here)
        return
    if result.expr is None:  # such as a quotient whose divisor may be negative
        return
    assert traced_value(result.expr) == result
    expr = with_extents(result.expr, _named("ABC"))
    try:
        assert expr.at(there) == expected
    except ZeroDivisionError:
        pytest.fail("the expression divides by what the operation does not divide by")
    # The expression in Python syntax has the same value.
    scope = {**there, "min": min, "max": max, "cdiv": lambda a, b: -(-a // b)}
    assert eval(str(expr), scope) == expected
    assert with_extents(result.expr, {}).constant == result


def _named(names: str) -> dict[int, Expr]:
    return {n: as_expr(Symbol(name, "size", SIZE)) for n, name in zip((61, 67, 71), names)}  # noqa: B905


def test_formulas_are_written_readably() -> None:
    n, m = _root(61), _root(67)
    names = _named("nm")

    def text(value: int) -> str:
        expression = provenance(value)
        assert expression is not None
        return str(with_extents(expression, names))

    assert text(triton.cdiv(n, 64)) == text((n + 63) // 64) == "cdiv(n, 64)"
    assert text(triton.cdiv(n, m)) == text(-(-n // m)) == text(math.ceil(n / m)) == "cdiv(n, m)"
    assert text(LEAST(n, 16, LEAST([n, 512]))) == "min(n, 16)"
    assert text((n - m) * 2) == "n * 2 - m * 2"
    assert text(POWER(n)) == "next_power_of_2(n)"
    assert text(n * m // 4 + 0 * n - 1) == "(n * m) // 4 - 1"
    assert text((n // 4) * m % 3) == "(m * (n // 4)) % 3"


def test_provenance_is_invisible_to_programs() -> None:
    n = _root(61)
    assert isinstance(n, int)
    assert type(n).__name__ == n.__class__.__qualname__ == "int"
    assert type(pickle.loads(pickle.dumps(n))) is int
    assert type(pickle.loads(pickle.dumps(n / 2))) is float
    assert copy.deepcopy([n]) == [61]
    assert {61: "a"}[n] == "a"
    assert list(range(100))[n] == 61
    assert np.zeros((n, 2)).shape == (61, 2)
    assert np.array([n]).dtype == np.int64
    assert type(n / 2) is TracedRatio
    assert [type(element) for element in stripped((n, [n / 2], "n"))[:1]] == [int]
    assert type(stripped([n / 2])[0]) is float


def test_conversions_by_c_code_are_recorded() -> None:
    trace = Trace()
    n = _root(61, trace)
    assert provenance(n * 15) is not None
    assert type(int(n)) is int
    assert type(int(n / 4)) is int
    assert trace.taken == {61: {extent(61)}, 15: {provenance(n // 4)}}
    assert provenance(n * 15) is None  # which may be that quotient, or not
    assert provenance(_root(61) * 15) is not None  # the integer belongs to another trace


def test_extremes_of_other_values_are_kept() -> None:
    n = _root(61)
    assert LEAST([n, 2.5]) == 2.5
    assert type(LEAST([n, 99.5])) is int
    assert GREATEST((), default=n) == 61
    assert LEAST("ba", key=ord) == "a"
    assert LEAST(number for number in (n, 99)) == 61
    with pytest.raises(TypeError):
        LEAST()
    with pytest.raises(ValueError, match="empty"):
        LEAST([])


def test_long_computations_are_not_traced() -> None:
    total: int = _root(61)
    for length in range(2, 60):
        total = total * 1 + _root(length)
    assert provenance(total) is None
    assert provenance(total + 1) is None
    assert provenance(_root(61) & 3) is None
    assert total == 61 + sum(range(2, 60))
