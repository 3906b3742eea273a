"""The schedule of a function as data, which `schedule.py` creates before code is emitted."""

from __future__ import annotations

from dataclasses import dataclass, field

from ttools.ir import Operation, Value


@dataclass
class FusionGroup:
    """Tiles of one shape that are computed together, at the place where the last is defined.

    Attributes:
        members: The tiles, in program order.
        axes: The axes of extent 2 that a block spans in addition to those that a chunk spans.
    """

    members: list[Value]
    axes: frozenset[int]


@dataclass
class Plan:
    """Decisions about the tensors of a function.

    Attributes:
        stored: Values that have a slot in the arena. The value of the entry is True if the slot
            contains a wider type, as matrix products require.
        increments: Loop-carried tensors that are the sum of their initial value and numbers that
            are the same for all elements. Maps the block argument to the tensors that are added in
            one iteration.
        shares: Values that are stored in the slot of another value. A yielded value may share the
            slot of the carried value or of the result of an `scf.if`, and the result of a loop may
            share the slot of the carried value.
        lane_swaps: Operations that swap neighbours along an axis of extent 2, with the tile and
            the axis.
        skipped: Operations for which no code is emitted at their place: reductions that are only
            used by lane swaps, the operations between them and the swap, and all members of a
            fusion group except for the last.
        fusion_groups: Groups of tiles, by the operation that defines the last tile.
    """

    stored: dict[Value, bool] = field(default_factory=dict)
    increments: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    shares: dict[Value, Value] = field(default_factory=dict)
    lane_swaps: dict[Operation, tuple[Value, int]] = field(default_factory=dict)
    skipped: set[Operation] = field(default_factory=set)
    fusion_groups: dict[Operation, FusionGroup] = field(default_factory=dict)

    def store(self, value: Value, *, widened: bool = False) -> None:
        """Give a tensor its own slot, unless it shares the slot of another value."""
        if value.is_tensor and value not in self.shares:
            self.stored[value] = self.stored.get(value, True) and widened

    def share(self, value: Value, other: Value) -> None:
        """Make a tensor share the slot of another tensor; it loses its own slot."""
        assert value not in self.shares, "a value lies in one slot"
        self.stored.pop(value, None)
        self.shares[value] = other

    def owner(self, value: Value) -> Value:
        """Return the value that owns the slot in which a value is stored."""
        while value in self.shares:
            value = self.shares[value]
        return value

    def is_stored(self, value: Value) -> bool:
        return value in self.stored or value in self.shares
