"""The interval of a median covers it as often as it says."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.tuner.measure.confidence import LEVEL, median_interval


@pytest.mark.parametrize("count", range(1, 15))
def test_coverage_by_counting_all_outcomes(count: int) -> None:
    """Each sample is below or above the median with equal odds: all 2**n outcomes."""
    samples = [float(n) for n in range(count)]
    interval = median_interval(samples)
    if interval is None:
        assert 1 - 2 / 2**count < 0.95
        return
    low, high = (samples.index(end) for end in interval)
    outcomes = [sum(each) for each in itertools.product((0, 1), repeat=count)]
    covered = sum(low < below <= high for below in outcomes)
    assert covered / 2**count >= 0.95
    if low + 1 < high:
        inner = sum(math.comb(count, below) for below in range(low + 2, high))
        assert inner / 2**count < 0.95, "a narrower one would not do"


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=80))
def test_it_holds_the_samples_own_median(samples: list[float]) -> None:
    import statistics

    interval = median_interval(samples)
    assert interval is not None
    assert interval[0] <= statistics.median(samples) <= interval[1]
    assert median_interval(samples[:5]) is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=80))
def test_it_is_the_interval_that_scipy_finds(samples: list[float]) -> None:
    from scipy.stats import quantile_test

    found = quantile_test(samples, p=0.5).confidence_interval(LEVEL)
    expected = None if math.isnan(found.low) or math.isnan(found.high) else tuple(found)
    assert median_interval(samples) == expected
