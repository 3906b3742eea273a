"""The smallest tolerances that allow given errors."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ttools.sanitizer.accuracy.tolerances import Envelope, rounded_up

_elements = st.lists(
    st.tuples(
        st.integers(0, 4000).map(lambda n: n / 8), st.integers(0, 1000).map(lambda n: n / 64)
    ),
    min_size=1,
    max_size=40,
)


def _envelope(elements: list[tuple[float, float]]) -> Envelope:
    envelope = Envelope()
    sizes, errors = np.array(elements, np.float64).T
    envelope.add(sizes, errors)
    return envelope


def _least(elements: list[tuple[float, float]], mean: float) -> float:
    """Return the smallest sufficient `atol + rtol * mean`: it has a slope between two elements."""
    points = [(0.0, 0.0), *elements]
    slopes = [0.0]
    slopes += [(b - d) / (a - c) for a, b in points for c, d in points if a > c and b > d]
    return min(max(max(e - s * x for x, e in points), 0.0) + s * mean for s in slopes)


@given(_elements)
def test_a_tolerance_allows_all_errors_and_little_more(elements: list[tuple[float, float]]) -> None:
    rtol, atol = _envelope(elements).tolerance()
    assert rtol >= 0
    assert atol >= 0
    assert all(error <= (atol + rtol * size) * (1 + 1e-9) for size, error in elements)
    mean = sum(size for size, _ in elements) / len(elements)
    assert atol + rtol * mean <= 1.3 * _least(elements, mean) + 1e-12


@given(_elements, _elements)
def test_united_envelopes_contain_the_elements_of_both(
    first: list[tuple[float, float]], second: list[tuple[float, float]]
) -> None:
    envelope = _envelope(first)
    envelope.unite(_envelope(second))
    rtol, atol = envelope.tolerance()
    assert all(error <= (atol + rtol * size) * (1 + 1e-9) for size, error in [*first, *second])


def test_relative_errors_need_no_absolute_tolerance() -> None:
    sizes = np.geomspace(1e-3, 1e3, 500)
    envelope = Envelope()
    envelope.add(sizes, 1e-3 * sizes)
    assert envelope.suggestion() == (0.005, 0.0)  # 0.002 with the rounding of sizes to bins
    envelope.add(np.zeros(1), np.full(1, 1e-4))
    assert envelope.suggestion()[1] > 0
    assert Envelope().suggestion() == (0.0, 0.0)


@given(st.floats(1e-300, 1e300))
def test_rounding_to_steps(value: float) -> None:
    result = rounded_up(value)
    assert value * (1 - 1e-11) <= result <= 2.5 * value * (1 + 1e-11)
    assert f"{result:.0e}"[0] in "125"
