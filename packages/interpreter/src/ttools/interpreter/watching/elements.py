"""Elements of recorded values as NumPy has them, and the figures that sum a value up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

_FLOATS: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}
_INTEGER = re.compile(r"i(\d+)")
_POINTER = "!tt.ptr<"


def is_pointer(element: str) -> bool:
    """Whether an element type, as MLIR writes it, is a pointer's."""
    return element.startswith(_POINTER)


@lru_cache(maxsize=64)
def numpy_type(element: str) -> np.dtype[Any] | None:
    """The NumPy type of an element type as MLIR writes it; addresses for pointers."""
    if is_pointer(element):
        return np.dtype(np.uint64)
    if found := _INTEGER.fullmatch(element):
        width = int(found[1])
        if width == 1:
            return np.dtype(np.bool_)
        return np.dtype(f"i{width // 8}") if width in (8, 16, 32, 64) else None
    kind = _FLOATS.get(element)
    return None if kind is None else np.dtype(kind)


def pointee(element: str) -> str:
    """What a pointer points to."""
    return element.removeprefix(_POINTER).removesuffix(">").split(",")[0].strip()


def type_name(element: str) -> str:
    """How NumPy calls the type; `*float32` for a pointer."""
    if is_pointer(element):
        return "*" + type_name(pointee(element))
    found = numpy_type(element)
    return element if found is None else str(found)


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
