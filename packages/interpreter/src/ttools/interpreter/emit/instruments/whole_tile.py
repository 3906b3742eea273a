"""Tests of a whole tile of addresses against the bounds of memory, before a loop over its chunks.

If each address is an affine expression of the tile's coordinates, the lowest and the highest
address are at corners of the tile. If the mask compares coordinates with numbers, both are at
corners of the box of coordinates for which these comparisons hold. The box may contain inactive
lanes, but it contains all active ones.

For example, a tile of 1024 elements at `x_ptr + 1000*row + i` with the mask `i < 1000` has the box
[0, 1000), so the addresses between those of elements `1000*row` and `1000*row + 999` are tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.linear_form import Form, FormDomain
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import NOTHING, TRUE, SSAValue, integer
from ttools.interpreter.llvm.value import lanes_of as lanes_of_type
from ttools.ir import Operation, Value, shape_of
from ttools.ir.semantics import (
    Comparison,
    axes_through,
    comparison,
    conjunction,
    lanes_of,
)

_DEPTH = 32
#: For comparisons of `base + coordinate` with 0, by predicate: which end of the coordinates the
#: comparison bounds, and the distance of that end from `-base`. For example, `base + i <= 0` bounds
#: the exclusive end of the coordinates, which is `-base + 1`.
_RISING = {"slt": ("end", 0), "sle": ("end", 1), "sgt": ("first", 1), "sge": ("first", 0)}
#: The same for comparisons of `base - coordinate` with 0; the distance is measured from `base`.
_FALLING = {"slt": ("first", 1), "sle": ("first", 0), "sgt": ("end", 0), "sge": ("end", 1)}


@dataclass
class MaskBox:
    """The box of coordinates of a mask, as i64 values emitted at the builder's current place.

    Attributes:
        linear: Computes affine forms, and collects the guards on which the box depends.
        shape: The shape of the tile.
        firsts: The first active coordinate, at least 0, along each axis that the mask bounds.
        ends: The exclusive end of the active coordinates, at most the extent, along each axis that
            the mask bounds.
        conditions: Values of type i1; if any is false, no lane is active.
        exact: True if all lanes in the box are active.
    """

    linear: FormDomain
    shape: tuple[int, ...]
    firsts: dict[int, SSAValue] = field(default_factory=dict)
    ends: dict[int, SSAValue] = field(default_factory=dict)
    conditions: list[SSAValue] = field(default_factory=list)
    exact: bool = True

    def restrict(self, mask: Value) -> None:
        """Restrict the box by a mask."""
        self._visit(mask, tuple(range(len(self.shape))), 0)

    def first(self, axis: int) -> SSAValue:
        """Return the first coordinate of the box along an axis."""
        return self.firsts.get(axis, integer(0, "i64"))

    def end(self, axis: int) -> SSAValue:
        """Return the exclusive end of the coordinates of the box along an axis."""
        return self.ends.get(axis, integer(self.shape[axis], "i64"))

    def idle(self) -> SSAValue | None:
        """Return an i1 that is set if no lane is active; None if the mask has no condition."""
        b, inactive = self.linear.e.b, None
        for axis in sorted({*self.firsts, *self.ends}):
            none = b.compare("icmp sge", self.first(axis), self.end(axis))
            inactive = none if inactive is None else b.binary("or", inactive, none)
        for condition in self.conditions:
            none = b.binary("xor", condition, TRUE)
            inactive = none if inactive is None else b.binary("or", inactive, none)
        return inactive

    def _visit(self, mask: Value, axes: Sequence[int | None], depth: int) -> None:
        op = mask.defining_op
        if op is None or depth > _DEPTH:
            self.exact = False
        elif conjuncts := conjunction(op):
            for operand in conjuncts:
                self._visit(operand, axes, depth + 1)
        elif lanes_of(mask):
            self._view(mask, op, axes, depth)
        elif op.constant_integers == [1]:
            pass  # the constant mask of atomics admits all lanes
        elif (compared := comparison(op)) is None or not self._compare(compared, axes):
            self.exact = False

    def _view(self, mask: Value, op: Operation, axes: Sequence[int | None], depth: int) -> None:
        """Restrict the box by a mask that is a view of another condition."""
        below = axes_through(mask)
        if below is None:
            self.exact = False
        elif not op.operands[0].is_tensor:
            self._uniform(op.operands[0])
        else:
            own = tuple(None if axis is None else axes[axis] for axis in below)
            self._visit(op.operands[0], own, depth + 1)

    def _uniform(self, scalar: Value) -> None:
        condition = self.linear.e.scalars.get(scalar, NOTHING)
        if condition.startswith("%"):
            self.conditions.append(condition)
        else:
            self.exact = False

    def _compare(self, compared: Comparison, axes: Sequence[int | None]) -> bool:
        """Restrict the box by a comparison; return whether that was possible."""
        linear, (predicate, *operands) = self.linear, compared
        if predicate not in _RISING:
            return False
        guards = list(linear.guards)
        forms = [linear.form(operand) for operand in operands]
        if forms[0] is None or forms[1] is None:
            linear.guards[:] = guards  # the box does not depend on the guards that were added
            return False
        for form, operand in zip(forms, operands, strict=True):
            linear.limit_wide(form, operand)  # type: ignore[arg-type]
        gap = linear.difference(forms[0], forms[1])
        moving = [n for n, step in enumerate(gap.steps) if step != "0"]
        if not moving:
            condition = linear.e.b.compare(f"icmp {predicate}", gap.base, 0)
            self.conditions.append(condition)
            return True
        axis = axes[moving[0]]
        if len(moving) > 1 or axis is None or gap.steps[moving[0]] not in ("1", "-1"):
            return False
        self._bound(axis, gap, gap.steps[moving[0]], predicate)
        return True

    def _bound(self, axis: int, gap: Form, step: SSAValue, predicate: str) -> None:
        e = self.linear.e
        which, more = (_RISING if step == "1" else _FALLING)[predicate]
        end = e.integers.subtract(integer(0, "i64"), gap.base) if step == "1" else gap.base
        end = e.integers.add(end, more)
        if which == "end":
            self.ends[axis] = self.linear.lesser(end, self.end(axis))
        else:
            self.firsts[axis] = self.linear.greater(end, self.first(axis))


@dataclass(frozen=True)
class Hull:
    """The addresses of a tile's active lanes, which are between `start` and `start + span`.

    Attributes:
        start: The lowest address, an i64.
        span: The distance from the lowest to the highest address in bytes, an i64.
        guard: An i1; the hull is valid only if it is set. None if nothing can wrap.
        idle: An i1 that is set if no lane is active, so that the hull is meaningless; None if the
            mask has no condition.
        exact: True if the lanes with the lowest and the highest address are active, unless the
            arithmetic may wrap. If False, the mask may admit fewer lanes than its box.
        form: The affine form of the addresses.
        box: The box of coordinates that the mask admits.
    """

    start: SSAValue
    span: SSAValue
    guard: SSAValue | None
    idle: SSAValue | None
    exact: bool
    form: Form
    box: MaskBox


def tile_hull(e: Emitter, pointer: Value, mask: Value | None) -> Hull | None:
    """Emit the hull of a tile of pointers; None if the tile is not affine.

    The values from which the tile is computed must be defined at the builder's current place.
    """
    linear, shape = FormDomain(e), shape_of(pointer.type)
    form = linear.form(pointer)
    if form is None:
        return None
    box = MaskBox(linear, shape)
    if mask is not None:
        box.restrict(mask)
    start, span = form.base, integer(0, "i64")
    for axis, step in enumerate(form.steps):
        if step == "0":
            continue
        low = e.integers.multiply(step, box.first(axis))
        high = e.integers.multiply(step, e.integers.add(box.end(axis), -1))
        if step.startswith("%"):
            low, high = linear.lesser(low, high), linear.greater(low, high)
        elif int(step) < 0:
            low, high = high, low
        start = e.integers.add(start, low)
        span = e.integers.add(span, e.integers.subtract(high, low))
    guard = None
    for number in dict.fromkeys(linear.guards):
        guard = number if guard is None else e.b.binary("and", guard, number)
    return Hull(start, span, guard, box.idle(), box.exact, form, box)


@dataclass(frozen=True)
class WholeTile:
    """The test of all lanes of an access.

    Attributes:
        inside: An i1 that is set if all active lanes are in bounds.
        exact: True if `inside` is unset only for tiles that have an active lane out of bounds, or
            whose arithmetic may wrap. Such tiles are rare, so the runtime checks all their chunks.
            If False, each chunk of a tile that is not inside is tested first.
        hull: The hull of the active lanes.
        logged: True if the footprint of a tile in bounds is logged with this test.
    """

    inside: SSAValue
    exact: bool
    hull: Hull
    logged: bool = False


def whole_tile(
    e: Emitter, pointer: Value, mask: Value | None, size: int, bounds: tuple[SSAValue, SSAValue]
) -> WholeTile | None:
    """Emit the test of a tile of pointers; None if its hull is unknown.

    Args:
        pointer: The tile of pointers.
        mask: The active lanes; all if None.
        size: Size of an element in bytes.
        bounds: Address and size of the memory that may be accessed.
    """
    b, hull = e.b, tile_hull(e, pointer, mask)
    if hull is None:
        return None
    low, bytes_ = bounds
    shift = size.bit_length() - 1
    capacity = b.binary("lshr", bytes_, shift) if shift else bytes_
    last = b.binary("lshr", hull.span, shift) if shift else hull.span
    capacity = b.overloaded("usub.sat", capacity, last)
    inside = begins_inside(b, hull.start, low, capacity, size)
    if hull.idle is not None:
        inside = b.binary("or", inside, hull.idle)
    if hull.guard is not None:
        inside = b.binary("and", inside, hull.guard)
    return WholeTile(inside, hull.exact, hull)


def begins_inside(
    b: Builder, start: SSAValue, low: SSAValue, capacity: SSAValue, size: int
) -> SSAValue:
    """Emit a test that addresses are aligned and less than `capacity` elements above `low`.

    Args:
        start: The addresses, as i64 lanes.
        low: The lowest address, an i64.
        capacity: A number of elements, an i64.
        size: Size of an element in bytes.
    """
    width, shift = lanes_of_type(start.type), size.bit_length() - 1
    index = b.binary("sub", start, b.splat(low, width))
    if shift:
        # Rotate the offset instead of shifting it. This moves the low bits of a misaligned offset
        # to the top, so that the result exceeds any capacity.
        by = b.splat(integer(64 - shift, "i64"), width)
        index = b.overloaded("fshl", index, index, by)
    return b.compare("icmp ult", index, b.splat(capacity, width))
