"""Tests of the syntax of `--programs`, compared with sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.interpreter.runtime.selection import arrange, parse, select

GRID = (5, 4, 3)
SIZE = 60

programs = st.integers(0, SIZE - 1).map(lambda p: (str(p), {p}))
last = st.just(("last", {SIZE - 1}))
ranges = (
    st.tuples(st.integers(0, 80), st.integers(0, 80))
    .filter(lambda r: r[0] < r[1])
    .map(lambda r: (f"{r[0]}:{r[1]}", set(range(r[0], min(r[1], SIZE)))))
)
open_ranges = st.one_of(
    st.integers(0, 80).map(lambda n: (f"{n}:", set(range(n, SIZE)))),
    st.integers(1, 80).map(lambda n: (f":{n}", set(range(min(n, SIZE))))),
    st.just((":", set(range(SIZE)))),
)
coordinates = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)).map(
    lambda c: (f"({c[0]}, {c[1]}, {c[2]})", {c[0] + 5 * (c[1] + 4 * c[2])})
)
items = st.one_of(programs, last, ranges, open_ranges, coordinates)


@given(st.lists(items, min_size=1, max_size=6), st.sampled_from([",", ", ", " , "]))
def test_a_selection_is_the_union_of_its_parts(
    parts: list[tuple[str, set[int]]], comma: str
) -> None:
    text = comma.join(part for part, _ in parts)
    expected = set().union(*(ids for _, ids in parts))
    assert select(text, GRID, 0).tolist() == sorted(expected)


@given(st.integers(0, 200), st.integers(0, 5))
def test_a_sample_depends_on_the_seed_and_has_no_repetitions(size: int, seed: int) -> None:
    chosen = select(f"random:{size}", GRID, seed).tolist()
    assert chosen == select(f"random:{size}", GRID, seed).tolist()
    assert len(set(chosen)) == len(chosen) == min(size, SIZE)
    assert set(chosen) <= set(range(SIZE))


@given(st.text(alphabet="0123456789:,()last random-x", max_size=12))
def test_any_text_is_valid_or_a_usage_error(text: str) -> None:
    try:
        chosen = select(text, GRID, 0).tolist()
    except UsageError:
        return
    assert chosen == sorted(set(chosen))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot read"),
        ("0,,1", "cannot read `,1`"),
        ("0,", "nothing follows"),
        ("first", "cannot read `first`"),
        ("-1", "cannot read `-1`"),
        ("8:5", "the range `8:5` is empty"),
        ("3 4", "cannot read"),
    ],
)
def test_errors(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse(text)


@pytest.mark.parametrize("text", ["60", "(5,0,0)", "(0,4)", "(0,0,3)"])
def test_a_program_that_is_not_in_the_grid(text: str) -> None:
    with pytest.raises(UsageError, match=r"no program .* 60 programs"):
        select(text, GRID, 0)


def test_an_empty_grid_has_no_last_program() -> None:
    assert select("last,random:4,0:9", (0, 1, 1), 0).tolist() == []


def test_all_programs_in_natural_order_need_no_list() -> None:
    assert arrange(GRID, "natural", 0, None) is None
