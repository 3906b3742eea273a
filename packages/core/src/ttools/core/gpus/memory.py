"""Amounts of GPU memory, as users and makers of GPUs write them: 1 GB is 2^30 bytes."""

from __future__ import annotations

import re

from ttools.core.errors import UsageError

#: Memory of a GPU if none is named, in bytes.
DEFAULT_MEMORY = 80 << 30
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt]?)i?b)?\s*", re.IGNORECASE)


def read_memory(text: str) -> int:
    """Return a number of bytes that is written as `192GB`, `1.5 TB` or `4096`.

    Raises:
        UsageError: The text is not an amount of memory.
    """
    match = _AMOUNT.fullmatch(text)
    amount = 0 if match is None else int(float(match[1]) * (1 << _UNITS[(match[2] or "").lower()]))
    if amount < 1:
        raise UsageError(f"`{text}` is not an amount of memory such as `80GB` or `1.5TB`")
    return amount


def memory_text(amount: int) -> str:
    """Return an amount of memory in the largest unit of which it has at least one: `80 GB`."""
    unit = next((u for u in ("t", "g", "m", "k") if amount >= 1 << _UNITS[u]), "")
    return f"{amount / (1 << _UNITS[unit]):,.4g} {unit.upper()}B"
