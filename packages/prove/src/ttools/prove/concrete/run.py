"""Evaluation of a kernel's integers at one size, for chosen programs, without memory.

This module follows control flow and memory accesses, and finds defects; the results of single
operations come from `operations`. All programs are computed together as NumPy arrays, with machine
integers that wrap. Accesses that depend on unknown data are left out, so that every finding is
certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

import ttools.prove.concrete.lower  # noqa: F401 - registers the rules
from ttools.interpreter.analysis.effects import synchronises
from ttools.ir import (
    Block,
    IntegerType,
    Module,
    Operation,
    PointerType,
    Value,
    element_type,
    shape_of,
)
from ttools.ir.dialects.traits import ATOMIC, READS, WRITES
from ttools.ir.domains.regularity import summands
from ttools.ir.expr import Expr, Symbol, array_functions, evaluate
from ttools.prove.attributes import access_kind, is_modelled, width_of
from ttools.prove.concrete import operations
from ttools.prove.concrete.conflicts import AccessRecords
from ttools.prove.concrete.lanes import (
    Lanes,
    hashed,
    hidden,
    integers,
    mixed,
    select,
    spread,
    wrapped,
)
from ttools.prove.concrete.state import Bools, Event, Outcome, State
from ttools.prove.control import ControlFlow
from ttools.prove.host.launches import Memory, SymbolicCall
from ttools.prove.host.symbolic_numbers import NotModelledError
from ttools.prove.host.tensors import INDEX, is_constant

_MOST_ITERATIONS = 96
#: Number of iterations that are computed at the start and at the end of a loop with more than
#: `_MOST_ITERATIONS` iterations.
_AT_ENDS = 6


#: The value that each iteration adds to a carried value, and the operation that adds it.
_Step: TypeAlias = "tuple[Value, Operation]"


@dataclass
class _Bounds:
    elements: int
    offset: int
    dims: list[tuple[int, int]]
    is_whole: bool
    memory: Memory


class ConcreteRun(ControlFlow):
    """One launch at one size.

    Args:
        launch: The launch, whose expressions are evaluated at `sizes`.
        sizes: Values of the sizes.
        programs: Ids of the programs that run.
        written: Numbers of the storages that the kernel writes to.
    """

    def __init__(
        self,
        launch: SymbolicCall,
        module: Module,
        sizes: Mapping[Symbol, int],
        programs: Sequence[tuple[int, int, int]],
        written: frozenset[int],
    ) -> None:
        self._launch, self._module, self._sizes, self._written = launch, module, sizes, written
        self._state = State(launch, module, sizes, programs)
        self._values, self._count = self._state.values, self._state.count
        self._get = self._state.get
        self._outcome = Outcome()
        self._records = AccessRecords(self._state, self._outcome)
        self._active: Bools = np.ones(self._count, bool)
        self._bounds: dict[int, _Bounds] = {}
        self._iterations = 0
        # Programs that have left a loop which may wait for other programs. Such a loop can order
        # their later accesses after those of other programs, as a lock does.
        self._may_have_waited: Bools = np.zeros(self._count, bool)
        self._synchronising = 0  # accesses that can observe effects of other programs

    def run(self) -> Outcome:
        if not self._count:
            return self._outcome
        entry = self._module.kernel.regions[0].entry
        for n, value in enumerate(entry.arguments):
            self._values[value] = self._argument(n, value)
        with np.errstate(all="ignore"):
            self._function(entry)
            self._records.compare_programs()
        return self._outcome

    def _argument(self, n: int, value: Value) -> Lanes:
        argument = self._launch.arguments[n] if n < len(self._launch.arguments) else None
        kind = element_type(value.type)
        if isinstance(argument, Memory):
            return Lanes(np.zeros(self._count, np.int64), base=n)
        if isinstance(argument, Expr):
            number = evaluate(argument, self._sizes)
            if isinstance(kind, IntegerType) and kind.width == 1:
                return Lanes(np.full(self._count, bool(number)))
            return integers(np.full(self._count, number, np.int64))
        return Lanes(np.full(self._count, hashed("argument", n), np.uint64))

    # ---- control
    def _function(self, block: Block) -> None:
        before, last = self._active, self._block(block)
        if not self.follow(last):
            raise NotModelledError(f"`{last.name}` in the kernel")
        self._active = before

    def enter(self, last: Operation) -> None:
        """Evaluate the block of a branch."""
        ((target, values),) = last.successors
        self._enter(target, values, self._active)

    def enter_either(self, last: Operation) -> None:
        """Evaluate both blocks of a conditional branch, each for the programs that reach it."""
        condition, before = self._get(last.operands[0]), self._active
        chosen = np.asarray(condition.data, bool)
        is_known = self._known(condition, last)
        for (target, values), taken in zip(last.successors, (chosen, ~chosen), strict=True):
            self._enter(target, values, before & taken & is_known)

    def _enter(self, target: Block, values: Sequence[Value], active: Bools) -> None:
        if not active.any():
            return
        self._iterations += 1
        if self._iterations > 4096:
            self._outcome.whole = False
            return
        self._active = active
        for argument, value in zip(target.arguments, values, strict=True):
            self._values[argument] = self._get(value)
        self._function(target)

    def _block(self, block: Block) -> Operation:
        for op in block.operations[:-1]:
            if self.follow(op):
                continue
            if op.has(READS, WRITES):
                self._access(op)
            else:
                for result, value in zip(
                    op.results, operations.evaluate(self._state, op), strict=True
                ):
                    self._values[result] = value
        return block.terminator

    def branch(self, op: Operation) -> None:
        condition = self._get(op.operands[0])
        is_known, before = self._known(condition, op), self._active
        chosen = np.asarray(condition.data, bool)
        outcomes = []
        for region, taken in zip(op.regions, (chosen, ~chosen), strict=False):
            if not region.blocks:
                continue
            self._active = before & taken & is_known
            last = self._block(region.entry)
            outcomes.append([self._get(v) for v in last.operands])
        self._active = before
        for n, result in enumerate(op.results):
            one, other = outcomes[0][n], outcomes[1][n]
            self._values[result] = select(condition, one, other)

    def counted_loop(self, op: Operation) -> None:
        if op.attributes.get("unsignedCmp"):
            raise NotModelledError("a loop over unsigned integers")
        lower, upper, step = (self._get(v) for v in op.operands[:3])
        body = op.regions[0].entry
        counter, *arguments = body.arguments
        carried = [self._get(v) for v in op.operands[3:]]
        unknown = [v.unknown for v in (lower, upper, step) if v.unknown is not None]
        before = self._active
        active = before.copy()
        for mask in unknown:
            if (mask & active).any():
                self._unsure(op)
            active &= ~mask
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
                self._event("int_overflow", op, wraps, np.zeros(self._count, np.int64), -1)
                active &= ~wraps
        k, cut = 0, before & ~active
        while k < most:
            running = active & (trips > k)
            if k == _AT_ENDS and most > _MOST_ITERATIONS:
                self._outcome.whole = False
                growth = self._growth(op, zip(arguments, body.terminator.operands, strict=True))
                jump = most - _AT_ENDS - k
                self._grow(carried, growth, np.clip(trips - k, 0, jump))
                k += jump
                running = active & (trips > k)
            self._iterations += 1
            if self._iterations > 20_000:
                self._outcome.whole = False
                cut = cut | running
                break
            self._active = running
            self._values[counter] = integers(first + k * by)
            for argument, value in zip(arguments, carried, strict=True):
                self._values[argument] = value
            end = self._block(body)
            carried = [
                select(Lanes(running), self._get(v), old)
                for v, old in zip(end.operands, carried, strict=True)
            ]
            k += 1
        self._active = before
        for result, value in zip(op.results, carried, strict=True):
            self._values[result] = hidden(value, cut)

    def _grow(self, carried: list[Lanes], growth: Mapping[int, _Step | None], times: Any) -> None:
        """Advance carried values by `times` iterations, which is a number for each program."""
        for n, step in growth.items():
            if step is None:
                carried[n] = hidden(carried[n], times > 0)
            else:
                value, culprit = step
                carried[n] = operations.grown(carried[n], self._get(value), times, culprit)

    def _growth(
        self, op: Operation, pairs: Iterable[tuple[Value | None, Value]]
    ) -> dict[int, _Step | None]:
        """Return what each iteration adds to each carried integer or pointer that changes.

        Args:
            pairs: For each carried value, its value at the start and its value at the end of the
                body.

        Returns:
            The step of each such value by its index; the step is None if the value does not grow by
            equal steps.
        """
        growth: dict[int, _Step | None] = {}
        for n, (argument, value) in enumerate(pairs):
            kind = element_type(value.type)
            if isinstance(kind, (IntegerType, PointerType)) and value is not argument:
                growth[n] = None if argument is None else self._step(op, argument, value)
        return growth

    def _step(self, op: Operation, argument: Value, value: Value) -> _Step | None:
        made = value.defining_op
        added = summands(made) if made is not None else None
        steps = [value for value in added or () if value is not argument]
        if made is None or len(steps) != 1 or steps[0] not in self._values:
            return None
        return (steps[0], made) if _is_fixed(steps[0], op) else None

    def loop(self, op: Operation) -> None:
        """Evaluate a loop that runs while a condition holds."""
        condition, body = op.regions[0].entry, op.regions[1].entry
        carried = [self._get(v) for v in op.operands]
        before = self._active
        active = before.copy()
        forwarded: list[Lanes] = []
        iterations, cut = 0, np.zeros(self._count, bool)
        synchronising = self._synchronising
        while True:
            if iterations == _AT_ENDS:
                remaining = self._skip(op, carried, active)
                cut, active = active & ~remaining, remaining
            self._active = active
            for argument, value in zip(condition.arguments, carried, strict=True):
                self._values[argument] = value
            last = self._block(condition)
            decides = self._get(last.operands[0])
            new = [self._get(v) for v in last.operands[1:]]
            forwarded = (
                new
                if not forwarded
                else [select(Lanes(active), a, b) for a, b in zip(new, forwarded, strict=True)]
            )
            is_known = self._known(decides, op)
            cut = cut | (active & ~is_known)
            active = active & np.asarray(decides.data, bool) & is_known
            iterations += 1
            if not active.any():
                break
            if iterations > _MOST_ITERATIONS:
                self._outcome.whole = False
                cut = cut | active
                break
            self._active = active
            for argument, value in zip(body.arguments, forwarded, strict=True):
                self._values[argument] = value
            end = self._block(body)
            carried = [
                select(Lanes(active), self._get(v), old)
                for v, old in zip(end.operands, carried, strict=True)
            ]
        self._active = before
        if self._synchronising > synchronising:
            self._may_have_waited |= cut
        for result, value in zip(op.results, forwarded, strict=True):
            self._values[result] = hidden(value, cut)

    def _skip(self, op: Operation, carried: list[Lanes], active: Bools) -> Bools:
        """Skip to the last iterations of a loop whose carried values grow by equal steps.

        Returns:
            The programs that are still in the loop.
        """
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
        self._outcome.whole = False
        self._grow(carried, growth, np.clip(left, 0, jump))
        remaining: Bools = active & (left > jump)
        return remaining

    def _left(
        self, condition: Block, carried: Sequence[Lanes], growth: Mapping[int, _Step | None]
    ) -> Any:
        """Return for how many more iterations a loop's condition holds in each program.

        Returns:
            The numbers; None if the condition compares values that do not grow by equal steps, or
            if one of these values would leave the range of its type.
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
            now, step = (
                carried[n] if here else self._get(value),
                growth.get(n) if here else None,
            )
            if n in growth and step is None:
                return None
            by = None if step is None else self._get(step[0])
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
        return None if ((speed < 1) & (slack > 0)).any() else left + np.zeros(self._count, np.int64)

    def _access(self, op: Operation) -> None:
        if not is_modelled(op):
            raise NotModelledError(f"`{op.name}` in the kernel")
        self._synchronising += synchronises(op)
        pointer = self._get(op.address)
        shape = (self._count, *shape_of(op.address.type))
        active = spread(self._active, shape)
        if op.mask is not None:
            mask = self._get(op.mask)
            if mask.unknown is not None:
                unknown = spread(mask.unknown, shape)
                if (active & unknown).any():
                    self._unsure(op)
                active = active & ~unknown
            active = active & spread(mask.data, shape).astype(bool)
        if pointer.unknown is not None:
            unknown = spread(pointer.unknown, shape)
            if (active & unknown).any():
                self._unsure(op)
            active = active & ~unknown
        kind = access_kind(op)
        at = spread(pointer.data, shape)
        inside = active
        if pointer.base is None:
            if active.any():
                self._unsure(op)
        else:
            inside = self._check_bounds(op, kind, pointer, at, active)
            memory = self._bounds_of(pointer.base)
            number = memory.memory.number
            # A volatile load may wait for a store, so the store and the load are no defect.
            if number in self._written and not (kind == "load" and synchronises(op)):
                element = at + memory.offset
                ordered = self._may_have_waited
                self._records.record(op, kind, number, pointer.base, element, inside, ordered)
        for result in op.results:
            self._values[result] = self._loaded(op, result, pointer, at, inside, active)

    def _check_bounds(
        self, op: Operation, kind: str, pointer: Lanes, at: Any, active: Bools
    ) -> Bools:
        """Report accesses outside their memory, and return a mask of the other active lanes."""
        assert pointer.base is not None
        bounds = self._bounds_of(pointer.base)
        wrong = np.zeros_like(active)
        first = {}
        for culprit, marked in sorted(pointer.wraps, key=lambda w: self._state.order(w[0])):
            lanes_wrong = active & spread(marked, active.shape) & ~wrong
            if lanes_wrong.any():
                first[culprit] = lanes_wrong
                wrong |= lanes_wrong
        element = at + bounds.offset
        for culprit, marked in first.items():
            self._event("int_overflow", culprit, marked, element, pointer.base)
        outside = active & ((element < 0) | (element >= bounds.elements))
        if (outside & ~wrong).any():
            self._event(f"oob_{kind}", op, outside & ~wrong, element, pointer.base)
        if not bounds.is_whole:
            left = active & ~outside & ~wrong & ~_in_view(at, bounds.dims)
            if left.any():
                self._event("view_oob", op, left, element, pointer.base)
        inside: Bools = active & ~outside
        return inside

    def _loaded(
        self, op: Operation, result: Value, pointer: Lanes, at: Any, inside: Bools, active: Bools
    ) -> Lanes:
        kind = element_type(result.type)
        shape = (self._count, *shape_of(result.type))
        memory = None if pointer.base is None else self._bounds_of(pointer.base)
        settled = memory is not None and memory.memory.number not in self._written
        passed = op.operand("other")
        other = None if passed is None else self._get(passed)
        if not isinstance(kind, IntegerType):
            data = np.zeros(shape, np.uint64)
            if memory is not None and settled and memory.memory.value is not None:
                data[:] = hashed(float(memory.memory.value))
            else:
                number = -1 if memory is None else memory.memory.number
                data = mixed("element", number, spread(at, shape).astype(np.uint64))
            rest = hashed("other") if other is None else other.data
            return Lanes(np.where(inside, data, spread(np.asarray(rest), shape)))
        content = memory.memory.content if memory is not None and settled else None
        if op.has(ATOMIC) or memory is None or content is None:
            missing = np.ones(shape, bool)
            data = np.zeros(shape, np.int64)
        else:
            values = {**self._sizes, INDEX: spread(at, shape) + memory.offset}
            numbers = evaluate(content, values, array_functions())
            data = np.broadcast_to(np.asarray(numbers, np.int64), shape)
            missing = ~inside
            half = 1 << (kind.width - 1)
            # torch rejects a constant that does not fit in the type, so such a number is unknown.
            if kind.width > 1 and is_constant(content):
                missing = missing | (data < -half) | (data >= half)
            elif kind.width > 1:
                data = wrapped(data, kind.width)
        if op.mask is not None and other is not None:
            use = ~active
            data = np.where(use, spread(other.data, shape), data)
            unknown = other.unknown
            rest = np.zeros(shape, bool) if unknown is None else spread(unknown, shape)
            missing = np.where(use, rest, missing)
        if kind.width == 1:
            return Lanes(data.astype(bool), unknown=missing)
        return integers(np.where(missing, 0, data), missing if missing.any() else None)

    def _known(self, condition: Lanes, op: Operation) -> Bools:
        if condition.unknown is None:
            return np.ones(self._count, bool)
        if (condition.unknown & self._active).any():
            self._unsure(op)
        is_known: Bools = ~condition.unknown
        return is_known

    def _unsure(self, op: Operation) -> None:
        self._outcome.whole = False
        if op not in self._outcome.uncertain:
            self._outcome.uncertain.append(op)

    def _event(self, kind: str, op: Operation, marked: Bools, element: Any, base: int) -> None:
        if (kind, op) not in self._outcome.events:
            where = np.argwhere(marked)[0]
            index = tuple(int(n) for n in where[1:])
            number = int(spread(element, marked.shape)[tuple(where)])
            program = tuple(int(n) for n in self._state.programs[where[0]])
            self._outcome.events[kind, op] = Event(kind, op, program, index, base, number)

    def _bounds_of(self, base: int) -> _Bounds:
        bounds = self._bounds.get(base)
        if bounds is None:
            memory = self._launch.arguments[base]
            assert isinstance(memory, Memory)
            elements = evaluate(memory.elements, self._sizes)
            offset = evaluate(memory.offset, self._sizes)
            shape = [evaluate(e, self._sizes) for e in memory.shape]
            strides = [evaluate(s, self._sizes) for s in memory.strides]
            dims = sorted(
                ((s, e) for s, e in zip(strides, shape, strict=True) if e != 1 and s), reverse=True
            )
            count = 1
            for extent in shape:
                count *= extent
            dense, step = offset == 0 and count == elements, 1
            for s, e in reversed(dims):
                dense, step = dense and s == step, step * e
            if 0 in shape:
                dims = [(1, 0)]
            bounds = self._bounds[base] = _Bounds(elements, offset, dims, dense, memory)
        return bounds


def _is_fixed(value: Value, loop: Operation) -> bool:
    """Return whether a value is the same in all iterations of a loop."""
    around, made = value.owner.parent_op, value.defining_op
    while around is not None and around is not loop:
        around = around.parent_op
    if around is None:
        return True
    if made is None or made.regions or made.has(READS, WRITES):
        return False
    return all(_is_fixed(operand, loop) for operand in made.operands)


def _in_view(at: Any, dims: Sequence[tuple[int, int]]) -> Any:
    """Return a mask of the offsets, counted from a view's first element, that lie in the view."""
    left = at
    inside = left >= 0
    for stride, extent in dims:
        if extent == 0:
            return np.zeros(np.shape(at), bool)
        left = left - np.minimum(left // stride, extent - 1) * stride
    return inside & (left == 0)
