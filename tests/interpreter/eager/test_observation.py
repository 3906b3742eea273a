"""Tests of observers of eager kernels, which run the code of the source while they are observed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.eager.debugging.frames import MARK
from ttools.interpreter.eager.elements import Handle
from ttools.interpreter.eager.observation import observing, observing_operations


@triton.jit
def half(value):
    return value // 2


@triton.jit
def halves(x_ptr):
    offsets = tl.arange(0, 4)
    tl.store(x_ptr + offsets, half(offsets))


class Visits:
    """An observer that records the functions that run."""

    def __init__(self) -> None:
        self.functions: list[str] = []

    def instrument(self, function: ast.FunctionDef) -> None:
        call = ast.parse(f"{MARK}.observer().functions.append({function.name!r})").body
        function.body = [*call, *function.body]


def launch() -> list[int]:
    x = torch.zeros(4, dtype=torch.int32)
    halves[(2,)](x)
    return x.tolist()


def test_kernels_and_their_callees_are_observed() -> None:
    first, second = Visits(), Visits()
    with interpret(engine="eager"):
        plain = launch()
        with observing(first):
            observed = launch()
        assert launch() == plain == observed == [0, 0, 1, 1]
        with observing(second):
            launch()
    assert first.functions == second.functions == ["halves", "half"] * 2


class Marked:
    """The shadow of a value: the operations that led to it."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def at(self, index: Any) -> Marked:
        return self


class History:
    """An observer of operations that records the names of those that led to each stored value."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, ...]] = []
        self.branches: list[tuple[str, ...]] = []

    def operation(self, name: str, arguments: Sequence[Any], result: Any) -> None:
        flat = [a for item in arguments for a in (item if isinstance(item, list) else [item])]
        shadows = [a.shadow for a in flat if isinstance(a, Handle)]
        names = tuple(n for shadow in shadows if isinstance(shadow, Marked) for n in shadow.names)
        if name == "create_store":
            self.stored.append(names)
        if name == "branch":
            self.branches.append(names)
        for handle in result if isinstance(result, list) else [result]:
            if isinstance(handle, Handle) and handle.shadow is None:
                handle.shadow = Marked((*names, name))


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def combined(x_ptr, o_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    y = tl.load(x_ptr + tl.arange(0, 4) + 4)
    z = x * y - x
    print("z", z)
    tl.store(o_ptr, tl.sum(z, 0))
    tl.store(o_ptr + 1, tl.reduce(z, 0, larger))


def test_operations_are_observed_with_their_operands(capsys: pytest.CaptureFixture[str]) -> None:
    history, x, out = History(), torch.arange(8.0), torch.zeros(2)
    with interpret(engine="eager"), observing_operations(history):
        combined[(1,)](x, out)
    assert out.tolist() == [32.0, 18.0]  # 0, 4, 10 and 18
    total, largest = history.stored
    # The fused product is also computed by itself, but the sum was computed from its factors.
    assert "create_fma" in total
    assert "create_fneg" in total
    assert total[-1] == "create_reduce"
    assert largest[-1] == "create_select"
    assert "z" not in capsys.readouterr().out


@triton.jit
def branching(x_ptr, o_ptr, n):
    x = tl.load(x_ptr)
    if n > 3:
        x += 1
    while x < 3:
        x += 1
    tl.store(o_ptr, x)


def test_branches_on_values_with_shadows_are_observed() -> None:
    history, out = History(), torch.zeros(1)
    with interpret(engine="eager"), observing_operations(history):
        branching[(1,)](torch.ones(1), out, 2)
    assert out.tolist() == [3.0]
    assert [names[-1] for names in history.branches if "create_load" in names] == [
        "create_fcmpOLT"
    ] * 3
