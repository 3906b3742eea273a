"""Runs a kernel's integers at one size, for chosen programs, without memory.

Owns control flow, accesses and what is found in them; what single operations compute is the
business of `operations`. Programs are computed side by side as NumPy arrays, with machine integers
that wrap. What depends on data that nobody knows is left out, so that a finding is certain. Must
not know how sizes are chosen, nor what is proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

import ttools.sanitizer.sizes.concrete.lower  # noqa: F401 - registers the rules
from ttools.interpreter.dialects.traits import READS, WRITES
from ttools.interpreter.ir import (
    Block,
    IntegerType,
    Operation,
    PointerType,
    Value,
    element_type,
)
from ttools.interpreter.ir.expr import Expr, evaluate
from ttools.sanitizer.sizes.attributes import width_of
from ttools.sanitizer.sizes.concrete import operations
from ttools.sanitizer.sizes.concrete.accesses import Accesses
from ttools.sanitizer.sizes.concrete.lanes import (
    Lanes,
    hashed,
    hidden,
    integers,
    select,
)
from ttools.sanitizer.sizes.concrete.state import Bools, Outcome
from ttools.sanitizer.sizes.host.launches import Memory
from ttools.sanitizer.sizes.host.paths import NotModelledError
from ttools.sanitizer.sizes.lower.control import goes_on

_MOST_ITERATIONS = 96
#: Iterations at the begin and end of a loop that is longer.
_AT_ENDS = 6


#: What is added to a carried value in each iteration, and by what.
_Step: TypeAlias = "tuple[Value, Operation]"


class ConcreteRun(Accesses):
    """One launch at one size; see `State`."""

    _iterations = 0

    def run(self) -> Outcome:
        if not len(self.programs):
            return self.outcome
        entry = self._module.kernel.regions[0].entry
        for n, value in enumerate(entry.arguments):
            self._values[value] = self._argument(n, value)
        with np.errstate(all="ignore"):
            self._function(entry)
            self._races()
        return self.outcome

    def _argument(self, n: int, value: Value) -> Lanes:
        given = self.launch.arguments[n] if n < len(self.launch.arguments) else None
        kind = element_type(value.type)
        if isinstance(given, Memory):
            return Lanes(np.zeros(self.count, np.int64), base=n)
        if isinstance(given, Expr):
            number = evaluate(given, self._sizes)
            if isinstance(kind, IntegerType) and kind.width == 1:
                return Lanes(np.full(self.count, bool(number)))
            return integers(np.full(self.count, number, np.int64))
        return Lanes(np.full(self.count, hashed("argument", n), np.uint64))

    # ---- control
    def _function(self, block: Block) -> None:
        before, last = self._active, self._block(block)
        if not goes_on(self, last):
            raise NotModelledError(f"`{last.name}` of the kernel")
        self._active = before

    def enter(self, last: Operation) -> None:
        """Goes on in the block of a branch."""
        ((target, values),) = last.successors
        self._enter(target, values, self._active)

    def enter_either(self, last: Operation) -> None:
        """Goes on in both blocks of a conditional branch, each with its programs."""
        condition, before = self.get(last.operands[0]), self._active
        chosen = np.asarray(condition.data, bool)
        known = self._known(condition, last)
        for (target, values), taken in zip(last.successors, (chosen, ~chosen), strict=True):
            self._enter(target, values, before & taken & known)

    def _enter(self, target: Block, values: Sequence[Value], active: Bools) -> None:
        if not active.any():
            return
        self._iterations += 1
        if self._iterations > 4096:
            self.outcome.whole = False
            return
        self._active = active
        for argument, value in zip(target.arguments, values, strict=True):
            self._values[argument] = self.get(value)
        self._function(target)

    def _block(self, block: Block) -> Operation:
        for op in block.operations[:-1]:
            if goes_on(self, op):
                continue
            if op.has(READS, WRITES):
                self._access(op)
            else:
                for result, value in zip(op.results, operations.evaluate(self, op), strict=True):
                    self._values[result] = value
        return block.terminator

    def branch(self, op: Operation) -> None:
        condition = self.get(op.operands[0])
        known, before = self._known(condition, op), self._active
        chosen = np.asarray(condition.data, bool)
        outcomes = []
        for region, taken in zip(op.regions, (chosen, ~chosen), strict=False):
            if not region.blocks:
                continue
            self._active = before & taken & known
            last = self._block(region.entry)
            outcomes.append([self.get(v) for v in last.operands])
        self._active = before
        for n, result in enumerate(op.results):
            one, other = outcomes[0][n], outcomes[1][n]
            self._values[result] = select(condition, one, other)

    def counted_loop(self, op: Operation) -> None:
        if op.attributes.get("unsignedCmp"):
            raise NotModelledError("a loop over unsigned integers")
        lower, upper, step = (self.get(v) for v in op.operands[:3])
        body = op.regions[0].entry
        counter, *arguments = body.arguments
        carried = [self.get(v) for v in op.operands[3:]]
        unknown = [v.unknown for v in (lower, upper, step) if v.unknown is not None]
        before = self._active
        active = before.copy()
        for each in unknown:
            if (each & active).any():
                self._unsure(op)
            active &= ~each
        first, last, by = lower.data, upper.data, np.maximum(step.data, 1)
        if ((step.data < 1) & active).any():
            self._unsure(op)
            active &= step.data >= 1
        trips = np.where(last > first, (last - first + by - 1) // by, 0)
        most = int(trips[active].max()) if active.any() else 0
        width = getattr(element_type(counter.type), "width", 64)
        top = (1 << (width - 1)) - 1 if width < 64 else None
        if top is not None:
            stepped = first + trips * by
            wraps = active & (trips > 0) & (stepped > top)
            if wraps.any():
                self._event("int_overflow", op, wraps, np.zeros(self.count, np.int64), -1)
                active &= ~wraps
        k, cut = 0, before & ~active
        while k < most:
            running = active & (trips > k)
            if k == _AT_ENDS and most > _MOST_ITERATIONS:
                self.outcome.whole = False
                growth = self._growth(op, zip(arguments, body.terminator.operands, strict=True))
                jump = most - _AT_ENDS - k
                self._grow(carried, growth, np.clip(trips - k, 0, jump))
                k += jump
                running = active & (trips > k)
            self._iterations += 1
            if self._iterations > 20_000:
                self.outcome.whole = False
                cut = cut | running
                break
            self._active = running
            self._values[counter] = integers(first + k * by)
            for argument, value in zip(arguments, carried, strict=True):
                self._values[argument] = value
            end = self._block(body)
            carried = [
                select(Lanes(running), self.get(v), old)
                for v, old in zip(end.operands, carried, strict=True)
            ]
            k += 1
        self._active = before
        for result, value in zip(op.results, carried, strict=True):
            self._values[result] = hidden(value, cut)

    def _grow(self, carried: list[Lanes], growth: Mapping[int, _Step | None], times: Any) -> None:
        """Lets carried values grow as they do in so many iterations of each program."""
        for n, step in growth.items():
            if step is None:
                carried[n] = hidden(carried[n], times > 0)
            else:
                value, culprit = step
                carried[n] = operations.grown(carried[n], self.get(value), times, culprit)

    def _growth(
        self, op: Operation, pairs: Iterable[tuple[Value | None, Value]]
    ) -> dict[int, _Step | None]:
        """By what the values of a long loop grow per iteration; None for those that do otherwise.

        Args:
            pairs: each value that it carries at the start of its body, and at the end.
        """
        found: dict[int, _Step | None] = {}
        for n, (argument, value) in enumerate(pairs):
            kind = element_type(value.type)
            if isinstance(kind, (IntegerType, PointerType)) and value is not argument:
                found[n] = None if argument is None else self._step(op, argument, value)
        return found

    def _step(self, op: Operation, argument: Value, value: Value) -> _Step | None:
        made = value.defining_op
        added = None if made is None else operations.addition.get(made.name)
        step = None if added is None or made is None else added(made, argument)
        if made is None or step is None or step not in self._values:
            return None
        return (step, made) if _is_fixed(step, op) else None

    def loop(self, op: Operation) -> None:
        """Runs a loop that goes on while a condition holds."""
        condition, body = op.regions[0].entry, op.regions[1].entry
        carried = [self.get(v) for v in op.operands]
        before = self._active
        active = before.copy()
        forwarded: list[Lanes] = []
        iterations, cut = 0, np.zeros(self.count, bool)
        while True:
            if iterations == _AT_ENDS:
                remaining = self._skip(op, carried, active)
                cut, active = active & ~remaining, remaining
            self._active = active
            for argument, value in zip(condition.arguments, carried, strict=True):
                self._values[argument] = value
            last = self._block(condition)
            decides = self.get(last.operands[0])
            new = [self.get(v) for v in last.operands[1:]]
            forwarded = (
                new
                if not forwarded
                else [select(Lanes(active), a, b) for a, b in zip(new, forwarded, strict=True)]
            )
            known = self._known(decides, op)
            cut = cut | (active & ~known)
            active = active & np.asarray(decides.data, bool) & known
            iterations += 1
            if not active.any():
                break
            if iterations > _MOST_ITERATIONS:
                self.outcome.whole = False
                cut = cut | active
                break
            self._active = active
            for argument, value in zip(body.arguments, forwarded, strict=True):
                self._values[argument] = value
            end = self._block(body)
            carried = [
                select(Lanes(active), self.get(v), old)
                for v, old in zip(end.operands, carried, strict=True)
            ]
        self._active = before
        for result, value in zip(op.results, forwarded, strict=True):
            self._values[result] = hidden(value, cut)

    def _skip(self, op: Operation, carried: list[Lanes], active: Bools) -> Bools:
        """Goes on to the last iterations of a long loop if all grows evenly; who is still in it."""
        condition, body = op.regions[0].entry, op.regions[1].entry
        inner = dict(zip(condition.terminator.operands[1:], body.arguments, strict=True))
        starts = [inner.get(a) for a in condition.arguments]
        growth = self._growth(op, zip(starts, body.terminator.operands, strict=True))
        left = self._left(condition, carried, growth)
        if left is None or not active.any():
            return active
        jump = int(left[active].max()) - _AT_ENDS
        if jump < _MOST_ITERATIONS:
            return active
        self.outcome.whole = False
        self._grow(carried, growth, np.clip(left, 0, jump))
        remaining: Bools = active & (left > jump)
        return remaining

    def _left(
        self, condition: Block, carried: Sequence[Lanes], growth: Mapping[int, _Step | None]
    ) -> Any:
        """How often a condition still holds in each program.

        None where it is no comparison of what grows evenly, or where a side leaves its type.
        """
        compares = condition.operations[0]
        relation = str(compares.attributes.get("predicate"))
        if len(condition.operations) != 2 or relation not in ("slt", "sle", "sgt", "sge"):
            return None
        if condition.terminator.operands[0] not in compares.results:
            return None
        sides = []
        for value in compares.operands:
            here = value in condition.arguments
            n = condition.arguments.index(value) if here else -1
            now, step = carried[n] if here else self.get(value), growth.get(n) if here else None
            if n in growth and step is None:
                return None
            by = None if step is None else self.get(step[0])
            if now.unknown is not None or now.wraps or (by is not None and by.unknown is not None):
                return None
            sides.append((now.data, 0 if by is None else by.data))
        if relation[1] == "g":
            sides.reverse()
        (low, rises), (high, falls) = sides
        slack, speed = high - low + (relation[2] == "e"), rises - falls
        left = np.where(slack > 0, -(-slack // np.maximum(speed, 1)), 0)
        top = 1 << (width_of(compares.operands[0]) - 1)
        for begin, rise in sides:
            end = begin + rise * np.maximum(left - 1, 0)
            if (end >= top).any() or (end < -top).any():
                return None
        return None if ((speed < 1) & (slack > 0)).any() else left + np.zeros(self.count, np.int64)


def _is_fixed(value: Value, loop: Operation) -> bool:
    """Whether a value is the same in all iterations of a loop."""
    around, made = value.owner.parent_op, value.defining_op
    while around is not None and around is not loop:
        around = around.parent_op
    if around is None:
        return True
    if made is None or made.regions or made.has(READS, WRITES):
        return False
    return all(_is_fixed(each, loop) for each in made.operands)
