"""What a launch does, as the text of a profile says it: counted, or estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ttools.core.reports.numbers import amount, is_known, percent

Row = Mapping[Any, Any]


def is_sampled(row: Row) -> bool:
    """Return whether not all launches were counted, so that nothing follows from the means."""
    return bool(row["told_by"] == "estimate" and row["counted"] < row["launches"])


def work(row: Row) -> str:
    """Return operations and bytes of a launch, with their range and the reason if estimated."""
    if is_sampled(row):
        parts = [
            (amount(row["flops"]), " flop", _range(row, "flops")),
            (amount(row["bytes"], "B"), " requested", _range(row, "bytes", "B")),
        ]
        said = ", ".join(f"{mean}{what}{spread}" for mean, what, spread in parts if mean)
        return f"about {said} on average; estimated: {row['estimated']}"
    said = _counted_work(row)
    why = row["estimated"]
    return f"{said}; estimated: {why}" if said and isinstance(why, str) else said


def _range(row: Row, name: str, unit: str = "") -> str:
    least, most = row[f"{name}_min"], row[f"{name}_max"]
    return f" ({amount(least, unit)} to {amount(most, unit)})" if least < most else ""


def _counted_work(row: Row) -> str:
    parts = [
        (amount(row["flops"]), " flop"),
        (amount(row["bytes"], "B"), " requested"),
        (amount(row["unique_bytes"], "B"), " touched"),
        (masked(row["masked_share"]), " of lanes masked off"),
    ]
    return ", ".join(f"{value}{what}" for value, what in parts if value)


def masked(value: float) -> str:
    """Return a share of lanes; nothing where it rounds to nothing."""
    return percent(value) if is_known(value) and value >= 0.0005 else ""
