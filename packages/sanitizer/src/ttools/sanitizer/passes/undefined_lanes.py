"""Rules by which undefined lanes arise and propagate, behind the pass `undefined`.

A source is a masked load without `other`, a masked atomic, or memory that may never have been
written. Each source has its own shadow in every value that it reaches, so that a finding can name
it. A worked example:

    m = i < n
    x = tl.load(p + i, mask=m)     # source S: lanes outside of m are undefined
    y = x * 2                      # S: the same lanes; no longer a copy of memory
    z = tl.where(m, y, 0)          # nothing: the condition implies m, so y is taken where defined
    c = x > 0                      # S: undefined condition
    j = tl.where(c, 3, 4)          # Decided(S): defined, 3 or 4, but which is undefined
    tl.store(q + i, y)             # a defect: the store has no mask that implies m

`Decided` is a separate key, because its lanes hold one of several defined values: an index such as
`j` cannot be arbitrary, so loading through it is not a defect by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from ttools.interpreter.analysis.lane_swap import swapped_lanes
from ttools.ir import (
    Block,
    IntegerType,
    Operation,
    Type,
    Value,
    element_type,
    shape_of,
)
from ttools.ir.dialects.traits import CAST, CONDITIONAL, FUNCTION, GATHERS, LOADS, SELECTS
from ttools.ir.rewriting import BOOLEAN, Builder
from ttools.ir.semantics import conjunction, is_view, logic
from ttools.sanitizer.analysis.dataflow import constant_of, holder_of, is_access, is_read
from ttools.sanitizer.passes.implication import MovedMask, implies
from ttools.sanitizer.passes.lanes import (
    is_lanewise,
    lane_builder,
    lane_type,
    outside,
    swapped,
    unmarked,
    within,
)
from ttools.sanitizer.passes.shadow_memory import Shadows
from ttools.sanitizer.passes.tracking import Demand, Key, Lookup, State

#: Position of the operand that only selects one of the other operands or one of their elements.
_DECIDING = {"arith.select": 0, "tt.gather": 1}


SourceKind: TypeAlias = Literal["masked", "unpadded", "memory", "behind", "gathered"]
#: The kinds of sources whose undefined lanes are those that an access leaves out.
LEFT_OUT: frozenset[SourceKind] = frozenset({"masked", "unpadded"})


@dataclass(frozen=True, eq=False)
class Source:
    """An origin of undefined lanes.

    Attributes:
        op: The load, atomic or gather.
        kind: `masked` for lanes that a mask excludes; `unpadded` for lanes of a block pointer
            without padding; `memory` for memory that was never written; `behind` for such memory
            behind a pointer that does not derive from a parameter; `gathered` for lanes gathered
            from beyond an axis.
        argument: Index of the parameter that is read, or -1.
        mask: If the source consists of excluded lanes, the mask within which lanes are defined.
    """

    op: Operation
    kind: SourceKind
    argument: int
    mask: Value | None = None


@dataclass(frozen=True)
class Decided:
    """The key of lanes that hold one of several defined values, chosen by an undefined lane.

    Attributes:
        source: The origin of the undefined lane.
    """

    source: Source


@dataclass(frozen=True)
class Mark:
    """Facts about a source's undefined lanes in a value.

    Attributes:
        mask: Lanes that this mask sets are defined; None if no mask is known.
        copied: True if the lanes hold the contents of memory, unchanged.
    """

    mask: MovedMask | None
    copied: bool


UNMARKED = Mark(None, False)


def mask_of(op: Operation) -> Value | None:
    """Return the mask of an access; None if it has no mask or a mask that is always true."""
    mask = op.mask if is_access(op) else None
    data = None if mask is None else constant_of(mask)
    return None if data is not None and data.is_splat and data.bits[0] else mask


def leaves_lanes_undefined(op: Operation) -> bool:
    """Return whether the mask of a load or atomic leaves lanes of its result undefined."""
    fills = op.has(LOADS) and len(op.operands) > 2
    return is_read(op) and mask_of(op) is not None and bool(op.results) and not fills


def may_leave_axis(op: Operation) -> bool:
    """Return whether an operation gathers with indices wide enough to leave the axis."""
    if not op.has(GATHERS):
        return False
    source, indices = op.operands
    element = element_type(indices.type)
    assert isinstance(element, IntegerType)
    return shape_of(source.type)[op.axis] < 1 << element.width


def _beyond_axis(b: Builder, op: Operation) -> Value:
    """Build the condition that an index is negative or beyond the axis of a gather."""
    source, indices = op.operands
    extent = shape_of(source.type)[op.axis]
    return b.compare("uge", indices, b.constant(indices.type, extent))


class UndefinedLanes:
    """The rules by which undefined lanes propagate.

    Args:
        sources: The sources of undefined lanes at each access or gather.
        memories: The shadow memories that each access may read or write.
    """

    def __init__(
        self,
        sources: Mapping[Operation, list[Source]] = MappingProxyType({}),
        memories: Mapping[Operation, list[Shadows]] = MappingProxyType({}),
    ) -> None:
        self._sources, self._memories = sources, memories

    # ---- what may reach a value
    def transfer(self, op: Operation, index: int, lookup: Lookup) -> State:
        state: dict[Key, Mark] = {}
        for source in self._sources.get(op, ()):
            mask = MovedMask(source.mask) if source.mask is not None else None
            state[source] = Mark(mask, copied=source.kind != "gathered")
        swaps = swapped_lanes(op) is not None
        for position, value in self._flowing(op):
            for key, mark in lookup.state(value).items():
                assert isinstance(mark, Mark)
                after = _key_after(op, position, key)
                if after is not None and not self._is_discarded(op, value, mark):
                    new = self._weakened(op, position, mark, swaps)
                    state[after] = self.join(state[after], new) if after in state else new
        return state

    def _flowing(self, op: Operation) -> list[tuple[int, Value]]:
        """Return the operands whose lanes reach the results, with their positions."""
        operands = list(enumerate(op.operands))
        if op.has(LOADS):
            return operands
        if is_read(op) or lane_builder(op) is None:
            return []
        swap = swapped_lanes(op)
        return operands if swap is None else [(0, swap[0])]

    def _is_discarded(self, op: Operation, value: Value, mark: Mark) -> bool:
        """Return whether masks show that no undefined lane of an operand reaches the result."""
        if mark.mask is None:
            return False
        if op.has(SELECTS) and value is op.operands[1]:
            return value is not op.operands[2] and implies(op.operands[0], mark.mask)
        if conjunction(op):
            others = [v for v in op.operands if v is not value]
            return any(implies(v, mark.mask) for v in others)
        return False

    def _weakened(self, op: Operation, position: int, mark: Mark, swaps: bool) -> Mark:
        if swaps:
            return Mark(None, mark.copied)
        value = op.operands[position]
        fills = op.has(LOADS) and position > 1
        copied = mark.copied and (_copies(op) or fills)
        copied &= _DECIDING.get(op.name) != position
        if mark.mask is None or is_lanewise(op) or op.has(LOADS):
            return Mark(mark.mask, copied)
        if is_view(op) and len(op.operands) == 1 and value.is_tensor and len(op.results) == 1:
            return Mark(mark.mask.through(op.results[0]), copied)
        return Mark(None, copied)

    def join(self, first: object, second: object) -> Mark:
        assert isinstance(first, Mark)
        assert isinstance(second, Mark)
        mask = first.mask if first.mask == second.mask else None
        return Mark(mask, first.copied and second.copied)

    def moved(self, target: Value, state: State) -> State:
        """Drop the masks that may have different values in another iteration."""
        moved: dict[Key, Mark] = {}
        for key, mark in state.items():
            assert isinstance(mark, Mark)
            mask = mark.mask if mark.mask is not None and _outlives(target, mark.mask) else None
            moved[key] = Mark(mask, mark.copied)
        return moved

    # ---- shadows
    def depends(self, op: Operation, index: int, key: Key, lookup: Lookup) -> Iterator[Demand]:
        flowing = self._flowing(op)
        for position, value in flowing:
            for before in _keys_before(op, position, key, lookup.state(value)):
                yield value, before
                if _is_absorbing(op):
                    others = [v for _, v in flowing if v is not value]
                    yield from ((v, k) for v in others for k in lookup.state(v))

    def build(self, b: Builder, op: Operation, index: int, key: Key, lookup: Lookup) -> Value:
        if is_read(op):
            return self._build_access(b, op, key, lookup)
        parts = [self._part(b, op, position, key, lookup) for position in range(len(op.operands))]
        if _is_absorbing(op):
            return self._build_logic(b, op, parts, lookup)
        swap = swapped_lanes(op)
        if swap is not None:
            return swapped(b, lookup.shadow(swap[0], key), swap[1])
        make = lane_builder(op)
        assert make is not None
        if isinstance(key, Source) and key.op is op:
            beyond = _beyond_axis(b, op)
            return (
                b.any_of([beyond, make(b, op, index, parts)])
                if any(part is not None for part in parts)
                else beyond
            )
        return make(b, op, index, parts)

    def _build_access(self, b: Builder, op: Operation, key: Key, lookup: Lookup) -> Value:
        mask = mask_of(op)
        lanes: list[Value] = []
        if op.has(LOADS):
            lanes += self._chosen(b, op, mask, key, lookup)
        if not isinstance(key, Source):
            return b.any_of(lanes)
        if key.op is op and key.kind in LEFT_OUT:
            assert mask is not None
            lanes.append(b.negate(mask))
        elif key.op is op:
            lanes += [m.load(b, op.operands[0], mask) for m in self._memories[op]]
        return b.any_of(lanes)

    def _comes_through(self, op: Operation, key: Key, lookup: Lookup) -> bool:
        """Return whether the shadow of an operand is passed on to the results."""
        return any(
            lookup.shadow(value, before) is not None
            for position, value in self._flowing(op)
            for before in _keys_before(op, position, key, lookup.state(value))
        )

    def _chosen(
        self, b: Builder, op: Operation, mask: Value | None, key: Key, lookup: Lookup
    ) -> Iterator[Value]:
        """Yield the lanes of a load that are undefined because of its address, mask or `other`."""
        parts = [self._part(b, op, position, key, lookup) for position in range(len(op.operands))]
        address, decides, fills = [*parts, None, None][:3]
        if address is not None:
            yield within(b, address, mask)
        if decides is not None:
            yield decides
        if fills is not None:
            yield outside(b, fills, mask)

    def _part(
        self, b: Builder, op: Operation, position: int, key: Key, lookup: Lookup
    ) -> Value | None:
        """Return the lanes of an operand that result in the shadow `key` of the results."""
        value = op.operands[position]
        keys = _keys_before(op, position, key, lookup.state(value))
        shadows = [s for k in keys if (s := lookup.shadow(value, k)) is not None]
        return b.any_of(shadows) if shadows else None

    def _build_logic(
        self, b: Builder, op: Operation, parts: list[Value | None], lookup: Lookup
    ) -> Value:
        """Build the mask of undefined lanes of a result that either operand alone may determine.

        `x & y` and `x * y` are defined where either operand is defined and zero; `x | y` is defined
        where either operand is defined and true.
        """
        lanes = []
        for part, other in zip(parts, reversed(op.operands), strict=True):
            if part is None:
                continue
            undecided = [b.negate(other) if _is_disjunction(op) else _is_set(b, other)]
            marks = (lookup.shadow(other, key) for key in lookup.state(other))
            undecided += [marked for marked in marks if marked is not None]
            lanes.append(b.binary("andi", part, b.any_of(undecided)))
        return b.any_of(lanes)

    def shadow_type(self, value: Value, key: Key) -> Type:
        return lane_type(value)

    def default(self, b: Builder, value: Value, key: Key) -> Value:
        return unmarked(b, value)


def _key_after(op: Operation, position: int, key: Key) -> Key | None:
    """Return what an operand's key becomes in the results; None if it is not passed on."""
    if op.has(LOADS) and position < 2:
        return key if isinstance(key, Decided) else None
    if isinstance(key, Source) and _DECIDING.get(op.name) == position:
        return Decided(key)
    return key


