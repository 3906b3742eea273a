"""The rows of shadows, and the estimate of sensitivities."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ttools.sanitizer.accuracy.shadow import (
    Shadow,
    random_changes,
    scale_of_changes,
    weighted,
    with_row,
)
from ttools.sanitizer.accuracy.sources import FIXED, INPUTS


def test_rows_add_up_with_their_factors() -> None:
    first = with_row(None, 0, np.array([1.0, 2.0]))
    second = with_row(None, 2, np.array([3.0, 4.0]))
    total = weighted([(first, 2.0), (second, np.array([1.0, np.inf])), (None, 5.0)], (2,))
    assert total is not None
    assert total.shape == (FIXED + 3, 2)
    assert total[FIXED].tolist() == [2.0, 4.0]
    assert total[FIXED + 2].tolist() == [3.0, 0.0]  # a factor that is not finite counts as zero


def test_selected_elements_keep_their_marks() -> None:
    origin, rows = np.array([5, -1], np.int32), with_row(None, 1, np.array([1.0, 2.0]))
    part = Shadow(np.array([1.0, 2.0]), rows, origin).at(0)
    assert (float(part.exact), float(part.row(1)), part.padded) == (1.0, 1.0, None)
    assert part.origin is not None
    assert int(part.origin) == 5


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=200), st.integers(0, 2**40))
def test_an_element_has_the_same_changes_in_each_load(values: list[float], start: int) -> None:
    addresses = start + 4 * np.arange(len(values))
    array = np.array(values)
    whole = random_changes(array, addresses, narrow=True)
    assert np.array_equal(whole[:, -1:], random_changes(array[-1:], addresses[-1:], narrow=True))
    assert len(whole) == FIXED
    assert len(random_changes(array, addresses, narrow=False)) == INPUTS


def test_large_rows_have_the_same_values_as_small_ones() -> None:
    random = np.random.default_rng(2)
    values, addresses = random.standard_normal(3000), 4 * np.arange(3000)
    parts = [
        random_changes(part, own, narrow=True)
        for part, own in zip(np.split(values, 30), np.split(addresses, 30), strict=True)
    ]
    whole = random_changes(values, addresses, narrow=True)
    assert np.array_equal(whole, np.concatenate(parts, axis=1))
    factor = random.standard_normal(3000)
    total = weighted([(whole, 2.0), (whole, factor), (whole[:INPUTS], 1.0)], (3000,))
    expected = 2.0 * whole + whole * factor
    expected[:INPUTS] += whole[:INPUTS]
    assert total is not None
    assert np.array_equal(total, expected)


def test_the_scale_is_the_sum_of_absolute_changes() -> None:
    # Products of random rows with a column: the signs of the coefficients must not matter.
    random = np.random.default_rng(0)
    x = random.standard_normal((4000, 32))
    coefficients = random.standard_normal(32)
    changes = random_changes(x, np.arange(x.size).reshape(x.shape), narrow=False)
    estimate = scale_of_changes((changes @ coefficients), narrow=False)
    ratio = np.log(estimate / (np.abs(x) @ np.abs(coefficients)))
    assert abs(ratio.mean()) < 0.05
    assert 0.4 < ratio.std() < 0.7  # pi / (2 * sqrt(8)) = 0.56
    assert not np.any(scale_of_changes(None, narrow=True))
