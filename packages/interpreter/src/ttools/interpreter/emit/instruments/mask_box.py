"""The box of coordinates that a mask admits, as far as its comparisons with numbers say.

The box may be larger than the set of active lanes, but is never smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ttools.interpreter.emit.instruments.linear_form import Form, FormDomain
from ttools.interpreter.llvm.value import NOTHING, TRUE, SSAValue, integer
from ttools.ir import Operation, Value
from ttools.ir.semantics import (
    Comparison,
    axes_through,
    comparison,
    conjunction,
    lanes_of,
)

_DEPTH = 32
#: For comparisons of `base + coordinate` with 0, by predicate: which end of the coordinates it
#: bounds, and the distance of that end from `-base`.
_RISING = {"slt": ("end", 0), "sle": ("end", 1), "sgt": ("first", 1), "sge": ("first", 0)}
#: The same for `base - coordinate`, with the distance from `base`.
_FALLING = {"slt": ("first", 1), "sle": ("first", 0), "sgt": ("end", 0), "sge": ("end", 1)}


@dataclass
class MaskBox:
    """The box of a mask, as i64 values that are emitted at the builder's current place.

    Attributes:
        linear: Receives the guards that the box depends on.
        shape: The shape of the tile.
        firsts: The lowest active coordinate of axes that a mask bounds; at least 0.
        ends: The end of the active coordinates; at most the extent.
        conditions: i1 values; if any is false, no lane is active.
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
        """Return the lowest coordinate along an axis."""
        return self.firsts.get(axis, integer(0, "i64"))

    def end(self, axis: int) -> SSAValue:
        """Return the end of the coordinates along an axis."""
        return self.ends.get(axis, integer(self.shape[axis], "i64"))

    def idle(self) -> SSAValue | None:
        """Return an i1 that is set if no lane is active; None if that is never known."""
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
        """Restrict the box by the mask that a view moves."""
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
            linear.guards[:] = guards  # the box does not depend on the new ones
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
