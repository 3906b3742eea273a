"""The evaluator of constant expressions in kernels agrees with Python, or returns unknown."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import triton.language as tl
from hypothesis import given, strategies

from ttools.sanitizer.hints.constants import PASSED, UNKNOWN, value_of

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")  # `3 is None`
_LEAVES = strategies.sampled_from(["3", "-2", "0", "True", "None", "A", "B", "u"])
_FORMS = [
    *("({a} + {b})", "({a} * {b})", "({a} // {b})", "({a} % {b})", "({a} << {b})"),
    *("({a} < {b})", "({a} == {b})", "({a} is None)", "({a} and {b})", "({a} or {b})"),
    *("(not {a})", "(-{a})", "({a} if {b} else {a})", "({a} < {b} <= {a})"),
]
_NAMES: dict[str, Any] = {"A": 16, "B": False}


@strategies.composite
def expressions(draw: strategies.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(strategies.integers(0, 3)) == 0:
        return draw(_LEAVES)
    a, b = (draw(expressions(depth=depth - 1)) for _ in range(2))
    return draw(strategies.sampled_from(_FORMS)).format(a=a, b=b)


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@given(expressions())
def test_known_values_are_those_of_python(text: str) -> None:
    value = value_of(parsed(text), _NAMES)
    if value is UNKNOWN:
        return
    # The value must not depend on the unknown names.
    for unknown in (0, 1, 7):
        assert eval(text, {}, _NAMES | {"u": unknown}) == value


@given(expressions().filter(lambda text: "u" not in text.replace("True", "")))
def test_expressions_that_python_evaluates_are_known(text: str) -> None:
    try:
        expected = eval(text, {}, _NAMES)
    except (ArithmeticError, TypeError, ValueError):
        assert value_of(parsed(text), _NAMES) is UNKNOWN
        return
    value = value_of(parsed(text), _NAMES)
    assert value == expected or (value is UNKNOWN and "<<" in text)


def test_rebound_names() -> None:
    names = {"WIDTH": tl.constexpr(8), "x": PASSED, "tensor": object()}
    assert value_of(parsed("WIDTH * 2"), names) == 16
    assert value_of(parsed("x is None"), names) is False
    assert value_of(parsed("x is not None and WIDTH > 4"), names) is True
    for text in ("x", "x > 0", "tensor", "missing", "tensor is None", "f(3)", "WIDTH.value"):
        assert value_of(parsed(text), names) is UNKNOWN
