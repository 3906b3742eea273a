"""Tests of loads and stores through overlapping pointers, in many orders and placements."""

from __future__ import annotations

import itertools

import hypothesis
import pytest
from hypothesis import strategies
from memory_programs import Add, Assign, If, Load, Loop, Statement, Store, check

#: Position of `y` in elements after `x`: equal, overlapping, or (300) disjoint.
SHIFTS = [0, 1, 16, -1, 63, 300]

PROGRAMS: dict[str, list[Statement]] = {
    "shift right": [Load("a", "x", "lanes"), Store("y", "lanes + 1", "a")],
    "shift left": [Load("a", "x", "lanes + 1"), Store("y", "lanes", "a + 1")],
    "reverse": [Load("a", "x", "lanes"), Store("y", "63 - lanes", "a")],
    "swap": [
        Load("a", "x", "lanes"), Load("b", "y", "lanes"),
        Store("x", "lanes", "b"), Store("y", "lanes", "a"),
    ],
    "a load pending across a store": [
        Load("a", "x", "lanes"), Store("y", "lanes", "lanes"), Store("y", "lanes + 100", "a"),
    ],
    "a value used before and after a store": [
        Load("a", "x", "lanes"), Store("y", "lanes + 3", "a * 2"), Store("x", "lanes - 70", "a"),
    ],
    "load, store, load": [
        Load("a", "x", "lanes"), Store("y", "lanes + 1", "a + 1"), Load("b", "x", "lanes"),
        Store("y", "lanes + 128", "a * 1000 + b"),
    ],
    "stores that overlap": [
        Load("a", "x", "lanes"), Store("y", "lanes", "a"), Store("y", "lanes + 5", "a + 1"),
        Store("x", "lanes + 2", "a + 2"),
    ],
    "even and odd": [
        Load("a", "x", "lanes * 2"), Load("b", "x", "lanes * 2 + 1"),
        Store("y", "lanes * 2", "b"), Store("y", "lanes * 2 + 1", "a"),
    ],
    "repeated lanes": [
        Load("a", "x", "lanes // 3"), Store("y", "lanes", "a"), Load("b", "y", "lanes % 4"),
        Store("x", "lanes + 7", "a - b"),
    ],
    "an index from memory": [
        Load("a", "x", "lanes"), Load("b", "y", "(a & 63)"), Store("x", "lanes * 3", "b"),
        Load("c", "y", "(b & 63)"), Store("y", "lanes + 2", "c - a"),
    ],
    "masks": [
        Load("a", "x", "lanes", "lanes < 50"), Store("y", "lanes + 1", "a", "lanes > 3"),
        Load("b", "y", "lanes - 1", "(lanes & 1) == 0"), Store("x", "lanes", "a + b", "a > 0"),
    ],
    "a scalar": [
        Load("a", "x", "lanes"), Store("y", "lanes + 1", "total(a)"), Load("b", "x", "lanes * 0"),
        Store("y", "lanes", "b + a"),
    ],
    "a sum of a load pending across a store": [
        Load("a", "x", "lanes"), Assign("e", "a * 3 + 1"), Store("y", "lanes", "0 * lanes"),
        Store("x", "lanes + 64", "e - total(e)"),
    ],
    "in place, again and again": [
        Loop("i", "n", (Load("a", "x", "lanes"), Store("y", "lanes + 1", "a + i"))),
    ],
    "moving in place": [
        Loop("i", "n", (
            Load("a", "x", "lanes + i * 8"), Store("y", "lanes + i * 8 + 8", "a * 2 + i"),
        )),
    ],
    "a tile carried around a loop that stores": [
        Load("a", "x", "lanes"),
        Loop("i", "n", (
            Store("y", "lanes + i", "a"), Load("b", "x", "lanes + 1"), Assign("a", "a + b"),
        )),
        Store("x", "lanes", "a"),
    ],
    "a load before a loop, used in it": [
        Load("a", "x", "lanes"),
        Loop("i", "n", (Store("y", "lanes + i * 2", "a + i"),)),
        Store("y", "lanes - 64", "a"),
    ],
    "a store in a branch": [
        Load("a", "x", "lanes"),
        Loop("i", "n", (
            If("i % 2 == 0", (Store("y", "lanes + 1", "a + i"),)),
            Load("b", "x", "lanes"),
            Store("y", "lanes + 200 + i * 64", "a - b"),
        )),
    ],
    "atomics between": [
        Load("a", "x", "lanes"), Add("b", "y", "lanes + 1", "a"), Load("c", "x", "lanes"),
        Store("y", "lanes + 130", "a + b * 3 + c * 7"),
    ],
    "nested loops in place": [
        Loop("i", "n", (
            Load("a", "x", "lanes + i"),
            Loop("j", "i + 1", (
                Load("b", "y", "lanes + j"), Store("x", "lanes + 2 * j", "a + b + j"),
            )),
            Store("y", "lanes", "a"),
        )),
    ],
}  # fmt: skip


