"""Tests of the integer semantics that operations declare: exact evaluation, and intervals."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ttools.ir.dialects import OPERATIONS
from ttools.ir.dialects.integers import Evaluation, UnknownError, wrapped
from ttools.ir.domains.intervals import Interval, IntervalDomain, full

_WIDTH = 8


@dataclass(frozen=True)
class _Call:
    """An operation with the attributes that its integer semantics read."""

    attributes: dict[str, Any] = field(default_factory=dict)
    operand_bits: int = _WIDTH
    constant_integers: Sequence[int] | None = None
    result_shape: tuple[int, ...] = ()


def _truncated(x: int, y: int) -> int:
    return int(x / y)


def _unsigned(compute: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Convert an unsigned function to one of i8 values, which Python represents as signed."""
    return lambda x, y: wrapped(compute(x % 256, y % 256), _WIDTH)


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
    "ceildivu": lambda x, y: -(-x // y),
    "remu": operator.mod,
    "minu": min,
    "maxu": max,
}
_EXACT = {f"arith.{name}i": compute for name, compute in _SIGNED.items()} | {
    f"arith.{name}i": _unsigned(compute) for name, compute in _UNSIGNED.items()
}
_EXACT["tt.mulhiui"] = _unsigned(lambda x, y: x * y >> _WIDTH)
#: Operations with two integer operands and declared integer semantics.
_BINARY = [
    name
    for name, op in OPERATIONS.items()
    if op.integer is not None and op.operand_names[:2] in (("lhs", "rhs"), ("x", "y"))
]
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def _meaning(name: str) -> Callable[..., Any]:
    meaning = OPERATIONS[name].integer
    assert meaning is not None
    return meaning


@st.composite
def ranges(draw: st.DrawFn, width: int = _WIDTH) -> tuple[Interval, int]:
    """Draw an interval of values of a bit width, and one of its values."""
    low, value, high = sorted(draw(st.tuples(*[st.integers(*full(width))] * 3)))
    return (low, high), value


def _defined(name: str, first: int, second: int) -> bool:
    if "arith.sh" in name:
        return 0 <= second < _WIDTH
    return second != 0 or not ("div" in name or "rem" in name)


def test_every_binary_operation_has_an_oracle() -> None:
    assert set(_BINARY) == {*_EXACT, "arith.cmpi", "arith.cmpf"}


@pytest.mark.parametrize("name", _EXACT)
@given(x=st.integers(*full(_WIDTH)), y=st.integers(*full(_WIDTH)))
def test_evaluation_agrees_with_the_oracle(name: str, x: int, y: int) -> None:
    y = abs(y) % _WIDTH if "arith.sh" in name else y
    assume(_defined(name, x, y))
    assert _meaning(name)(Evaluation(), (x, y), _Call()) == _EXACT[name](x, y)


@pytest.mark.parametrize("predicate", _PREDICATES)
@given(x=st.integers(*full(_WIDTH)), y=st.integers(*full(_WIDTH)))
def test_comparisons(predicate: str, x: int, y: int) -> None:
    if predicate.startswith("u"):
        expected = getattr(operator, predicate[1:])(x % 256, y % 256)
    else:
        expected = getattr(operator, predicate.removeprefix("s"))(x, y)
    call = _Call({"predicate": predicate})
    assert _meaning("arith.cmpi")(Evaluation(), (x, y), call) == expected


@pytest.mark.parametrize("name", _EXACT)
@given(first=ranges(), second=ranges())
def test_results_lie_in_the_interval(
    name: str, first: tuple[Interval, int], second: tuple[Interval, int]
) -> None:
    (left, x), (right, y) = first, second
    if "arith.sh" in name:
        right, y = (0, abs(right[1]) % 8), abs(y) % (abs(right[1]) % 8 + 1)
    assume(_defined(name, x, y))
    try:
        low, high = _meaning(name)(IntervalDomain(), (left, right), _Call())
    except UnknownError:
        return
    assert low <= _meaning(name)(Evaluation(), (x, y), _Call()) <= high


@given(first=ranges(), second=ranges(), condition=st.booleans())
def test_intervals_of_selections(
    first: tuple[Interval, int], second: tuple[Interval, int], condition: bool
) -> None:
    low, high = _meaning("arith.select")(IntervalDomain(), ((0, 1), first[0], second[0]), _Call())
    assert low <= (first if condition else second)[1] <= high


@pytest.mark.parametrize(
    ("name", "width", "source", "expected"),
    [
        ("extsi", 1, (0, 1), (-1, 0)),
        ("extsi", 8, (-3, 5), (-3, 5)),
        ("extui", 1, (0, 1), (0, 1)),
        ("extui", 8, (-3, 5), (0, 255)),
        ("extui", 8, (3, 5), (3, 5)),
        ("trunci", 32, (3, 500), (3, 500)),
        ("index_cast", 64, (-1, 7), (-1, 7)),
        ("index_castui", 8, (-1, 7), (0, 255)),
    ],
)
def test_conversions(name: str, width: int, source: Interval, expected: Interval) -> None:
    call = _Call(operand_bits=width)
    assert _meaning(f"arith.{name}")(IntervalDomain(), [source], call) == expected


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("tt.make_range", {"start": 3, "end": 11}, (3, 10)),
        ("tt.get_program_id", {"axis": 1}, (0, 4)),
        ("tt.get_num_programs", {"axis": 1}, (5, 5)),
    ],
)
def test_ranges_and_program_ids(
    name: str, attributes: Mapping[str, int], expected: Interval
) -> None:
    call = _Call(dict(attributes), result_shape=(8,))
    assert _meaning(name)(IntervalDomain((2, 5)), (), call) == expected
