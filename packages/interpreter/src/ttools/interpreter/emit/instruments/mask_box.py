"""Between which coordinates a mask lets lanes through, as far as comparisons with numbers tell.

The box that is found may be larger than what the mask lets through, and never smaller. Must not
know what the lanes do.
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
#: By predicate, for `base + coordinate` compared with 0: which end of the coordinates it tells, and
#: how far from `-base` the end lies.
_RISING = {"slt": ("end", 0), "sle": ("end", 1), "sgt": ("first", 1), "sge": ("first", 0)}
#: The same of `base - coordinate` and `base`.
_FALLING = {"slt": ("first", 1), "sle": ("first", 0), "sgt": ("end", 0), "sge": ("end", 1)}


@dataclass
class MaskBox:
    """The box of a mask, as i64 values emitted where the builder stands.

    Attributes:
        linear: gets the guards that the box depends on.
        shape: of the tile.
        firsts: lowest coordinates by axis, where a mask tells them; not below 0.
        ends: the coordinates past the highest; not beyond the extent.
        conditions: i1 values without any of which no lane is active.
        exact: the mask lets everything in the box through.
    """

    linear: FormDomain
    shape: tuple[int, ...]
    firsts: dict[int, SSAValue] = field(default_factory=dict)
    ends: dict[int, SSAValue] = field(default_factory=dict)
    conditions: list[SSAValue] = field(default_factory=list)
    exact: bool = True

    def restrict(self, mask: Value) -> None:
        """Takes a mask into account."""
        self._visit(mask, tuple(range(len(self.shape))), 0)

    def first(self, axis: int) -> SSAValue:
        """The lowest coordinate along an axis."""
        return self.firsts.get(axis, integer(0, "i64"))

    def end(self, axis: int) -> SSAValue:
        """The coordinate past the highest along an axis."""
        return self.ends.get(axis, integer(self.shape[axis], "i64"))

    def idle(self) -> SSAValue | None:
        """An i1: no lane is active; None if that is not known of any."""
        b, found = self.linear.e.b, None
        for axis in sorted({*self.firsts, *self.ends}):
            none = b.compare("icmp sge", self.first(axis), self.end(axis))
            found = none if found is None else b.binary("or", found, none)
        for condition in self.conditions:
            none = b.binary("xor", condition, TRUE)
            found = none if found is None else b.binary("or", found, none)
        return found

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
            pass  # atomics have a mask that lets everything through
        elif (compared := comparison(op)) is None or not self._compare(compared, axes):
            self.exact = False

    def _view(self, mask: Value, op: Operation, axes: Sequence[int | None], depth: int) -> None:
        """Takes the mask that a view moves into account."""
        below = axes_through(mask)
        if below is None:
            self.exact = False
        elif not op.operands[0].is_tensor:
            self._uniform(op.operands[0])
        else:
            own = tuple(None if axis is None else axes[axis] for axis in below)
            self._visit(op.operands[0], own, depth + 1)

    def _uniform(self, scalar: Value) -> None:
        known = self.linear.e.scalars.get(scalar, NOTHING)
        if known.startswith("%"):
            self.conditions.append(known)
        else:
            self.exact = False

    def _compare(self, compared: Comparison, axes: Sequence[int | None]) -> bool:
        """Takes a comparison into account; returns whether it could be."""
        linear, (predicate, *operands) = self.linear, compared
        if predicate not in _RISING:
            return False
        guards = list(linear.guards)
        forms = [linear.form(operand) for operand in operands]
        if forms[0] is None or forms[1] is None:
            linear.guards[:] = guards  # nothing depends on them
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
