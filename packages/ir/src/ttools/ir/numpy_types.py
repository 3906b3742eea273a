"""NumPy and ml_dtypes types that correspond to element types of tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_NAMES = {
    "i1": "bool",
    **{f"i{width}": f"int{width}" for width in (8, 16, 32, 64)},
    **{f"f{width}": f"float{width}" for width in (16, 32, 64)},
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
}


@lru_cache(maxsize=64)
def numpy_type(element: str) -> np.dtype[Any] | None:
    """Return the NumPy type with the same representation as an MLIR integer or float type.

    Args:
        element: Name of the MLIR type. Integers become signed integers, and `i1` becomes `bool`.

    Returns:
        None for other types.
    """
    import ml_dtypes
    import numpy as np

    name = _NAMES.get(element)
    return None if name is None else np.dtype(getattr(ml_dtypes, name, name))
