"""The table of conflicting pairs of records that every race analysis returns."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ttools.sanitizer.races.records import KINDS, Bools, Ints

OVERLAPPING_STORE, RACE, INTRA_PROGRAM = range(len(KINDS))


class Rows(NamedTuple):
    """A table with one row for each pair of records that conflict on the bytes `[start, end)`.

    Attributes:
        kind: Kind of the race as an index into `KINDS`.
        start: First byte of the conflict.
        end: End of the conflicting bytes.
        first: Index of the record of the first access.
        second: Index of the record of the second access.
        release: Site of the release that lacks a barrier before it, or -1.
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
    """Concatenate the tables of several analyses of the same records."""
    none = Rows(*[np.empty(0, np.int64)] * len(Rows._fields))
    return Rows(*map(np.concatenate, zip(none, *parts, strict=True)))


def intra_program(start: Ints, end: Ints, first: Ints, second: Ints) -> Rows:
    """Return rows of kind `INTRA_PROGRAM` that name no release."""
    kind, release = np.full(len(start), INTRA_PROGRAM), np.full(len(start), -1)
    return Rows(kind, start, end, first, second, release)
