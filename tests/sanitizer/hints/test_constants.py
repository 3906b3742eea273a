"""Constant expressions of a kernel's source: as Python evaluates them, or unknown."""

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
def test_what_is_known_is_what_python_says(text: str) -> None:
    found = value_of(parsed(text), _NAMES)
    if found is UNKNOWN:
        return
    # Names without a value must not have mattered.
    for unknown in (0, 1, 7):
        assert eval(text, {}, _NAMES | {"u": unknown}) == found


@given(expressions().filter(lambda text: "u" not in text.replace("True", "")))
def test_what_python_can_tell_is_known(text: str) -> None:
    try:
        expected = eval(text, {}, _NAMES)
    except (ArithmeticError, TypeError, ValueError):
        assert value_of(parsed(text), _NAMES) is UNKNOWN
        return
    found = value_of(parsed(text), _NAMES)
    assert found == expected or (found is UNKNOWN and "<<" in text)


def test_names_that_mean_something_else() -> None:
    known = {"WIDTH": tl.constexpr(8), "x": PASSED, "tensor": object()}
    assert value_of(parsed("WIDTH * 2"), known) == 16
    assert value_of(parsed("x is None"), known) is False
    assert value_of(parsed("x is not None and WIDTH > 4"), known) is True
    for text in ("x", "x > 0", "tensor", "missing", "tensor is None", "f(3)", "WIDTH.value"):
        assert value_of(parsed(text), known) is UNKNOWN
