"""Sorting by packed columns agrees with NumPy's sort by columns, for any order of rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.sanitizer.races.integer_columns import count_less, order_by

_RUN = st.lists(st.integers(-50, 1 << 40), min_size=1, max_size=30).map(sorted)


@settings(max_examples=100)
@given(st.lists(_RUN, max_size=8), st.integers(0, 3))
def test_order_is_that_of_a_sort_by_columns(runs: list[list[int]], groups: int) -> None:
    value = np.array([n for run in runs for n in run], np.int64)
    group = np.array([k % (groups + 1) for k, run in enumerate(runs) for _ in run], np.int64)
    np.testing.assert_array_equal(order_by(group, value), np.lexsort((value, group)))
    np.testing.assert_array_equal(order_by(value), np.argsort(value, kind="stable"))


@settings(max_examples=100)
@given(
    st.lists(st.integers(-20, 60) | st.integers(-(1 << 60), 1 << 60), max_size=30).map(sorted),
    st.lists(st.integers(-30, 70) | st.integers(-(1 << 60), 1 << 60), max_size=60),
)
def test_counts_are_those_of_a_binary_search(ascending: list[int], values: list[int]) -> None:
    numbers, queries = np.array(ascending, np.int64), np.array(values, np.int64)
    np.testing.assert_array_equal(count_less(numbers, queries), np.searchsorted(numbers, queries))


def test_scattered_rows_are_sorted_too() -> None:
    value = np.random.default_rng(0).permutation(1000).astype(np.int64)
    np.testing.assert_array_equal(value[order_by(value)], np.arange(1000))
