"""Generated code that runs at every launch: keys of equal launches, and calls of the launcher."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.profiler.gpu.launch_code import CallCode, key_of


@dataclass
class Tensor:
    """Replaces torch's class."""

    address: int

    def data_ptr(self) -> int:
        return self.address


@st.composite
def launches(draw: st.DrawFn) -> tuple[list[int], list[int], list[list[Any]]]:
    """Draw the positions of numbers and pointers, and the arguments of several launches."""
    kinds = draw(st.lists(st.sampled_from("np"), min_size=1, max_size=6))
    places = [n for n, kind in enumerate(kinds) if kind == "p"]
    chosen = draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    numbers = [n for n, kind in enumerate(kinds) if kind == "n" and draw(st.booleans())]
    words = [
        [Tensor(draw(st.integers(0, 3))) if k == "p" else draw(st.integers(0, 2)) for k in kinds]
        for _ in range(5)
    ]
    return numbers, sorted(chosen) if len(chosen) > 1 else [], words


def seen(numbers: list[int], pointers: list[int], words: list[Any]) -> Hashable:
    """Return the properties by which a key distinguishes launches: numbers, and equal pointers."""
    same = [(a, b) for a in pointers for b in pointers if words[a] == words[b]]
    return tuple(words[n] for n in numbers), tuple(same)


@settings(max_examples=100)
@given(launches())
def test_launches_are_equal_if_numbers_and_overlaps_are(
    drawn: tuple[list[int], list[int], list[list[Any]]],
) -> None:
    numbers, pointers, many = drawn
    key = CallCode(len(many[0]), key=key_of(numbers, pointers)).key()
    for first in many:
        for second in many:
            same = seen(numbers, pointers, first) == seen(numbers, pointers, second)
            assert (key(*first) == key(*second)) == same


class Watch:
    """Records the kinds that are noted."""

    def __init__(self) -> None:
        self.noted: list[Any] = []
        self.note = self.noted.append


def test_kinds_are_created_once_and_every_launch_is_noted_and_executed() -> None:
    kinds: dict[Hashable, str] = {}
    calls: list[tuple[Any, ...]] = []
    watch = Watch()

    def first(words: tuple[Any, ...]) -> str:
        return kinds.setdefault(words[:2], f"kind {len(kinds)}")

    def call(*words: Any) -> int:
        calls.append(words)
        return len(calls)

    code = CallCode(3, key=key_of([0, 1], []), optional=1)
    launch = code.noting(get=kinds.get, first=first, watch=watch, call=call)
    assert [launch(1, 2, "c"), launch(1, 2, "c"), launch(2, 2, "c")] == [1, 2, 3]
    assert watch.noted == ["kind 0", "kind 0", "kind 1"]
    # Launches of compiled kernels may omit constants, which changes the positions of arguments.
    assert launch(7, 8) == 4
    assert calls == [(1, 2, "c"), (1, 2, "c"), (2, 2, "c"), (7, 8)]
    assert len(watch.noted) == 3
    # The object that takes notes may change between launches.
    others: list[Any] = []
    watch.note = others.append
    launch(1, 2, "c")
    assert others == ["kind 0"]


def test_arguments_that_the_launcher_refuses_are_refused() -> None:
    code = CallCode(2, key=key_of([0], []))
    kinds: dict[Hashable, int] = {}
    launch = code.noting(get=kinds.get, first=lambda words: 0, watch=Watch(), call=lambda *words: 0)
    with pytest.raises(TypeError):
        launch(1)