def _keys_before(op: Operation, position: int, key: Key, state: State) -> list[Key]:
    """Return the keys of an operand that become `key`, without searching all of them."""
    candidates = (key, key.source) if isinstance(key, Decided) else (key,)
    return [k for k in candidates if k in state and _key_after(op, position, k) == key]


def _is_absorbing(op: Operation) -> bool:
    """Return whether one operand may determine the result regardless of the other operand."""
    if op.name == "arith.andi" or _is_disjunction(op):
        return True
    # A float times zero may be NaN.
    is_product = len(op.operands) == 2 and op.declaration.noun == "product"
    return is_product and isinstance(element_type(op.result.type), IntegerType)


def _is_set(b: Builder, value: Value) -> Value:
    """Build the condition that an integer is not zero."""
    if element_type(value.type) == BOOLEAN:
        return value
    return b.compare("ne", value, b.constant(value.type, 0))


def _is_disjunction(op: Operation) -> bool:
    made = logic(op)
    return made is not None and made.kind == "or"


def _outlives(target: Value, mask: MovedMask) -> bool:
    """Return whether a mask keeps its value while control flow passes a value to `target`."""
    parent = holder_of(target.owner) if isinstance(target.owner, Block) else target.owner
    if parent is None or parent.has(FUNCTION):
        return False
    if parent.has(CONDITIONAL):
        return True
    return not _is_inside(mask.mask, parent)


def _is_inside(value: Value, op: Operation) -> bool:
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None and (holder := holder_of(block)) is not None:
        if holder is op:
            return True
        block = holder.parent
    return False


def _copies(op: Operation) -> bool:
    """Return whether an operation returns its operand unchanged, except for the type."""
    return is_view(op) or op.has(CAST, GATHERS, SELECTS)
