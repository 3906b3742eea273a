"""The confidence interval of a median has the stated coverage."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.tuner.measure.confidence import LEVEL, median_interval


@pytest.mark.parametrize("count", range(1, 15))
def test_coverage_by_counting_all_outcomes(count: int) -> None:
    """Count the 2**n outcomes: each sample is below or above the median with equal probability."""
    samples = [float(n) for n in range(count)]
    interval = median_interval(samples)
    if interval is None:
        assert 1 - 2 / 2**count < 0.95
        return
    low, high = (samples.index(end) for end in interval)
    outcomes = [sum(signs) for signs in itertools.product((0, 1), repeat=count)]
    covered = sum(low < below <= high for below in outcomes)
    assert covered / 2**count >= 0.95
    if low + 1 < high:
        inner = sum(math.comb(count, below) for below in range(low + 2, high))
        assert inner / 2**count < 0.95, "a narrower interval would not suffice"


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=80))
def test_the_interval_contains_the_median_of_the_samples(samples: list[float]) -> None:
    import statistics

    interval = median_interval(samples)
    assert interval is not None
    assert interval[0] <= statistics.median(samples) <= interval[1]
    assert median_interval(samples[:5]) is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=80))
def test_the_interval_agrees_with_scipy(samples: list[float]) -> None:
    from scipy.stats import quantile_test

    interval_of_scipy = quantile_test(samples, p=0.5).confidence_interval(LEVEL)
    expected = (
        None
        if math.isnan(interval_of_scipy.low) or math.isnan(interval_of_scipy.high)
        else tuple(interval_of_scipy)
    )
    assert median_interval(samples) == expected
