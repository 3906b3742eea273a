"""Runs a kernel's integers at one size, for chosen programs, without memory.

Owns control flow, accesses and what is found in them; what single operations compute is
`lanes`' business. Programs are computed side by side as NumPy arrays, with machine integers that
wrap. What depends on data that nobody knows is left out, so that a finding is certain. Must not
know how sizes are chosen, nor what is proved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.dialects.traits import ATOMIC, READS, WRITES
from ttools.interpreter.ir import (
    Block,
    IntegerType,
    Module,
    Operation,
    PointerType,
    Value,
    element_type,
    shape_of,
)
from ttools.sanitizer.sizes.algebra.polynomials import Poly, Symbol, evaluate
from ttools.sanitizer.sizes.concrete import operations
from ttools.sanitizer.sizes.concrete.operations import Lanes, hashed, integers
from ttools.sanitizer.sizes.host.launches import Launch, Memory
from ttools.sanitizer.sizes.host.paths import NotModelledError
from ttools.sanitizer.sizes.host.tensors import INDEX

_MOST_ITERATIONS = 96
#: Iterations at the begin and end of a loop that is longer.
_AT_ENDS = 6
_MOST_RECORDS = 6_000_000

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Event:
    """A finding at one size.

    Attributes:
        kind: of the finding.
        op: where.
        program: the first program concerned.
        lane: its first lane.
        argument: index of the argument, -1 if unknown.
        element: of the storage.
        other: the other access of a race.
    """

    kind: str
    op: Operation
    program: tuple[int, ...]
    lane: tuple[int, ...] = ()
    argument: int = -1
    element: int = 0
    other: Operation | None = None


@dataclass
class Outcome:
    """What a run at one size shows.

    Attributes:
        events: by kind and operation.
        whole: whether all programs, lanes and iterations were computed and nothing was unknown, so
            that no event means that there is none.
        uncertain: operations whose addresses or masks depend on unknown data.
    """

    events: dict[tuple[str, Operation], Event] = field(default_factory=dict)
    whole: bool = True
    uncertain: list[Operation] = field(default_factory=list)


@dataclass
class _Bounds:
    elements: int
    offset: int
    dims: list[tuple[int, int]]
    is_whole: bool
    memory: Memory


class ConcreteRun:
    """One launch at one size.

    Args:
        launch: the launch, whose polynomials are evaluated.
        module: its kernel.
        values: the sizes.
        programs: those that run.
        written: numbers of the storages that the kernel writes to.
    """

    def __init__(
        self,
        launch: Launch,
        module: Module,
        values: Mapping[Symbol, int],
        programs: Sequence[tuple[int, int, int]],
        written: frozenset[int],
    ) -> None:
        self.launch, self._module, self._sizes = launch, module, values
        self.programs = np.array(programs, np.int64).reshape(-1, 3)
        self.grid = [evaluate(e, values) for e in launch.grid]
        self._written = written
        self.outcome = Outcome()
        self._values: dict[Value, Lanes] = {}
        self._active: Bools = np.ones(len(self.programs), bool)
        self._order = {op: n for n, op in enumerate(module.kernel.walk())}
        self._records: dict[int, list[tuple[Any, ...]]] = {}
        self._recorded = 0
        self._bounds: dict[int, _Bounds] = {}
        self._iterations = 0

    # ---- what operations ask
    @property
    def count(self) -> int:
        return len(self.programs)

    def get(self, value: Value) -> Lanes:
        return self._values[value]

    def order(self, op: Operation) -> int:
        return self._order[op]

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

    def _known(self, condition: Lanes, op: Operation) -> Bools:
        if condition.unknown is None:
            return np.ones(self.count, bool)
        if (condition.unknown & self._active).any():
            self._unsure(op)
        known: Bools = ~condition.unknown
        return known

    def _unsure(self, op: Operation) -> None:
        self.outcome.whole = False
        if op not in self.outcome.uncertain:
            self.outcome.uncertain.append(op)

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
            self._values[result] = operations.select(condition, one, other)

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
                operations.select(Lanes(running), self.get(v), old)
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
        turns = 0
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
                else [
                    operations.select(Lanes(active), a, b)
                    for a, b in zip(new, forwarded, strict=True)
                ]
            )
            active = active & np.asarray(decides.data, bool) & self._known(decides, op)
            turns += 1
            if not active.any():
                break
            if turns > _MOST_ITERATIONS:
                self.outcome.whole = False
                break
            self._active = active
            for argument, value in zip(body.arguments, forwarded, strict=True):
                self._values[argument] = value
            end = self._block(body)
            carried = [
                operations.select(Lanes(active), self.get(v), old)
                for v, old in zip(end.operands, carried, strict=True)
            ]
        self._active = before
        for result, value in zip(op.results, forwarded, strict=True):
            self._values[result] = value

    # ---- memory
    def _access(self, op: Operation) -> None:
        if op.operand("ptr") is None:
            raise NotModelledError(f"`{op.name}` of the kernel")
        pointer = self.get(op.address)
        shape = (self.count, *shape_of(op.address.type))
        active = operations.spread(self._active, shape)
        if op.mask is not None:
            mask = self.get(op.mask)
            if mask.unknown is not None:
                unknown = operations.spread(mask.unknown, shape)
                if (active & unknown).any():
                    self._unsure(op)
                active = active & ~unknown
            active = active & operations.spread(mask.data, shape).astype(bool)
        if pointer.unknown is not None:
            unknown = operations.spread(pointer.unknown, shape)
            if (active & unknown).any():
                self._unsure(op)
            active = active & ~unknown
        atomic = op.has(ATOMIC)
        kind = "atomic" if atomic else "store" if op.has(WRITES) else "load"
        at = operations.spread(pointer.data, shape)
        inside = active
        if pointer.base is None:
            if active.any():
                self._unsure(op)
        else:
            inside = self._judge(op, kind, pointer, at, active)
            self._record(op, kind, pointer.base, at, inside)
        for result in op.results:
            self._values[result] = self._loaded(op, result, pointer, at, inside, active)

    def _judge(self, op: Operation, kind: str, pointer: Lanes, at: Any, active: Bools) -> Bools:
        """Notes accesses that leave their memory; the lanes of the others."""
        assert pointer.base is not None
        bounds = self._bounds_of(pointer.base)
        wrong = np.zeros_like(active)
        first = {}
        for culprit, marked in sorted(pointer.wraps, key=lambda w: self._order[w[0]]):
            lanes_wrong = active & operations.spread(marked, active.shape) & ~wrong
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

    def _bounds_of(self, base: int) -> _Bounds:
        known = self._bounds.get(base)
        if known is None:
            memory = self.launch.arguments[base]
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
            known = self._bounds[base] = _Bounds(elements, offset, dims, dense, memory)
        return known

    def _event(self, kind: str, op: Operation, marked: Bools, element: Any, base: int) -> None:
        if (kind, op) not in self.outcome.events:
            where = np.argwhere(marked)[0]
            index = tuple(int(n) for n in where[1:])
            number = int(operations.spread(element, marked.shape)[tuple(where)])
            program = tuple(int(n) for n in self.programs[where[0]])
            self.outcome.events[kind, op] = Event(kind, op, program, index, base, number)

    def _loaded(
        self, op: Operation, result: Value, pointer: Lanes, at: Any, inside: Bools, active: Bools
    ) -> Lanes:
        kind = element_type(result.type)
        shape = (self.count, *shape_of(result.type))
        memory = None if pointer.base is None else self._bounds_of(pointer.base)
        settled = memory is not None and memory.memory.number not in self._written
        given = op.operand("other")
        other = None if given is None else self.get(given)
        if not isinstance(kind, IntegerType):
            data = np.zeros(shape, np.uint64)
            if memory is not None and settled and memory.memory.value is not None:
                data[:] = hashed(float(memory.memory.value))
            else:
                number = -1 if memory is None else memory.memory.number
                data = operations.mixed(
                    "element", number, operations.spread(at, shape).astype(np.uint64)
                )
            rest = hashed("other") if other is None else other.data
            return Lanes(np.where(inside, data, operations.spread(np.asarray(rest), shape)))
        content = memory.memory.content if memory is not None and settled else None
        if op.has(ATOMIC) or memory is None or content is None:
            missing = np.ones(shape, bool)
            data = np.zeros(shape, np.int64)
        else:
            values = {**self._sizes, INDEX: operations.spread(at, shape) + memory.offset}
            found = operations.evaluate_array(content, values)
            data = np.broadcast_to(np.asarray(found, np.int64), shape)
            half = 1 << (kind.width - 1)
            missing = ~inside | (data < -half) | (data >= half) if kind.width > 1 else ~inside
        if op.mask is not None and other is not None:
            use = ~active
            data = np.where(use, operations.spread(other.data, shape), data)
            unknown = other.unknown
            rest = np.zeros(shape, bool) if unknown is None else operations.spread(unknown, shape)
            missing = np.where(use, rest, missing)
        if kind.width == 1:
            return Lanes(data.astype(bool), unknown=missing)
        return integers(np.where(missing, 0, data), missing if missing.any() else None)

    # ---- races
    def _record(self, op: Operation, kind: str, base: int, at: Any, active: Bools) -> None:
        memory = self._bounds_of(base)
        number = memory.memory.number
        if number not in self._written:
            return
        where = np.nonzero(active)
        count = len(where[0])
        self._recorded += count
        if self._recorded > _MOST_RECORDS:
            self.outcome.whole = False
            return
        element = np.broadcast_to(at, active.shape)[where] + memory.offset
        stored = op.operand("value") if kind == "store" else None
        values = np.zeros(count, np.uint64)
        if stored is not None:
            known = self.get(stored)
            data = operations.spread(known.data, active.shape)[where].astype(np.uint64)
            values = data
            if known.unknown is not None:
                hidden = operations.spread(known.unknown, active.shape)[where]
                values = np.where(hidden, operations.mixed("?", where[0].astype(np.uint64)), values)
            if kind == "store":
                self._lane_conflicts(op, base, where, element, values)
        self._records.setdefault(number, []).append((op, kind, base, where[0], element, values))

    def _lane_conflicts(
        self, op: Operation, base: int, where: Any, element: Any, values: Any
    ) -> None:
        """Lanes of one store that write different values to one element."""
        if len(where) < 2 or not len(element):
            return
        order = np.lexsort((element, where[0]))
        same = (np.diff(where[0][order]) == 0) & (np.diff(element[order]) == 0)
        differs = same & (values[order][1:] != values[order][:-1])
        if differs.any():
            index = order[1:][differs][0]
            self._race_event("overlapping_store", op, base, where[0][index], element[index], op)

    def _race_event(
        self, kind: str, op: Operation, base: int, program: int, element: int, other: Operation
    ) -> None:
        if (kind, op) not in self.outcome.events:
            which = tuple(int(n) for n in self.programs[program])
            self.outcome.events[kind, op] = Event(kind, op, which, (), base, int(element), other)

    def _races(self) -> None:
        for records in self._records.values():
            sizes = [len(r[3]) for r in records]
            if len(self.programs) < 2 or not sum(sizes):
                continue
            site = np.repeat(np.arange(len(records)), sizes)
            program = np.concatenate([r[3] for r in records])
            element = np.concatenate([r[4] for r in records])
            values = np.concatenate([r[5] for r in records])
            writes = np.array([r[1] != "load" for r in records])[site]
            atomic = np.array([r[1] == "atomic" for r in records])[site]
            shared = _shared(element, program, writes)
            if shared.any():
                chosen = np.flatnonzero(shared)
                order = chosen[np.lexsort((program[chosen], element[chosen]))]
                self._conflicts(records, site, program, element, values, writes, atomic, order)

    def _conflicts(
        self, records: Any, site: Any, program: Any, element: Any, values: Any, writes: Any,
        atomic: Any, order: Any,
    ) -> None:  # fmt: skip
        """Looks at the elements that several programs touch and one of them writes."""
        starts = np.flatnonzero(np.diff(element[order], prepend=element[order][0] - 1))
        racing: set[int] = set()
        pending = []
        for group in np.split(order, starts[1:])[:4096]:
            for i in group[writes[group]]:
                others = group[program[group] != program[i]]
                others = others[~(atomic[others] & atomic[i])]
                plain = others[writes[others] & ~atomic[others]]
                read = others[~writes[others] | atomic[others]]
                if not atomic[i]:
                    for j in plain[values[plain] != values[i]][:1]:
                        pending.append((i, j))
                for j in read[:1] if not atomic[i] else others[~writes[others]][:1]:
                    racing.add(int(element[i]))
                    op, _, base, *_ = records[site[i]]
                    self._race_event("race", op, base, program[i], element[i], records[site[j]][0])
                break_early = len(self.outcome.events) > 64
                if break_early:
                    return
        for i, j in pending:
            op, _, base, *_ = records[max(site[i], site[j])]
            other = records[min(site[i], site[j])][0]
            self._race_event("overlapping_store", op, base, program[i], element[i], other)


def _shared(element: Any, program: Any, writes: Any) -> Any:
    """Which accesses touch an element that several programs touch and one of them writes."""
    _, index = np.unique(element, return_inverse=True)
    count = int(index.max()) + 1
    low = np.full(count, np.iinfo(np.int64).max)
    high = np.full(count, -1)
    np.minimum.at(low, index, program)
    np.maximum.at(high, index, program)
    written = np.zeros(count, bool)
    np.logical_or.at(written, index, writes)
    return ((low != high) & written)[index]


def _in_view(at: Any, dims: Sequence[tuple[int, int]]) -> Any:
    """Whether elements, counted from the view's first, belong to it."""
    left = at
    inside = left >= 0
    for stride, extent in dims:
        if extent == 0:
            return np.zeros(np.shape(at), bool)
        left = left - np.minimum(left // stride, extent - 1) * stride
    return inside & (left == 0)
