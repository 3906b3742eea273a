"""The simplest condition that separates failing points from passing ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.separation import separating_condition

Point = dict[str, Any]
SPACE = [
    {"BLOCK_M": m, "BLOCK_K": k, "num_warps": w, "EVEN": even}
    for m, k, w, even in product((16, 32, 64), (32, 64, 128, 256), (2, 4, 8), (False, True))
]
SIZES = [{"N": n, "BLOCK": b} for n in (48, 64, 96, 100, 128, 250, 256, 512) for b in (16, 32)]


def text(
    points: list[Point], fails: Callable[[Point], bool], constants: Point | None = None
) -> str | None:
    failing = [point for point in points if fails(point)]
    passing = [point for point in points if not fails(point)]
    found = separating_condition(failing, passing, constants)
    return None if found is None else found.text


@pytest.mark.parametrize(
    ("points", "fails", "expected"),
    [
        (SPACE, lambda p: p["BLOCK_K"] > 128, "BLOCK_K > 128"),
        (SPACE, lambda p: p["BLOCK_K"] < 64, "BLOCK_K < 64"),
        (SPACE, lambda p: p["num_warps"] == 4, "num_warps == 4"),
        (SPACE, lambda p: p["EVEN"], "EVEN == True"),
        (SPACE, lambda p: p["BLOCK_K"] > p["BLOCK_M"], "BLOCK_K > BLOCK_M"),
        (SPACE, lambda p: p["BLOCK_K"] * p["BLOCK_M"] > 2048, "BLOCK_M * BLOCK_K > 2048"),
        (SPACE, lambda p: p["BLOCK_K"] / p["BLOCK_M"] > 4, "BLOCK_K / BLOCK_M > 4"),
        (SIZES, lambda p: p["N"] & (p["N"] - 1), "N is not a power of two"),
        (SIZES, lambda p: p["N"] % p["BLOCK"], "N % BLOCK != 0"),
    ],
)
def test_simplest_condition_is_found(
    points: list[Point], fails: Callable[[Point], bool], expected: str
) -> None:
    assert text(points, fails) == expected


def test_a_bound_has_the_name_of_the_only_constant_that_equals_it() -> None:
    def fails(point: Point) -> bool:
        return bool(point["BLOCK_K"] > 128)

    assert text(SPACE, fails, {"GROUP": 128, "K": 4096}) == "BLOCK_K > GROUP (128)"
    assert text(SPACE, fails, {"GROUP": 128, "K": 128}) == "BLOCK_K > 128"
    assert text(SPACE, fails, {"GROUP": 256}) == "BLOCK_K >= GROUP (256)"


def test_nothing_is_said_where_no_simple_condition_holds() -> None:
    assert text(SPACE, lambda p: SPACE.index(p) % 5 == 0) is None


def test_nothing_is_said_about_fewer_than_three_points_of_a_side() -> None:
    points = [{"BLOCK": block} for block in (16, 32, 64, 128, 256, 512)]
    assert text(points, lambda p: p["BLOCK"] > 128) is None
    assert text(points, lambda p: p["BLOCK"] > 64) == "BLOCK > 64"


def test_nothing_is_said_if_two_names_explain_the_failures() -> None:
    """Block and warps always change together here, so the points do not show which one matters."""
    points = [{"BLOCK": 1 << n, "num_warps": n} for n in range(1, 9)]
    assert text(points, lambda p: p["BLOCK"] > 16) is None


def test_points_without_common_numbers_have_no_condition() -> None:
    points: list[Point] = [{"a": 1}, {"b": 2}, {"a": 3}] * 2
    assert separating_condition(points[:3], points[3:]) is None
    assert separating_condition([{"a": 1}] * 4, [{"a": 1}] * 4) is None


@given(
    st.lists(
        st.tuples(
            st.integers(-4, 40), st.sampled_from((1, 16, 32, 64)), st.booleans(), st.booleans()
        ),
        max_size=30,
    )
)
def test_a_condition_separates_all_points(rows: list[tuple[int, int, bool, bool]]) -> None:
    sides: tuple[list[Point], list[Point]] = ([], [])
    for n, block, even, passes in rows:
        sides[passes].append({"N": n, "BLOCK": block, "EVEN": even})
    found = separating_condition(*sides)
    if found is not None:
        assert min(map(len, sides)) >= 3
        assert all(map(found.holds, sides[0]))
        assert not any(map(found.holds, sides[1]))
