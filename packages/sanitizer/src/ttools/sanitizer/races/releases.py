"""A sorted table of the releases of a launch that answers queries for many accesses at once.

Rows are grouped by program and sequence (`vector_clocks` defines sequences and versions). Within a
group, the version, the epoch and the barrier count all ascend, so that each query is a binary
search.
"""

import numpy as np

from ttools.core.ranges import ranges
from ttools.sanitizer.races.integer_columns import changes, count_less, order_by
from ttools.sanitizer.races.records import Ints, Records
from ttools.sanitizer.races.vector_clocks import Published

UNKNOWN = -1


class Ascending:
    """A column that ascends within each group and can be searched in many groups at once."""

    def __init__(self, group: Ints, column: Ints) -> None:
        self._span = int(column.max(initial=0)) + 2
        self._keys = group * self._span + column

    def count(self, group: Ints, value: Ints, side: str) -> Ints:
        """Return the number of rows in this and all earlier groups that are less than a value.

        With `side="right"`, equal rows are counted as well.
        """
        inside = np.clip(value, -1, self._span - 1)
        keys = group * self._span + inside
        return count_less(self._keys, keys if side == "left" else keys + 1)


class Releases:
    """All releases of a launch, grouped by program and sequence.

    Args:
        syncs: Sync records in memory order.
        history: Sequence and version after each sync record.
    """

    def __init__(self, syncs: Records, history: Published) -> None:
        moment = history.releases
        program = syncs["program"][moment].astype(np.int64)
        sequence, version = history.sequence[moment], history.version[moment]
        order = order_by(program, sequence, version)
        self._moment, self._version = moment[order], version[order]
        program, sequence = program[order], sequence[order]
        fresh = changes(program, sequence)
        self._head = np.flatnonzero(fresh)
        self._stop = np.append(self._head[1:], len(order))
        self._program, self._sequence = program[self._head], sequence[self._head]
        self._sequences = int(sequence.max(initial=-1)) + 1
        self._keys = self._program * self._sequences + self._sequence
        group = np.cumsum(fresh) - 1
        self._by_version = Ascending(group, self._version)
        self._by_epoch = Ascending(group, syncs["epoch"][self._moment])
        self._by_barrier = Ascending(group, syncs["barrier"][self._moment])

    def groups(self, program: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the groups of all programs: group, its sequence, and the index into `program`."""
        low = count_less(self._program, program)
        high = count_less(self._program, program + 1)
        group, owner = ranges(low, high - low)
        return group, self._sequence[group], owner

    def count_groups(self, program: Ints) -> Ints:
        """Return the number of groups of each program."""
        return count_less(self._program, program + 1) - count_less(self._program, program)

    def newest(self, group: Ints, version: Ints) -> Ints:
        """Return the moment of the last release of each group up to the given version, or -1."""
        at = self._by_version.count(group, version, "right") - 1
        return np.where(at >= self._head[group], self._moment[at], UNKNOWN)

    def shared_sequences(self, program: Ints, most: int) -> Ints:
        """Return, for each program, those of its sequences into which the most programs release.

        Args:
            program: Programs to look up.
            most: Number of sequences to return for each program.

        Returns:
            A row for each program, padded with -1 if the program has fewer sequences.
        """
        members = np.bincount(self._sequence, minlength=self._sequences)
        order = order_by(self._program, -members[self._sequence])
        heads = count_less(self._program, program)
        count = self.count_groups(program)
        place = np.arange(most)
        inside = place < count[:, None]
        at = np.where(inside, heads[:, None] + place, 0)
        return np.where(inside, self._sequence[order[at]], UNKNOWN) if len(order) else at - 1

    def publishing(self, program: Ints, sequence: Ints, epoch: Ints, barrier: Ints) -> Ints:
        """Return the first version of a sequence that publishes each access, or -1.

        Args:
            program: Program of each access.
            sequence: Sequence in which the release is sought, or -1.
            epoch: Epoch of each access.
            barrier: Barrier count that a release must exceed to publish the access.
        """
        if len(self._keys) == 0:
            return np.full(len(program), UNKNOWN)
        key = program * self._sequences + sequence
        group = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        at = np.maximum(
            self._by_epoch.count(group, epoch, "left"),
            self._by_barrier.count(group, barrier, "right"),
        )
        exists = (sequence >= 0) & (self._keys[group] == key) & (at < self._stop[group])
        return np.where(exists, self._version[np.minimum(at, len(self._version) - 1)], UNKNOWN)