@pytest.mark.smoke
@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("name", PROGRAMS)
def test_placements(name: str) -> None:
    for shift in SHIFTS:
        check(PROGRAMS[name], {"x": 0, "y": shift})


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("count", [0, 1, 6])
def test_trip_counts(count: int) -> None:
    for name in ("in place, again and again", "moving in place", "nested loops in place"):
        for shift in (0, 8):
            check(PROGRAMS[name], {"x": 0, "y": shift}, n=count)


ORDERS = [
    Load("a", "x", "lanes + 1"),
    Load("b", "y", "lanes"),
    Store("x", "lanes", "lanes * 7"),
    Store("y", "lanes + 2", "lanes + 900"),
]


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_every_order_of_two_loads_and_two_stores(order: tuple[int, ...]) -> None:
    program = [ORDERS[i] for i in order] + [Store("x", "lanes + 200", "a * 3 + b")]
    for shift in (0, 1, 300):
        check(program, {"x": 0, "y": shift})


def test_three_pointers_of_which_one_is_readonly() -> None:
    program: list[Statement] = [
        Load("a", "x", "lanes"),
        Loop("i", "n", (
            Load("b", "y", "lanes + i"), Store("z", "lanes + i * 3", "a + b"),
            Load("c", "x", "lanes + i"), Assign("a", "a + c"),
        )),
        Store("z", "lanes + 150", "a"),
    ]  # fmt: skip
    from ttools.interpreter import interpret

    for schedule in ("fused", "materialised"):
        with interpret(schedule=schedule):
            for y, z in [(0, 0), (0, 300), (300, 0), (300, 300), (150, 400), (64, 5)]:
                check(program, {"x": 0, "y": y, "z": z})


INDICES = ["lanes", "lanes + 1", "lanes - 3", "63 - lanes", "lanes * 2", "lanes + 64"]
VALUES = ["a", "b", "a + b", "a * 3 - lanes", "lanes", "total(b) + a", "b + n"]
MASKS = ["", "", "lanes < 37", "a > b", "(lanes & 3) != 1"]


def _simple() -> strategies.SearchStrategy[Statement]:
    base, index = strategies.sampled_from("xy"), strategies.sampled_from(INDICES)
    name, mask = strategies.sampled_from("ab"), strategies.sampled_from(MASKS)
    value = strategies.sampled_from(VALUES)
    return strategies.one_of(
        strategies.builds(Load, name, base, index, mask),
        strategies.builds(Store, base, index, value, mask),
        strategies.builds(Assign, name, value.filter(lambda v: "a" in v or "b" in v)),
    )


@strategies.composite
def _programs(draw: strategies.DrawFn) -> list[Statement]:
    body = strategies.lists(_simple(), min_size=1, max_size=4).map(tuple)
    statement = strategies.one_of(
        _simple(),
        strategies.builds(Loop, strategies.just("i"), strategies.just("n"), body),
        strategies.builds(If, strategies.sampled_from(["n > 2", "total(a) > 0"]), body),
    )
    first: list[Statement] = [Load("a", "x", "lanes"), Load("b", "y", "lanes + 2")]
    last: list[Statement] = [Store("x", "lanes + 256", "a - b")]
    return first + draw(strategies.lists(statement, min_size=2, max_size=6)) + last


@pytest.mark.slow
@hypothesis.settings(max_examples=40)
@hypothesis.given(program=_programs(), shift=strategies.sampled_from(SHIFTS))
def test_random_programs(program: list[Statement], shift: int) -> None:
    from ttools.interpreter import interpret

    for schedule in ("fused", "materialised"):
        with interpret(schedule=schedule):
            check(program, {"x": 0, "y": shift})
