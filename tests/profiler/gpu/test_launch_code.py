"""What runs at every launch: which launches are equal, and what is left to the launcher."""

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
    """Stands for torch's."""

    address: int

    def data_ptr(self) -> int:
        return self.address


@st.composite
def launches(draw: st.DrawFn) -> tuple[list[int], list[int], list[list[Any]]]:
    """Places of numbers and of pointers, and the words of some launches."""
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
    """What a key must tell: the numbers, and which of the pointers are the same."""
    same = [(a, b) for a in pointers for b in pointers if words[a] == words[b]]
    return tuple(words[n] for n in numbers), tuple(same)


@settings(max_examples=100)
@given(launches())
def test_launches_are_equal_if_numbers_and_overlaps_are(
    drawn: tuple[list[int], list[int], list[list[Any]]],
) -> None:
    numbers, pointers, many = drawn
    key = CallCode(len(many[0]), key=key_of(numbers, pointers)).key()
    for one in many:
        for other in many:
            same = seen(numbers, pointers, one) == seen(numbers, pointers, other)
            assert (key(*one) == key(*other)) == same


class Watch:
    """Notes kinds."""

    def __init__(self) -> None:
        self.noted: list[Any] = []
        self.note = self.noted.append


def test_new_kinds_are_made_once_and_every_launch_is_noted_and_made() -> None:
    known: dict[Hashable, str] = {}
    calls: list[tuple[Any, ...]] = []
    watch = Watch()

    def first(words: tuple[Any, ...]) -> str:
        return known.setdefault(words[:2], f"kind {len(known)}")

    def call(*words: Any) -> int:
        calls.append(words)
        return len(calls)

    code = CallCode(3, key=key_of([0, 1], []), optional=1)
    launch = code.noting(get=known.get, first=first, watch=watch, call=call)
    assert [launch(1, 2, "c"), launch(1, 2, "c"), launch(2, 2, "c")] == [1, 2, 3]
    assert watch.noted == ["kind 0", "kind 0", "kind 1"]
    # Constants may be left out by those who launch what was compiled; words have other places then.
    assert launch(7, 8) == 4
    assert calls == [(1, 2, "c"), (1, 2, "c"), (2, 2, "c"), (7, 8)]
    assert len(watch.noted) == 3
    # What takes note may change from launch to launch.
    others: list[Any] = []
    watch.note = others.append
    launch(1, 2, "c")
    assert others == ["kind 0"]


def test_what_the_launcher_refuses_is_refused() -> None:
    code = CallCode(2, key=key_of([0], []))
    known: dict[Hashable, int] = {}
    launch = code.noting(get=known.get, first=lambda words: 0, watch=Watch(), call=lambda *words: 0)
    with pytest.raises(TypeError):
        launch(1)
