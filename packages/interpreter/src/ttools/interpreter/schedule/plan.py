"""The schedule of a function as data; `schedule.py` makes it before anything is emitted."""

from __future__ import annotations

from dataclasses import dataclass, field

from ttools.ir import Operation, Value


@dataclass
class FusionGroup:
    """Tiles of one shape that are computed together, where the last of them is defined.

    Attributes:
        members: The tiles, in program order.
        axes: Axes of extent 2 of which a block holds both coordinates, apart from its lanes.
    """

    members: list[Value]
    axes: frozenset[int]


@dataclass
class Plan:
    """Decisions about the tensors of a function.

    Attributes:
        stored: Values with a slot in the arena; True if narrow floats are held as f32 there.
        increments: Loop-carried tensors that are their initial value plus uniform increments;
            maps the block argument to the addends of one iteration.
        shares: Values that live in the slot of another value: a yielded value in the slot of the
            carried one or of an `scf.if`'s result, a loop's result in that of the carried one.
        lane_swaps: Operations that swap neighbours along an axis of extent 2, with the tile and
            the axis.
        skipped: Operations that are not computed where they are defined: reductions that only
            serve lane swaps, the operations between those and the swap, and all members of a
            fusion group but the last.
        fusion_groups: Groups of tiles, by the operation that defines the last one.
    """

    stored: dict[Value, bool] = field(default_factory=dict)
    increments: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    shares: dict[Value, Value] = field(default_factory=dict)
    lane_swaps: dict[Operation, tuple[Value, int]] = field(default_factory=dict)
    skipped: set[Operation] = field(default_factory=set)
    fusion_groups: dict[Operation, FusionGroup] = field(default_factory=dict)

    def store(self, value: Value, *, widened: bool = False) -> None:
        """Give a tensor a slot of its own, unless it lives in the slot of another value."""
        if value.is_tensor and value not in self.shares:
            self.stored[value] = self.stored.get(value, True) and widened

    def share(self, value: Value, other: Value) -> None:
        """Place a tensor in the slot of another one, for good; it loses its own slot."""
        assert value not in self.shares, "a value lies in one slot"
        self.stored.pop(value, None)
        self.shares[value] = other

    def owner(self, value: Value) -> Value:
        """Return the value that owns the slot in which a stored value lives."""
        while value in self.shares:
            value = self.shares[value]
        return value

    def is_stored(self, value: Value) -> bool:
        return value in self.stored or value in self.shares
