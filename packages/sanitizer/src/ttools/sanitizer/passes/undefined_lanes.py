"""How undefined lanes come into being and spread: the rules behind `undefined`.

A source is a masked load without `other`, a masked atomic, or memory that may never have been
written. Each has a shadow of its own for every value that it reaches, so that a finding can name
it. What an undefined lane only chooses, as `tl.where` does, is one of several defined values: that
has a shadow apart, because such an index is no wild one. Must not know where undefined lanes
matter.
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
from ttools.ir.dialects import declared
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
from ttools.sanitizer.passes.tracking import Demand, Key, Known, State

#: Operand positions whose lanes decide rather than flow.
_DECIDING = {"arith.select": 0, "tt.gather": 1}


SourceKind: TypeAlias = Literal["masked", "unpadded", "memory", "behind", "gathered"]
#: Of lanes that an access does not make.
LEFT_OUT: frozenset[SourceKind] = frozenset({"masked", "unpadded"})


@dataclass(frozen=True, eq=False)
class Source:
    """Where undefined lanes come from.

    Attributes:
        op: the load, atomic or gather.
        kind: `masked` lanes, or `unpadded` ones of a block pointer, or `memory` that was never
            written, also `behind` a pointer that derives from no parameter; or lanes `gathered`
            from beyond an axis.
        argument: index of the parameter it reads, -1 if unknown.
        mask: of lanes that are left out: those with it are defined.
    """

    op: Operation
    kind: SourceKind
    argument: int
    mask: Value | None = None


@dataclass(frozen=True)
class Decided:
    """Lanes that hold one of several values, which of them an undefined lane decides.

    Attributes:
        source: where the undefined lane comes from.
    """

    source: Source


@dataclass(frozen=True)
class Mark:
    """What is known of a source's undefined lanes in a value.

    Attributes:
        mask: lanes with this mask are defined; None if that is not known.
        copied: the lanes hold what memory held, not something computed from it.
    """

    mask: MovedMask | None
    copied: bool


UNMARKED = Mark(None, False)


def mask_of(op: Operation) -> Value | None:
    """The mask of an access, None if it has none or one that is always true."""
    mask = op.mask if is_access(op) else None
    data = None if mask is None else constant_of(mask)
    return None if data is not None and data.is_splat and data.bits[0] else mask


def may_leave_axis(op: Operation) -> bool:
    """Whether an operation gathers, and its indices have bits enough to leave the axis."""
    if not op.has(GATHERS):
        return False
    source, indices = op.operands
    element = element_type(indices.type)
    assert isinstance(element, IntegerType)
    return shape_of(source.type)[op.axis] < 1 << element.width


def _beyond_axis(b: Builder, op: Operation) -> Value:
    """Where an index is negative or beyond the axis of what is gathered from."""
    source, indices = op.operands
    extent = shape_of(source.type)[op.axis]
    return b.compare("uge", indices, b.constant(indices.type, extent))


class UndefinedLanes:
    """The rules of tracking undefined lanes.

    Args:
        sources: of each access that is one.
        memories: of each access, the shadow memories that it may read.
    """

    def __init__(
        self,
        sources: Mapping[Operation, list[Source]] = MappingProxyType({}),
        memories: Mapping[Operation, list[Shadows]] = MappingProxyType({}),
    ) -> None:
        self._sources, self._memories = sources, memories

    # ---- what may reach a value
    def transfer(self, op: Operation, index: int, known: Known) -> State:
        found: dict[Key, Mark] = {}
        for source in self._sources.get(op, ()):
            mask = MovedMask(source.mask) if source.mask is not None else None
            found[source] = Mark(mask, copied=source.kind != "gathered")
        swaps = swapped_lanes(op) is not None
        for position, value in self._flowing(op):
            for key, mark in known.state(value).items():
                assert isinstance(mark, Mark)
                after = _key_after(op, position, key)
                if after is not None and not self._is_discarded(op, value, mark):
                    new = self._weakened(op, position, mark, swaps)
                    found[after] = self.join(found[after], new) if after in found else new
        return found

    def _flowing(self, op: Operation) -> list[tuple[int, Value]]:
        """The operands whose lanes reach the results, each with its position."""
        operands = list(enumerate(op.operands))
        if op.has(LOADS):
            return operands
        if is_read(op) or lane_builder(op) is None:
            return []
        swap = swapped_lanes(op)
        return operands if swap is None else [(0, swap[0])]

    def _is_discarded(self, op: Operation, value: Value, mark: Mark) -> bool:
        """Whether no undefined lane of an operand can reach the result, by the masks alone."""
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
        """A mask says nothing of the lanes of another iteration."""
        moved: dict[Key, Mark] = {}
        for key, mark in state.items():
            assert isinstance(mark, Mark)
            mask = mark.mask if mark.mask is not None and _outlives(target, mark.mask) else None
            moved[key] = Mark(mask, mark.copied)
        return moved

    # ---- shadows
    def depends(self, op: Operation, index: int, key: Key, known: Known) -> Iterator[Demand]:
        flowing = self._flowing(op)
        for position, value in flowing:
            for before in _keys_before(op, position, key, known.state(value)):
                yield value, before
                if _is_absorbing(op):
                    others = [v for _, v in flowing if v is not value]
                    yield from ((v, k) for v in others for k in known.state(v))

    def build(self, b: Builder, op: Operation, index: int, key: Key, known: Known) -> Value:
        if is_read(op):
            return self._build_access(b, op, key, known)
        parts = [self._part(b, op, position, key, known) for position in range(len(op.operands))]
        if _is_absorbing(op):
            return self._build_logic(b, op, parts, known)
        swap = swapped_lanes(op)
        if swap is not None:
            return swapped(b, known.shadow(swap[0], key), swap[1])
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

    def _build_access(self, b: Builder, op: Operation, key: Key, known: Known) -> Value:
        mask = mask_of(op)
        found: list[Value] = []
        if op.has(LOADS):
            found += self._chosen(b, op, mask, key, known)
        if not isinstance(key, Source):
            return b.any_of(found)
        if key.op is op and key.kind in LEFT_OUT:
            assert mask is not None
            found.append(b.negate(mask))
        elif key.op is op:
            found += [m.load(b, op.operands[0], mask) for m in self._memories[op]]
        return b.any_of(found)

    def _comes_through(self, op: Operation, key: Key, known: Known) -> bool:
        """Whether an operand has a shadow that the results inherit."""
        return any(
            known.shadow(value, before) is not None
            for position, value in self._flowing(op)
            for before in _keys_before(op, position, key, known.state(value))
        )

    def _chosen(
        self, b: Builder, op: Operation, mask: Value | None, key: Key, known: Known
    ) -> Iterator[Value]:
        """Lanes of a load by those of its operands: the address, its mask, what fills the rest."""
        parts = [self._part(b, op, position, key, known) for position in range(len(op.operands))]
        address, decides, fills = [*parts, None, None][:3]
        if address is not None:
            yield within(b, address, mask)
        if decides is not None:
            yield decides
        if fills is not None:
            yield outside(b, fills, mask)

    def _part(
        self, b: Builder, op: Operation, position: int, key: Key, known: Known
    ) -> Value | None:
        """The lanes of an operand that give its results this key."""
        value = op.operands[position]
        keys = _keys_before(op, position, key, known.state(value))
        found = [s for k in keys if (s := known.shadow(value, k)) is not None]
        return b.any_of(found) if found else None

    def _build_logic(
        self, b: Builder, op: Operation, parts: list[Value | None], known: Known
    ) -> Value:
        """`x & y` and `x * y` are defined where either is defined and zero, `x | y` where true."""
        found = []
        for part, other in zip(parts, reversed(op.operands), strict=True):
            if part is None:
                continue
            undecided = [b.negate(other) if _is_disjunction(op) else _is_set(b, other)]
            marks = (known.shadow(other, key) for key in known.state(other))
            undecided += [marked for marked in marks if marked is not None]
            found.append(b.binary("andi", part, b.any_of(undecided)))
        return b.any_of(found)

    def shadow_type(self, value: Value, key: Key) -> Type:
        return lane_type(value)

    def default(self, b: Builder, value: Value, key: Key) -> Value:
        return unmarked(b, value)


def _key_after(op: Operation, position: int, key: Key) -> Key | None:
    """What becomes of a key of an operand: what follows it in the results; None if nothing."""
    if op.has(LOADS) and position < 2:
        return key if isinstance(key, Decided) else None
    if isinstance(key, Source) and _DECIDING.get(op.name) == position:
        return Decided(key)
    return key


def _keys_before(op: Operation, position: int, key: Key, state: State) -> list[Key]:
    """The keys of an operand that become `key`; not looked for among all, which may be many."""
    candidates = (key, key.source) if isinstance(key, Decided) else (key,)
    return [k for k in candidates if k in state and _key_after(op, position, k) == key]


def _is_absorbing(op: Operation) -> bool:
    """Whether one operand may decide the result, whatever the other one is."""
    if op.name == "arith.andi" or _is_disjunction(op):
        return True
    # A float times zero may be NaN.
    is_product = len(op.operands) == 2 and declared(op.name).noun == "product"
    return is_product and isinstance(element_type(op.result.type), IntegerType)


def _is_set(b: Builder, value: Value) -> Value:
    """Where an integer is not zero."""
    if element_type(value.type) == BOOLEAN:
        return value
    return b.compare("ne", value, b.constant(value.type, 0))


def _is_disjunction(op: Operation) -> bool:
    made = logic(op)
    return made is not None and made.kind == "or"


def _outlives(target: Value, mask: MovedMask) -> bool:
    """Whether a mask has one value for as long as control flow moves something to `target`."""
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
    """Return whether an operation hands on a value, at most in another type."""
    return is_view(op) or op.has(CAST, GATHERS, SELECTS)
