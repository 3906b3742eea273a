"""Tests that each mutator finds a place to change in a kernel and preserves the meaning."""

from __future__ import annotations

import ast
import random

import pytest
from tests.fuzz.mutation import mutated_kernels as kernels

from ttools.core.spec import TensorSpec
from ttools.fuzz.mutation.capture import CapturedCall, capture
from ttools.fuzz.mutation.mutators import MUTATORS
from ttools.fuzz.mutation.source import KernelText
from ttools.fuzz.mutation.trial import halved_block, split_grid


@pytest.fixture(scope="module")
def launches() -> dict[str, CapturedCall]:
    return {launch.name: launch for launch in capture(kernels.launch).launches}


def text_of(launch: CapturedCall) -> KernelText:
    return KernelText(launch.function, launch.arguments)


def test_launches_are_captured_with_their_memory(launches: dict[str, CapturedCall]) -> None:
    launch = launches["elementwise_kernel"]
    assert launch.grid == (5, 1, 1)
    assert (launch.arguments["n"], launch.arguments["BLOCK"]) == (300, 64)
    view = launch.arguments["out_ptr"]
    assert isinstance(view, TensorSpec)
    # Each access returns new storages with the contents from before the launch.
    for _ in range(2):
        assert not launch.storages[view.storage].any()
        storages, _ = launch.start(launch.function)
        assert storages[view.storage].any()


@pytest.mark.parametrize("name", MUTATORS)
def test_every_mutator_finds_a_place(name: str, launches: dict[str, CapturedCall]) -> None:
    changed = []
    for launch in launches.values():
        text = text_of(launch)
        before = text.text()
        if MUTATORS[name](text, random.Random(3)):
            after = text.text()
            ast.parse(after)
            assert after != before
            changed.append(launch.name)
    assert changed


def test_types_of_names(launches: dict[str, CapturedCall]) -> None:
    text = text_of(launches["rows_kernel"])
    assert {"row", "columns", "at", "start", "stride"} <= text.integers
    assert not text.integers & {"total", "x_ptr", "out_ptr"}
    assert {"row", "total", "x_ptr", "n"} <= text.dynamic
    assert "BLOCK" not in text.dynamic
    assert text.is_pointer(ast.parse("x_ptr + row * stride", mode="eval").body)
    assert not text.is_integer(ast.parse("total + 1", mode="eval").body)


def test_floats_are_never_reordered(launches: dict[str, CapturedCall]) -> None:
    for launch in launches.values():
        for seed in range(20):
            text = text_of(launch)
            if MUTATORS["commute"](text, random.Random(seed)):
                assert "y + " not in text.text()
                assert "factor + " not in text.text()


def test_launches_that_can_be_split_or_halved(launches: dict[str, CapturedCall]) -> None:
    lanes, rows = launches["elementwise_kernel"], launches["rows_kernel"]
    (halved,) = halved_block(text_of(lanes), lanes) or []
    assert (halved.grid, halved.more) == ((10, 1, 1), {"BLOCK": 32})
    assert halved_block(text_of(rows), rows) is None  # the kernel reduces along its block
    first, second = split_grid(text_of(rows), rows, random.Random(0)) or []
    assert first.grid[0] + second.grid[0] == 7
