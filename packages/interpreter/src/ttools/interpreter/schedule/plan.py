"""What is decided of a function's tensors before anything is emitted; see `schedule`.

Plain data. Must not know how it is decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ttools.ir import Operation, Value


@dataclass
class FusionGroup:
    """Tiles of one shape that are computed together, where the last of them is defined.

    Attributes:
        members: in the order of the program.
        axes: of extent 2, along which a block holds both coordinates, apart from its lanes.
    """

    members: list[Value]
    axes: frozenset[int]


@dataclass
class Plan:
    """Decisions about tensor values.

    Attributes:
        stored: values with a slot in the arena; True when narrow floats are held as f32 there.
        increments: loop-carried tensors that are their initial value plus uniform increments;
            maps the block argument to the addends of one iteration.
        shares: values stored in the slot of another one (a yielded value in the slot of the
            carried one or of an `scf.if`'s result, a loop's result in that of the carried one).
        lane_swaps: operations that swap neighbours along an axis of extent 2, with the tile and
            the axis.
        skipped: what is not computed where it is defined: reductions that only
            served lane swaps, what led from them there, and members of a group but the last.
        fusion_groups: tiles that are computed together, by the operation that defines the last.
    """

    stored: dict[Value, bool] = field(default_factory=dict)
    increments: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    shares: dict[Value, Value] = field(default_factory=dict)
    lane_swaps: dict[Operation, tuple[Value, int]] = field(default_factory=dict)
    skipped: set[Operation] = field(default_factory=set)
    fusion_groups: dict[Operation, FusionGroup] = field(default_factory=dict)

    def store(self, value: Value, *, widened: bool = False) -> None:
        """Gives a tensor a slot of its own, unless it lies in another's already."""
        if value.is_tensor and value not in self.shares:
            self.stored[value] = self.stored.get(value, True) and widened

    def share(self, value: Value, other: Value) -> None:
        """Has a tensor lie in the slot of another one, for good, and have none of its own."""
        assert value not in self.shares, "a value lies in one slot"
        self.stored.pop(value, None)
        self.shares[value] = other

    def owner(self, value: Value) -> Value:
        """The value that owns the slot in which a stored one lies."""
        while value in self.shares:
            value = self.shares[value]
        return value

    def is_stored(self, value: Value) -> bool:
        return value in self.stored or value in self.shares
