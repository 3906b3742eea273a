"""What tables hold in a run, as far as promises are about it: `Held`."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Held:
    """The numbers of a table, or of one after the other.

    Attributes:
        least: of them.
        greatest: of them.
        distinct: whether no two of one table are equal.
        ascending: whether none of a table is below the one before.
    """

    least: int
    greatest: int
    distinct: bool
    ascending: bool

    def and_then(self, other: Held) -> Held:
        """What holds of both."""
        return Held(
            min(self.least, other.least),
            max(self.greatest, other.greatest),
            self.distinct and other.distinct,
            self.ascending and other.ascending,
        )

    def breach(self, bounds: tuple[int, int] | None, words: Set[str]) -> str | None:
        """How a promise is not kept, in words; None if it is."""
        if bounds is not None and self.least < bounds[0]:
            return f"holds {self.least:,}, which is below {bounds[0]:,}"
        if bounds is not None and self.greatest > bounds[1]:
            return f"holds {self.greatest:,}, which is above {bounds[1]:,}"
        if "distinct" in words and not self.distinct:
            return "holds equal numbers"
        if "sorted" in words and not self.ascending:
            return "falls from one number to the next"
        return None


def held(numbers: Any) -> Held | None:
    """What an array of integers holds; None if nothing."""
    flat = np.asarray(numbers).reshape(-1)
    if not flat.size:
        return None
    distinct = np.unique(flat).size == flat.size
    ascending = bool((flat[1:] >= flat[:-1]).all())
    return Held(int(flat.min()), int(flat.max()), distinct, ascending)
