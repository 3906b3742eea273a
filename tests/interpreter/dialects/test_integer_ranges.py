"""Ranges of results, against the results of values that lie in the operands' ranges."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ttools.interpreter.dialects import OPERATIONS
from ttools.interpreter.dialects.integer_ranges import ARITH, Interval, full

_WIDTH = 8


def _truncated(x: int, y: int) -> int:
    return int(x / y)


def _unsigned(compute: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Of what i8 holds, read without a sign."""
    return lambda x, y: compute(x % 256, y % 256)


_SIGNED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "shl": operator.lshift,
    "shrs": operator.rshift,
    "divs": _truncated,
    "floordivs": operator.floordiv,
    "ceildivs": lambda x, y: -(-x // y),
    "rems": lambda x, y: x - y * _truncated(x, y),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "mins": min,
    "maxs": max,
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "shru": operator.rshift,
    "divu": operator.floordiv,
    "remu": operator.mod,
    "minu": min,
    "maxu": max,
}
_EXACT = {f"{name}i": compute for name, compute in _SIGNED.items()} | {
    f"{name}i": _unsigned(compute) for name, compute in _UNSIGNED.items()
}


@st.composite
def ranges(draw: st.DrawFn, width: int = _WIDTH) -> tuple[Interval, int]:
    """An interval of values of a width, and one of these."""
    low, value, high = sorted(draw(st.tuples(*[st.integers(*full(width))] * 3)))
    return (low, high), value


@pytest.mark.parametrize("name", _EXACT)
@given(first=ranges(), second=ranges())
def test_results_lie_in_the_range(
    name: str, first: tuple[Interval, int], second: tuple[Interval, int]
) -> None:
    (left, x), (right, y) = first, second
    if name.startswith("sh"):
        right, y = (0, abs(right[1]) % 8), abs(y) % (abs(right[1]) % 8 + 1)
    found = ARITH[name]([left, right], _WIDTH)
    assume(("div" not in name and "rem" not in name) or y)
    if found is not None:
        low, high = found
        assert low <= _EXACT[name](x, y) <= high


@given(first=ranges(), second=ranges(), condition=st.booleans())
def test_an_arm_is_selected(
    first: tuple[Interval, int], second: tuple[Interval, int], condition: bool
) -> None:
    found = ARITH["select"]([(0, 1), first[0], second[0]], 1)
    assert found is not None
    assert found[0] <= (first if condition else second)[1] <= found[1]


@pytest.mark.parametrize(
    ("name", "width", "given", "expected"),
    [
        ("extsi", 1, (0, 1), (-1, 0)),
        ("extsi", 8, (-3, 5), (-3, 5)),
        ("extui", 1, (0, 1), (0, 1)),
        ("extui", 8, (-3, 5), (0, 255)),
        ("extui", 8, (3, 5), (3, 5)),
        ("trunci", 32, (3, 500), (3, 500)),
        ("index_cast", 64, (-1, 7), (-1, 7)),
    ],
)
def test_conversions(name: str, width: int, given: Interval, expected: Interval) -> None:
    assert ARITH[name]([given], width) == expected


def test_every_rule_is_of_an_operation_and_tested() -> None:
    assert {f"arith.{name}" for name in ARITH} <= set(OPERATIONS)
    others = {"select", "extsi", "extui", "trunci", "index_cast", "cmpi", "cmpf"}
    assert set(ARITH) == {*_EXACT, *others}
