"""Race detection for one launch, based on records of its accesses and synchronisation.

`docs/design/races.md` explains the rules and the algorithm.
"""

from ttools.sanitizer.races.conflicts import find_conflicts
from ttools.sanitizer.races.disjoint import disjoint_dense, disjoint_tiles, maybe_overlapping
from ttools.sanitizer.races.lane_conflicts import shared_lanes
from ttools.sanitizer.races.locks.lock_order import Nested, lock_cycle
from ttools.sanitizer.races.poll_values import EarliestReads
from ttools.sanitizer.races.records import (
    ACCESS,
    ACQUIRE,
    RELEASE,
    RMW,
    SCALAR,
    SYNC,
    AccessRef,
    Conflict,
    Overlaps,
    Records,
    SharedLanes,
    Site,
)

__all__ = [
    "ACCESS",
    "ACQUIRE",
    "AccessRef",
    "Conflict",
    "EarliestReads",
    "Nested",
    "Overlaps",
    "RELEASE",
    "RMW",
    "Records",
    "SCALAR",
    "SYNC",
    "SharedLanes",
    "Site",
    "maybe_overlapping",
    "find_conflicts",
    "lock_cycle",
    "shared_lanes",
    "disjoint_tiles",
    "disjoint_dense",
]
