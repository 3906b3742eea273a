"""Elements of recorded values as NumPy has them, and the figures that sum a value up."""

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
    """Whether an element type, as MLIR writes it, is a pointer's."""
    found = _element(element)
    return found is not None and found.is_pointer


def numpy_type(element: str) -> np.dtype[Any] | None:
    """The NumPy type of an element type as MLIR writes it; addresses for pointers."""
    found = _element(element)
    return None if found is None else found.dtype


def pointee_bytes(element: str) -> int:
    """The size of what a pointer points to."""
    found = _element(element)
    return found.pointee.size if found is not None and found.pointee is not None else 1


def type_name(element: str) -> str:
    """How NumPy calls the type; `*float32` for a pointer."""
    found = _element(element)
    if found is None:
        return element
    return f"*{type_name(found.pointee.text)}" if found.pointee is not None else str(found.dtype)


@dataclass(frozen=True)
class Figures:
    """A value summed up.

    Attributes:
        count: of elements, without those that are undefined.
        low: the least; None where there is none, or for pointers.
        high: the greatest.
        mean: of all that are finite.
        nans: how many are NaN.
        infinities: how many are infinite.
    """

    count: int
    low: float | int | None
    high: float | int | None
    mean: float | None
    nans: int
    infinities: int


def figures(values: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> Figures:
    """Sums up the defined elements of a value."""
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
