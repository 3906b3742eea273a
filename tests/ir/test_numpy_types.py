"""Tests that the NumPy type of each MLIR element type has the same bits and rounding."""

from __future__ import annotations

import numpy as np
import pytest

from ttools.ir.numpy_types import numpy_type
from ttools.ir.parser.floats import FORMATS


@pytest.mark.parametrize("width", [1, 8, 16, 32, 64])
def test_integers_are_signed(width: int) -> None:
    kind = numpy_type(f"i{width}")
    assert kind is not None
    assert (kind.kind, 8 * kind.itemsize) == (("b", 8) if width == 1 else ("i", width))


@pytest.mark.parametrize("element", [name for name in FORMATS if numpy_type(name) is not None])
def test_floats_have_the_bits_of_their_format(element: str) -> None:
    kind = numpy_type(element)
    assert kind is not None
    for number in (1.0, -0.3, 1e-3, 448.0):
        bits = np.array([number], np.float64).astype(kind).view(f"u{kind.itemsize}")[0]
        assert bits == FORMATS[element].encode(number), number


@pytest.mark.parametrize("element", ["f4E2M1FN", "!tt.ptr<f32>", "int32", ""])
def test_other_types_have_no_numpy_type(element: str) -> None:
    assert numpy_type(element) is None
