"""Host code in a separate module."""

from __future__ import annotations

from typing import Any


def blocks_of(n: Any, length: int) -> list[int]:
    starts = []
    for start in range(0, n, length):
        starts.append(start)
    return starts
