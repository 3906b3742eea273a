"""Data frames as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def csv_text(frame: pd.DataFrame) -> str:
    """Return a data frame as CSV.

    Whole numbers have no decimal point, even in columns with unknown values. Shares by name are
    written as `integer=0.78; global memory=0.094`.
    """
    return str(frame.map(_csv_cell).convert_dtypes().to_csv(index=False))


def _csv_cell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}={part:.4g}" for name, part in value.items()) or None
    return int(value) if isinstance(value, float) and value.is_integer() else value
