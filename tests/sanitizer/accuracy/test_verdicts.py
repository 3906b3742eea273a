"""The errors of an output: the largest one with its parts, the histogram, the shares of lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.location import SourceLocation
from ttools.core.reports.accuracy import EDGES
from ttools.sanitizer.accuracy.memory import StorageShadow
from ttools.sanitizer.accuracy.shadow import HAS_EXTENDED, Shadow, as_exact, random_changes
from ttools.sanitizer.accuracy.sources import FIXED, Source, Sources
from ttools.sanitizer.accuracy.verdicts import OutputErrors, errors_of, limits

_TYPES = [np.dtype(np.float16), np.dtype(np.float32)]


def _sources(*types: str) -> Sources:
    """Return a table with an addition on each line, and a store."""
    sources = Sources()
    for line, type in enumerate(types, 1):
        place = SourceLocation("kernel.py", line, 1)
        sources.table.append(Source(operation="fadd", place=place, type=type))
    return sources


def _errors(
    values: Any, exact: Any, rows: Any = None, sources: Sources | None = None
) -> OutputErrors:
    start = values.ctypes.data
    shadow = StorageShadow(start, start + values.nbytes, values.dtype)
    addresses = start + values.itemsize * np.arange(len(values))
    shadow.store_lanes(addresses, Shadow(exact, rows), 1, 0)
    found = errors_of(shadow, 1, sources or _sources("f32"))
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", _TYPES)
@given(st.lists(st.tuples(st.floats(0.5, 2.0), st.floats(-3e-7, 3e-7)), min_size=1, max_size=50))
def test_the_parts_of_the_largest_error_add_up(
    dtype: np.dtype[Any], elements: list[tuple[float, float]]
) -> None:
    exact, relative = np.array(elements).T
    values = (exact * (1 + relative)).astype(dtype)
    changes = random_changes(exact, np.arange(len(exact)), narrow=False)
    errors = _errors(values, exact, changes)
    largest, eps = errors.largest, float(np.finfo(dtype).eps)
    ulps = np.abs(values.astype(np.float64) - exact) / (eps * exact)
    assert largest.ulps == pytest.approx(ulps.max(), rel=1e-9, abs=1e-12)
    parts = largest.by_rounding, largest.by_conditioning, largest.by_kernel
    assert sum(parts) == pytest.approx(largest.ulps, rel=1e-9, abs=1e-12)
    assert all(part >= -1e-12 for part in parts)
    assert largest.by_rounding <= 0.5 + 1e-9
    bins = [int((ulps <= edge).sum()) for edge in EDGES]
    assert np.cumsum(errors.histogram).tolist() == [*bins, len(ulps)]
    rtol, atol = errors.needed.suggestion()
    assert (np.abs(values - exact) <= atol + rtol * exact).all()
    assert rtol * 2 + atol < 100 * max(eps, 3e-7)


def test_a_wrong_element_is_the_worst_and_does_not_widen_the_tolerance() -> None:
    values = np.array([1.0, 1.0, np.inf], np.float32)
    exact = np.array([1.0, 1.5, 2.0])
    errors = _errors(values, exact)
    assert errors.largest.element == 1  # without an origin, the infinity comes from the arguments
    assert errors.largest.stored == 1.0
    assert errors.largest.by_kernel == pytest.approx(0.5 / (1.5 * 2.0**-23), rel=1e-6)
    assert errors.histogram[-1] == 1
    assert errors.needed.suggestion()[0] < 1e-5


def test_lines_get_the_sums_of_their_absolute_errors() -> None:
    rows = np.zeros((FIXED + 2, 3))
    rows[FIXED] = [2.0**-23, -(2.0**-23), 0.0]
    rows[FIXED + 1] = [0.0, 0.0, 2.0**-22]
    errors = _errors(np.ones(3, np.float32), np.ones(3), rows, _sources("f32", "f32"))
    assert {place.line: total for place, total in errors.lines.items()} == {1: 2.0, 2: 2.0}


@pytest.mark.skipif(not HAS_EXTENDED, reason="there is no type with more precision than float64")
@pytest.mark.parametrize(
    ("types", "error", "is_wrong"),
    [
        (("f64",), 1e-15, False),
        (("f64",), 1e-12, True),
        (("f32",), 1e-7, False),  # computed in float32 from inputs in float32
        (("f32",), 1e-5, True),
        (("f32", "cut"), 1e-7, True),  # an operand in float64 was rounded to float32
    ],
)
def test_float64_outputs(types: tuple[str, ...], error: float, is_wrong: bool) -> None:
    sources = _sources(*("f32" if type == "cut" else type for type in types))
    sources.table[-1].operation = "fp_trunc" if "cut" in types else "fadd"
    values = np.full(4, 1 + error)
    rows = np.zeros((FIXED + len(types), 4))
    rows[FIXED:] = error / len(types)
    errors = _errors(values, as_exact(np.ones(4)), rows, sources)
    assert bool(errors.wrong) is is_wrong
    assert errors.largest.ulps == pytest.approx(error * 2.0**52, rel=0.2)


def test_integers_have_no_limits() -> None:
    assert limits(np.dtype(np.int32)) is None
    assert limits(np.dtype(np.float32)) == (2.0**-23, 2.0**-126)
