"""What the race analysis reads and what it answers: records of accesses and synchronisation, sites.

Owns what the columns of the records mean to it, and the `Conflict` that comes out. Knows nothing of
how either is produced.
"""

from dataclasses import dataclass, field
from math import prod
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.abi import probe_layout
from ttools.interpreter.runtime.access_log import access_dtype, sync_dtype

Records: TypeAlias = NDArray[np.void]
"""A structured array of `ACCESS` or `SYNC`."""
Record: TypeAlias = np.void
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

ACCESS = access_dtype()
"""One run of adjacent bytes `[start, end)` that `program` accessed at `site`.

`lane` is the lane of the run's first element, and the elements are consecutive lanes, beginning
again after the last one of the tile.
`epoch` and `barrier` count the sync records and the block barriers that the program had made
before. `seq` is a lower bound of the time in a launch that synchronises; the analysis derives
order from `epoch` and needs no time. Its highest bits count further lanes that access the element
of a record of one element (`more_lanes`).
"""

SYNC = sync_dtype()
"""One executed lane of a synchronising atomic or volatile load; `seq` is the true memory order.

`epoch` is the record's index within its program: accesses up to that epoch happened before it.
"""

ACQUIRE, RELEASE = probe_layout.ACQUIRES, probe_layout.RELEASES
LOOKS, BLIND = probe_layout.LOOKS, probe_layout.BLIND
OVERWRITES = probe_layout.OVERWRITES
RMW, SCALAR = probe_layout.READS_AND_WRITES, probe_layout.IS_SCALAR
"""Bits of `flags`; a failed compare-and-swap only reads, so it is not RMW. A BLIND access acquires
if its program has looked at the word before."""


def column(records: Records, name: str) -> Ints:
    """A column of records by itself: those of records lie far apart and are read slowly."""
    return records[name].astype(np.int64)


AccessKind: TypeAlias = Literal["load", "store", "atomic"]
ConflictKind: TypeAlias = Literal["overlapping_store", "race", "intra_program_race"]

KINDS: tuple[ConflictKind, ...] = ("overlapping_store", "race", "intra_program_race")


@dataclass(frozen=True)
class Site:
    """One memory operation of the kernel; a launch lists its sites in program order.

    Args:
        kind: What the operation does.
        size: Bytes of one element.
        shape: Of the tile, its axes in the order in which lanes are counted; `()` for a scalar
            access.
        local: Whether an atomic is one only within its own program, as with the scope `cta`.
        order: Which axis of the tile each is; row-major if empty.
        volatile: Whether a load is volatile or atomic: it never conflicts with an atomic then.
    """

    kind: AccessKind
    size: int
    shape: tuple[int, ...] = ()
    volatile: bool = False
    local: bool = False
    order: tuple[int, ...] = ()

    @property
    def numel(self) -> int:
        """Elements of the tile; 1 for a scalar access."""
        return prod(self.shape)


@dataclass(frozen=True)
class AccessRef:
    """One element access: where in the kernel, by whom, and at which address."""

    site: int
    program: int
    lane: int
    address: int
    epoch: int


@dataclass(frozen=True)
class SharedLanes:
    """A store whose lanes write the same elements.

    Attributes:
        first: the lowest program that has such lanes, and one of these.
        count: lanes that write what a lane before them wrote, at most.
        programs: how many have such lanes.
    """

    first: AccessRef
    count: int
    programs: int


@dataclass(frozen=True)
class Overlaps:
    """The bytes that several stores wrote: what a replay needs to compare the values.

    Args:
        ranges: Disjoint `(start, end)` in ascending order; not all of them if `cut`.
        cut: Whether ranges were left out.
    """

    ranges: tuple[tuple[int, int], ...]
    cut: bool


@dataclass(frozen=True)
class Conflict:
    """All conflicts of one kind between two sites.

    Args:
        kind: What is wrong.
        first: The witness: the access of the earlier site, or in a launch that synchronises the
            access that came first.
        second: The access it conflicts with.
        start: First byte that both witnesses touch.
        end: End of the bytes that the two elements share from there on.
        count: Distinct elements in conflict, of the size of the second site's.
        lanes: Accesses of an element at one of the two sites that touch bytes in conflict.
        programs: Programs that touch bytes in conflict at one of the two sites.
        missing_barrier_site: The release that would need a barrier before it, if there is one.
        overlaps: What a replay needs, for an `overlapping_store`.
        starts: Where the runs of bytes in conflict begin, in ascending order.
    """

    kind: ConflictKind
    first: AccessRef
    second: AccessRef
    start: int
    end: int
    count: int
    lanes: int
    programs: int
    missing_barrier_site: int | None = None
    overlaps: Overlaps | None = None
    starts: Ints = field(default_factory=lambda: np.empty(0, np.int64), compare=False, repr=False)
