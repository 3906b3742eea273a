"""The common form in which each analysis hands in what it found: rows of arrays."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ttools.sanitizer.races.records import KINDS, Bools, Ints

OVERLAPPING_STORE, RACE, INTRA_PROGRAM = range(len(KINDS))


class Rows(NamedTuple):
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

    def take(self, chosen: Ints | Bools) -> "Rows":
        return Rows(*(column[chosen] for column in self))


def join(parts: Sequence[Rows]) -> Rows:
    """All rows of several analyses of the same records."""
    none = Rows(*[np.empty(0, np.int64)] * len(Rows._fields))
    return Rows(*map(np.concatenate, zip(none, *parts, strict=True)))


def intra_program(start: Ints, end: Ints, first: Ints, second: Ints) -> Rows:
    """Rows of one program's threads, whatever it releases."""
    kind, release = np.full(len(start), INTRA_PROGRAM), np.full(len(start), -1)
    return Rows(kind, start, end, first, second, release)
