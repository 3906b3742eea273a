"""Tests of the oracle's arithmetic on special values, independent of an element's position."""

from __future__ import annotations

from itertools import product
from typing import Any, cast

import numpy as np
import pytest

from ttools.fuzz.elements import FLOATS, Array, Element
from ttools.fuzz.facts import WILD
from ttools.fuzz.operations.elementwise import COMPARISONS, binary
from ttools.fuzz.operations.table import Frame, evaluate, var
from ttools.fuzz.program import Type

pytestmark = pytest.mark.filterwarnings("ignore:invalid value")  # raised by signalling NaNs

OPERATIONS = ("add", "sub", "mul", "divide", "maximum", "minimum", *COMPARISONS)


def computed(op: str, element: Element, x: Array, y: Array) -> Array:
    type_ = Type(element, x.shape)
    frame = Frame({"x": x, "y": y}, {}, {}, {}, (0, 0, 0), {}, cast(Any, None))
    result = evaluate(binary(op, var("x", type_, WILD), var("y", type_, WILD)), frame)
    return np.asarray(result).astype(np.float64)  # NumPy does not consider NaNs of bf16 equal


def bits(element: Element, value: float, payload: int = 0) -> int:
    array = np.array([value]).astype(element.numpy)
    return int(array.view(f"uint{element.bits}")[0]) | payload


def special(element: Element) -> list[int]:
    """Return the bits of a signalling and a quiet NaN, infinities, zeros and numbers."""
    values = (np.inf, -np.inf, 0.0, -0.0, 1.0, 8.0, -8.0)
    return [
        bits(element, np.inf, 1),
        bits(element, -np.inf, 1),
        bits(element, np.nan),
        *(bits(element, value) for value in values),
    ]


def pairs(element: Element) -> tuple[Array, Array]:
    """Return all pairs of special values; no vector width divides their number."""
    patterns = np.array([*product(special(element), repeat=2)] * 2 + [(0, 0)] * 3, np.uint64)
    x, y = patterns.astype(f"uint{element.bits}").T.copy()
    return x.view(element.numpy), y.view(element.numpy)


@pytest.mark.parametrize("element", FLOATS, ids=lambda element: element.name)
@pytest.mark.parametrize("op", OPERATIONS)
def test_position_does_not_matter(op: str, element: Element) -> None:
    x, y = pairs(element)
    together = computed(op, element, x, y)
    alone = [computed(op, element, x[i : i + 1], y[i : i + 1]) for i in range(len(x))]
    np.testing.assert_array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize("element", FLOATS, ids=lambda element: element.name)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_a_number_is_preferred_to_a_nan(op: str, element: Element) -> None:
    x, y = pairs(element)
    result = computed(op, element, x, y)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(x) & np.isnan(y))
