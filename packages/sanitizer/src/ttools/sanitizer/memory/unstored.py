"""Bytes that launches were handed unwritten and have not stored to, known from their logs.

Elements of one or two bytes hold the pattern of unwritten memory by chance, so the pattern alone
does not tell that a few of them were left. Of bytes that nobody had written before a launch, its
log says which it has stored to. Must not know what becomes of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ttools.interpreter.abi.region import Region
from ttools.interpreter.runtime.monitor import Monitor
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.missing import Bools
from ttools.sanitizer.memory.pattern import WORD, held, word_of
from ttools.sanitizer.races import Records

#: Larger storages are not looked at: it takes time.
LARGEST = 1 << 16
#: So many bytes are looked at first: most memory was written before.
_GLANCE = 64


@dataclass(kw_only=True)
class Logged:
    """What logs tell of a storage, a mark for each byte.

    Attributes:
        covered: the bytes of which they do.
        left: those of them that nobody has stored to.
    """

    covered: Bools
    left: Bools

    def among(self, marks: Bools, own: Bools) -> Bools:
        """Which bytes are unwritten.

        Args:
            marks: as the pattern tells.
            own: which bytes hold it.
        """
        return np.where(self.covered, self.left & own, marks)


def is_untouched(region: Region, pattern: bytes) -> bool:
    """Whether every byte of an argument holds the pattern, so that nobody has written any."""
    first, end = region.view
    if not 0 < end - first <= LARGEST:
        return False
    glance = min(end, first + _GLANCE)
    if not held_at(first, glance, pattern).all():
        return False
    # Storages begin at a word, so that words hold the pattern in step.
    begin, stop = -(-glance // WORD) * WORD, end // WORD * WORD
    if begin >= stop:
        return bool(held_at(glance, end, pattern).all())
    ends = held_at(glance, begin, pattern).all() and held_at(stop, end, pattern).all()
    return bool(ends and (memory(begin, stop).view(np.uint64) == word_of(pattern)).all())


def unstored(
    monitor: Monitor, start: int, pattern: bytes, before: Bools, *, pairs: bool
) -> Bools | None:
    """The bytes of a storage that a launch has left as nobody had written them.

    Args:
        monitor: of the launch, with its log.
        start: address of the storage.
        pattern: that marks unwritten bytes.
        before: the bytes that were unwritten before.
        pairs: whether elements have two bytes, which hold the pattern less often than each does.

    Returns:
        A mark for each byte; None if the log lacks a store.
    """
    end = start + len(before)
    kept = before & held(memory(start, end), pattern, 2 if pairs else 1)
    if not kept.any():
        return kept
    stored = stored_bytes(monitor, start, end, ("store", "atomic"))
    if (before & ~kept & ~stored).any():
        return None  # something that is not in the log has changed a byte
    left: Bools = kept & ~stored
    return left


def stores_to(
    monitor: Monitor, start: int, end: int, kinds: tuple[str, ...] = ("store",)
) -> Records:
    """The accesses of some kinds, stores by default, of a launch to a storage."""
    records, _ = monitor.records()
    writes = np.array([site.kind in kinds for site in monitor.sites], np.bool_)
    inside = records[(records["start"] < end) & (records["end"] > start)]
    stored: Records = inside[writes[inside["site"]]]
    return stored


def stored_bytes(
    monitor: Monitor, start: int, end: int, kinds: tuple[str, ...] = ("store",)
) -> Bools:
    """The bytes of a storage that a launch has accessed so; see `stores_to`."""
    inside = stores_to(monitor, start, end, kinds)
    steps = np.zeros(end - start + 1, np.int32)
    np.add.at(steps, np.maximum(inside["start"].astype(np.int64) - start, 0), 1)
    np.add.at(steps, np.minimum(inside["end"].astype(np.int64), end) - start, -1)
    stored: Bools = np.cumsum(steps[:-1]) > 0
    return stored


def held_at(first: int, end: int, pattern: bytes) -> Bools:
    """Which bytes between two addresses of a storage, which begins at an even one, hold it."""
    even = first & ~1
    return held(memory(even, end), pattern, 1)[first - even :]
