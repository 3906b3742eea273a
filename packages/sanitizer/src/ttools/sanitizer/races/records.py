"""Input and output types of the race analysis: access records, sync records, sites, conflicts."""

from dataclasses import dataclass, field
from math import prod
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.abi import probe_layout
from ttools.interpreter.runtime.access_log import access_dtype, sync_dtype

Records: TypeAlias = NDArray[np.void]
"""A structured array of type `ACCESS` or `SYNC`."""
Record: TypeAlias = np.void
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

ACCESS = access_dtype()
"""One run of adjacent bytes `[start, end)` that `program` accessed at `site`.

`lane` is the lane of the run's first element. The elements belong to consecutive lanes, and the
lane number wraps around at the end of the tile. `epoch` and `barrier` are the numbers of sync
records and block barriers that the program had executed before the access. `seq` is a lower bound
of the time of the access in a launch that synchronises; the analysis does not use it, because
`epoch` gives the order. The highest bits of `seq` count further lanes that access the same element,
if the record has one element (`more_lanes`).
"""

SYNC = sync_dtype()
"""One executed lane of a synchronising atomic or volatile load.

`seq` is its position in the memory order of the launch. `epoch` is its index among the sync records
of its program: accesses with this epoch or a lower one come before it in program order.
"""

ACQUIRE, RELEASE = probe_layout.ACQUIRES, probe_layout.RELEASES
LOOKS, BLIND = probe_layout.LOOKS, probe_layout.BLIND
OVERWRITES = probe_layout.OVERWRITES
RMW, SCALAR = probe_layout.READS_AND_WRITES, probe_layout.IS_SCALAR
"""Bits of `flags` in a sync record.

A failed compare-and-swap only reads, so it is not RMW. BLIND marks an access whose result is not
used: it acquires only if its program has executed a LOOKS access of the word, whose result is used,
before it.
"""


def column(records: Records, name: str) -> Ints:
    """Return a contiguous copy of a column, as fields of structured arrays are slow to read."""
    return records[name].astype(np.int64)


AccessKind: TypeAlias = Literal["load", "store", "atomic"]
ConflictKind: TypeAlias = Literal["overlapping_store", "race", "intra_program_race"]

KINDS: tuple[ConflictKind, ...] = ("overlapping_store", "race", "intra_program_race")


@dataclass(frozen=True)
class Site:
    """One memory operation of the kernel; a launch lists its sites in program order.

    Args:
        kind: Load, store or atomic.
        size: Size of one element in bytes.
        shape: Extents of the tile, in the order in which lanes are counted; `()` for a scalar
            access.
        volatile: True for a volatile or atomic load, which never conflicts with an atomic.
        local: True for an atomic whose scope is its own program (`cta`).
        order: Axis of the tile to which each entry of `shape` belongs; row-major if empty.
    """

    kind: AccessKind
    size: int
    shape: tuple[int, ...] = ()
    volatile: bool = False
    local: bool = False
    order: tuple[int, ...] = ()

    @property
    def numel(self) -> int:
        """Number of elements of the tile; 1 for a scalar access."""
        return prod(self.shape)


@dataclass(frozen=True)
class AccessRef:
    """One access to one element: its site, program, lane, address and epoch."""

    site: int
    program: int
    lane: int
    address: int
    epoch: int


@dataclass(frozen=True)
class SharedLanes:
    """A store that writes some elements from several lanes.

    Attributes:
        first: A lane that shares an element, from the lowest program with such lanes.
        count: Upper bound of the number of lanes that write an element which a lower lane has also
            written.
        programs: Number of programs that have such lanes.
    """

    first: AccessRef
    count: int
    programs: int


@dataclass(frozen=True)
class Overlaps:
    """The bytes to which several stores wrote; a second run compares the stored values.

    Args:
        ranges: Disjoint `(start, end)` in ascending order; incomplete if `cut` is True.
        cut: True if ranges were left out.
    """

    ranges: tuple[tuple[int, int], ...]
    cut: bool


@dataclass(frozen=True)
class Conflict:
    """All conflicts of one kind between two sites.

    Args:
        kind: Kind of the race, one of `KINDS`.
        first: First access of the example; in a launch that synchronises, the access that comes
            first.
        second: Second access of the example.
        start: First byte that both accesses of the example touch.
        end: End of the bytes, beginning at `start`, that the two elements share.
        count: Number of distinct elements in conflict, counted in elements of the second site's
            size.
        lanes: Number of element accesses at the two sites that touch bytes in conflict.
        programs: Number of programs that touch bytes in conflict at one of the two sites.
        missing_barrier_site: Site of the release that needs a barrier before it, or None.
        overlaps: Bytes in conflict, for an `overlapping_store`; otherwise None.
        starts: Start of each run of bytes in conflict, in ascending order.
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
