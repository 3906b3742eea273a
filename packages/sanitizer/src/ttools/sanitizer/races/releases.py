"""The releases of a launch as a table, and the two questions asked of it for many accesses.

Rows are grouped by program and sequence (see `clocks`); within a group the version, the epoch and
the barrier count all ascend. Knows nothing of what a program knew when.
"""

import numpy as np

from ttools.sanitizer.races.keys import changes, count_less, order_by, ranges
from ttools.sanitizer.races.records import Ints, Records

UNKNOWN = -1


class Releases:
    """All releases of a launch.

    Args:
        syncs: Sync records in memory order.
        moment: The index of each release in `syncs`.
        sequence: What each release was published into.
        version: And as which version of it, from 1.
    """

    def __init__(
        self,
        syncs: Records,
        moment: Ints,
        sequence: Ints,
        version: Ints,
    ) -> None:
        program = syncs["program"][moment]
        order = order_by(program, sequence, version)
        self._moment, self._version = moment[order], version[order]
        program, sequence = program[order], sequence[order]
        fresh = changes(program, sequence)
        self._head = np.flatnonzero(fresh)
        self._stop = np.append(self._head[1:], len(order))
        self._program, self._sequence = program[self._head], sequence[self._head]
        group = np.cumsum(fresh) - 1
        self._by_version = _Ascending(group, self._version)
        self._by_epoch = _Ascending(group, syncs["epoch"][self._moment])
        self._by_barrier = _Ascending(group, syncs["barrier"][self._moment])

    def groups(self, program: Ints) -> tuple[Ints, Ints, Ints]:
        """The groups of each program: group, its sequence, and the index into `program`."""
        low = count_less(self._program, program)
        high = count_less(self._program, program + 1)
        group, owner = ranges(low, high - low)
        return group, self._sequence[group], owner

    def newest(self, group: Ints, version: Ints) -> Ints:
        """The moment of the last release of each group up to a version, or -1."""
        at = self._by_version.count(group, version, "right") - 1
        return np.where(at >= self._head[group], self._moment[at], UNKNOWN)

    def requirement(self, program: Ints, epoch: Ints, barrier: Ints) -> tuple[Ints, Ints]:
        """Sequences and their versions, any one of which orders all accesses before its knower.

        Args:
            program: of each access.
            epoch: of each access.
            barrier: What the barrier count of a release must exceed to publish the access.
        """
        group, sequence, owner = self.groups(program)
        at = np.maximum(
            self._by_epoch.count(group, epoch[owner], "left"),
            self._by_barrier.count(group, barrier[owner], "right"),
        )
        found = at < self._stop[group]
        at, sequence = at[found], sequence[found]
        order = order_by(sequence)
        at, sequence = at[order], sequence[order]
        heads = np.flatnonzero(changes(sequence))
        if len(heads) == 0:
            return heads, heads
        enough = np.diff(np.append(heads, len(at))) == len(program)
        return sequence[heads[enough]], np.maximum.reduceat(self._version[at], heads)[enough]


class _Ascending:
    """A column that ascends within each group, for searches in many groups at once."""

    def __init__(self, group: Ints, column: Ints) -> None:
        self._span = int(column.max(initial=0)) + 2
        self._keys = group * self._span + column

    def count(self, group: Ints, value: Ints, side: str) -> Ints:
        """Rows of this and earlier groups that are less than the value ("right": or equal)."""
        inside = np.clip(value, -1, self._span - 1)
        keys = group * self._span + inside
        return count_less(self._keys, keys if side == "left" else keys + 1)
