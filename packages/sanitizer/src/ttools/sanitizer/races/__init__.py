"""Races of a launch, from records of its accesses and synchronisation; see docs/design/races.md."""

from ttools.sanitizer.races.conflicts import find_conflicts
from ttools.sanitizer.races.disjoint import crowded, on_a_lattice, seen_apart
from ttools.sanitizer.races.lock_order import Nested, lock_cycle
from ttools.sanitizer.races.log import RaceLog
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
    Site,
)

__all__ = [
    "ACCESS",
    "ACQUIRE",
    "AccessRef",
    "Conflict",
    "Nested",
    "Overlaps",
    "RELEASE",
    "RMW",
    "Records",
    "RaceLog",
    "SCALAR",
    "SYNC",
    "Site",
    "crowded",
    "find_conflicts",
    "lock_cycle",
    "on_a_lattice",
    "seen_apart",
]
