"""NumPy types for the element types of recorded values, and statistics of values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.eager.elements import Element
from ttools.interpreter.eager.elements import element as element_of


@lru_cache(maxsize=64)
def _element(text: str) -> Element | None:
    try:
        return element_of(text)
    except KeyError:
        return None


def is_pointer(element: str) -> bool:
    """Return whether an element type, given by its MLIR name, is a pointer type."""
    kind = _element(element)
    return kind is not None and kind.is_pointer


def numpy_type(element: str) -> np.dtype[Any] | None:
    """Return the NumPy type for the MLIR name of an element type; pointers become integers."""
    kind = _element(element)
    return None if kind is None else kind.dtype


def pointee_bytes(element: str) -> int:
    """Return the size in bytes of the type that a pointer points to."""
    kind = _element(element)
    return kind.pointee.size if kind is not None and kind.pointee is not None else 1


def type_name(element: str) -> str:
    """Return the NumPy name for the MLIR name of a type; `*float32` is a pointer to `float32`."""
    kind = _element(element)
    if kind is None:
        return element
    return f"*{type_name(kind.pointee.text)}" if kind.pointee is not None else str(kind.dtype)


@dataclass(frozen=True)
class Figures:
    """Statistics of a value.

    Attributes:
        count: Number of defined elements.
        low: The minimum; None if all elements are undefined or NaN.
        high: The maximum; None if all elements are undefined or NaN.
        mean: Mean of all finite elements.
        nans: Number of NaN elements.
        infinities: Number of infinite elements.
    """

    count: int
    low: float | int | None
    high: float | int | None
    mean: float | None
    nans: int
    infinities: int


def figures(values: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> Figures:
    """Compute statistics of the defined elements of a value."""
    flat = values.reshape(-1) if mask is None else values[mask]
    if flat.dtype.kind in "biu":
        if not flat.size:
            return Figures(0, None, None, None, 0, 0)
        mean = float(flat.mean(dtype=np.float64))
        return Figures(flat.size, int(flat.min()), int(flat.max()), mean, 0, 0)
    wide = flat.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    numbers = wide[~np.isnan(wide)]
    return Figures(
        count=flat.size,
        low=float(numbers.min()) if numbers.size else None,
        high=float(numbers.max()) if numbers.size else None,
        mean=float(finite.mean()) if finite.size else None,
        nans=int(np.isnan(wide).sum()),
        infinities=int(np.isinf(wide).sum()),
    )
