"""Tests of observers of eager kernels, whose code in the source runs while they observe."""

from __future__ import annotations

import ast

import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.eager.debugging.frames import MARK
from ttools.interpreter.eager.observation import observing


@triton.jit
def half(value):
    return value // 2


@triton.jit
def halves(x_ptr):
    offsets = tl.arange(0, 4)
    tl.store(x_ptr + offsets, half(offsets))


class Visits:
    """An observer that keeps the functions that run."""

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
