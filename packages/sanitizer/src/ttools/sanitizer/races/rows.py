"""The common form in which each analysis hands in what it found: rows of arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ttools.sanitizer.races.records import KINDS, Bools, Ints

OVERLAPPING_STORE, RACE, INTRA_PROGRAM = range(len(KINDS))


@dataclass(frozen=True)
class Rows:
    """One row says that two records conflict on the bytes `[start, end)`.

    `kind` indexes `KINDS`, `first` and `second` the records; `release` is the site of the release
    that lacks a barrier, or -1.
    """

    kind: Ints
    start: Ints
    end: Ints
    first: Ints
    second: Ints
    release: Ints

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, chosen: Ints | Bools) -> "Rows":
        """The chosen rows."""
        return Rows(
            self.kind[chosen],
            self.start[chosen],
            self.end[chosen],
            self.first[chosen],
            self.second[chosen],
            self.release[chosen],
        )


def join(parts: Sequence[Rows]) -> Rows:
    """All rows of several analyses of the same records."""
    none = np.empty(0, np.int64)
    return Rows(
        np.concatenate([none, *(part.kind for part in parts)]),
        np.concatenate([none, *(part.start for part in parts)]),
        np.concatenate([none, *(part.end for part in parts)]),
        np.concatenate([none, *(part.first for part in parts)]),
        np.concatenate([none, *(part.second for part in parts)]),
        np.concatenate([none, *(part.release for part in parts)]),
    )
