"""Tests that the oracle promotes types as the installed version of Triton does."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import triton
import triton.language as tl

from ttools.fuzz.elements import FLOATS, INTEGERS, Element
from ttools.fuzz.facts import WILD
from ttools.fuzz.operations.elementwise import binary
from ttools.fuzz.operations.table import var
from ttools.fuzz.program import Type
from ttools.interpreter import interpret


@triton.jit
def add(x, y):
    return x + y


@triton.jit
def minimum(x, y):
    return tl.minimum(x, y)


@triton.jit
def maximum(x, y):
    return tl.maximum(x, y)


@triton.jit
def divide(x, y):
    return x / y


@triton.jit
def has_types(
    combine: tl.constexpr, lefts: tl.constexpr, rights: tl.constexpr, expected: tl.constexpr
):
    for i in tl.static_range(len(expected)):
        x = tl.full([2], 1, lefts[i])
        y = tl.full([2], 1, rights[i])
        tl.static_assert(combine(x, y).dtype == expected[i], expected[i])


def triton_type(element: Element) -> tl.dtype:
    type_ = getattr(tl, element.triton)
    assert isinstance(type_, tl.dtype)
    return type_


COMBINED = [(f, INTEGERS) for f in (add, minimum)] + [
    (f, FLOATS) for f in (add, minimum, maximum, divide)
]


@pytest.mark.parametrize(
    ("combine", "elements"),
    COMBINED,
    ids=["add-integers", "minimum-integers", "add", "minimum", "maximum", "divide"],
)
def test_two_tensors(combine: Any, elements: tuple[Element, ...]) -> None:
    pairs = [*product(elements, repeat=2)]
    results = [
        binary(combine.__name__, var("x", Type(a, (2,)), WILD), var("y", Type(b, (2,)), WILD))
        for a, b in pairs
    ]
    with interpret():
        has_types[(1,)](
            combine,
            tuple(triton_type(a) for a, _ in pairs),
            tuple(triton_type(b) for _, b in pairs),
            tuple(triton_type(value.type.element) for value in results),
        )
