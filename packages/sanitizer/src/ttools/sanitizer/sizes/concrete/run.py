"""Runs a kernel's integers at one size, for chosen programs, without memory.

Owns control flow, accesses and what is found in them; what single operations compute is
`lanes`' business. Programs are computed side by side as NumPy arrays, with machine integers that
wrap. What depends on data that nobody knows is left out, so that a finding is certain. Must not
know how sizes are chosen, nor what is proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ttools.interpreter.dialects.traits import READS, WRITES
from ttools.interpreter.ir import (
    Block,
    IntegerType,
    Operation,
    PointerType,
    Value,
    element_type,
)
from ttools.sanitizer.sizes.algebra.polynomials import Poly, evaluate
from ttools.sanitizer.sizes.concrete import operations
from ttools.sanitizer.sizes.concrete.accesses import Accesses
from ttools.sanitizer.sizes.concrete.lanes import (
    Lanes,
    hashed,
    integers,
    select,
)
from ttools.sanitizer.sizes.concrete.state import Bools, Outcome
from ttools.sanitizer.sizes.host.launches import Memory
from ttools.sanitizer.sizes.host.paths import NotModelledError

_MOST_ITERATIONS = 96
#: Iterations at the begin and end of a loop that is longer.
_AT_ENDS = 6


class ConcreteRun(Accesses):
    """One launch at one size; see `State`."""

    _iterations = 0

    def run(self) -> Outcome:
        """Runs the programs."""
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
        if isinstance(given, Poly):
            number = evaluate(given, self._sizes)
            if isinstance(kind, IntegerType) and kind.width == 1:
                return Lanes(np.full(self.count, bool(number)))
            return integers(np.full(self.count, number, np.int64))
        return Lanes(np.full(self.count, hashed("argument", n), np.uint64))

    # ---- control
    def _function(self, block: Block) -> None:
        last = self._block(block)
        before = self._active
        if last.name == "cf.cond_br":
            condition = self.get(last.operands[0])
            chosen = np.asarray(condition.data, bool)
            known = self._known(condition, last)
            for (target, values), taken in zip(last.successors, (chosen, ~chosen), strict=True):
                self._enter(target, values, before & taken & known)
        elif last.name == "cf.br":
            ((target, values),) = last.successors
            self._enter(target, values, before)
        elif last.name not in ("tt.return", "ub.unreachable"):
            raise NotModelledError(f"`{last.name}` of the kernel")
        self._active = before

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
            if op.name == "scf.for":
                self._for(op)
            elif op.name == "scf.if":
                self._if(op)
            elif op.name == "scf.while":
                self._while(op)
            elif op.has(READS, WRITES):
                self._access(op)
            elif op.name in ("tt.call", "tt.map_elementwise"):
                raise NotModelledError(f"`{op.name}` of the kernel")
            else:
                for result, value in zip(op.results, operations.evaluate(self, op), strict=True):
                    self._values[result] = value
        return block.terminator

    def _if(self, op: Operation) -> None:
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

    def _for(self, op: Operation) -> None:
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
        growth = self._growth(op, arguments) if most > _MOST_ITERATIONS else None
        width = getattr(element_type(counter.type), "width", 64)
        top = (1 << (width - 1)) - 1 if width < 64 else None
        if top is not None:
            stepped = first + trips * by
            wraps = active & (trips > 0) & (stepped > top)
            if wraps.any():
                self._event("int_overflow", op, wraps, np.zeros(self.count, np.int64), -1)
                active &= ~wraps
        k = 0
        while k < most:
            running = active & (trips > k)
            if not running.any():
                break
            if k == _AT_ENDS and most > _MOST_ITERATIONS:
                self.outcome.whole = False
                if growth is None:
                    break
                jump = most - _AT_ENDS - k
                for n, (by_value, culprit) in growth.items():
                    amount = by_value if isinstance(by_value, int) else self.get(by_value)
                    carried[n] = operations.grown(self, carried[n], amount, jump, culprit)
                k += jump
                running = active & (trips > k)
            self._iterations += 1
            if self._iterations > 20_000:
                self.outcome.whole = False
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
            self._values[result] = value

    def _growth(
        self, op: Operation, arguments: Sequence[Value]
    ) -> dict[int, tuple[Any, Operation | None]] | None:
        """By what the values of a long loop grow per iteration; None where one does otherwise."""
        body = op.regions[0].entry
        found: dict[int, tuple[Any, Operation | None]] = {}
        for n, (argument, value) in enumerate(
            zip(arguments, body.terminator.operands, strict=True)
        ):
            kind = element_type(argument.type)
            if not isinstance(kind, (IntegerType, PointerType)) or value is argument:
                continue
            made = value.defining_op
            if made is None or made.name not in ("arith.addi", "tt.addptr"):
                return None
            others = [v for v in made.operands if v is not argument]
            if len(others) != 1 or others[0] not in self._values:
                return None
            inside = others[0].defining_op
            if inside is not None and any(inside is each for each in op.walk()):
                return None
            found[n] = others[0], made
        return found

    def _while(self, op: Operation) -> None:
        condition, body = op.regions[0].entry, op.regions[1].entry
        carried = [self.get(v) for v in op.operands]
        before = self._active
        active = before.copy()
        forwarded: list[Lanes] = []
        iterations = 0
        while True:
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
            active = active & np.asarray(decides.data, bool) & self._known(decides, op)
            iterations += 1
            if not active.any():
                break
            if iterations > _MOST_ITERATIONS:
                self.outcome.whole = False
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
            self._values[result] = value
