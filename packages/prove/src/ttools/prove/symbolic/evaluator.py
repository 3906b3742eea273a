"""Evaluation of a kernel for all sizes of a box, and all programs, lanes and iterations at once.

This module follows control flow and memory accesses: it determines the accesses of a launch with
their addresses and conditions. The results of single operations come from `operations`;
`conditions` proves that the accesses are correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import ttools.prove.symbolic.lower  # noqa: F401 - registers the rules
from ttools.ir import (
    Block,
    IntegerType,
    Module,
    Operation,
    Value,
    element_type,
)
from ttools.ir.dialects.traits import BRANCH, READS, WRITES
from ttools.ir.expr import (
    LANE,
    LOOP,
    PROGRAM,
    ZERO,
    Expr,
    Symbol,
    as_expr,
    substitute,
)
from ttools.prove.algebra.proofs import Space
from ttools.prove.attributes import access_kind, is_modelled, width_of
from ttools.prove.control import ControlFlow
from ttools.prove.host.launches import Memory, SymbolicCall
from ttools.prove.host.symbolic_numbers import NotModelledError
from ttools.prove.host.tensors import INDEX
from ttools.prove.symbolic import operations
from ttools.prove.symbolic.induction import (
    Bound,
    Bounds,
    Growth,
    growths,
    inductive,
    kept_bounds,
)
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.tables import note_element
from ttools.prove.symbolic.values import (
    NO_NEEDS,
    AnyValue,
    Case,
    Fact,
    Facts,
    Logic,
    Need,
    Needs,
    Number,
    Opaque,
    all_needs,
    alternatives,
    compare,
    negated,
    number,
)


@dataclass(frozen=True)
class Access:
    """One access of the kernel.

    Attributes:
        kind: `load`, `store` or `atomic`.
        mask: Condition under which a lane accesses memory; None if all lanes do.
        context: Facts that hold when the operation is reached.
        uniform: True for a store of the same value by all programs and lanes.
    """

    op: Operation
    kind: str
    pointer: Number
    mask: Logic | None
    context: Facts
    uniform: bool = False


@dataclass
class Evaluated:
    """The accesses of a launch in program order, and further obligations.

    Attributes:
        programs: Symbols of the program ids.
        needed: Obligations that belong to no access, each with its context.
    """

    accesses: list[Access] = field(default_factory=list)
    programs: tuple[Expr, ...] = ()
    needed: list[tuple[Need, Facts]] = field(default_factory=list)


#: Up to this many cases of a loop's bound are evaluated separately.
_MOST_BOUNDS = 4


class Evaluator(ControlFlow):
    """Evaluates one launch.

    Args:
        space: The sizes; the ranges and facts of the kernel's symbols are added to it.
        written: Numbers of the storages that the kernel writes to.
    """

    def __init__(
        self, launch: SymbolicCall, module: Module, space: Space, written: frozenset[int]
    ) -> None:
        self._launch, self._module, self._space = launch, module, space
        self._state = State(launch, module, space, written)
        self._values = self._state.values
        self._result = Evaluated(programs=tuple(self._state.programs))
        self._recording = True

    def run(self) -> Evaluated:
        # A program runs only if every extent of the grid is at least 1.
        self._state.context = tuple(
            Fact(e - 1) for e in self._launch.grid if not self._space.within(e, 1, 1 << 62)
        )
        entry = self._module.kernel.regions[0].entry
        for n, value in enumerate(entry.arguments):
            self._values[value] = self._argument(n, value)
        self._function(entry)
        return self._result

    def _argument(self, n: int, value: Value) -> AnyValue:
        argument = self._launch.arguments[n] if n < len(self._launch.arguments) else None
        if isinstance(argument, Memory):
            return Number((Case(ZERO, base=n),))
        if isinstance(argument, Expr):
            if width_of(value) == 1:
                return compare("ge", number(argument), number(1))
            return number(argument)
        return Opaque(uniform=True)

    # ---- control
    def _function(self, block: Block) -> None:
        last = self._block(block)
        if not self.follow(last):
            raise NotModelledError(f"`{last.name}` in the kernel")

    def enter_either(self, last: Operation) -> None:
        """Evaluate both blocks of a conditional branch."""
        condition = self._state.logic(last.operands[0])
        before = self._state.context
        ways = (condition, negated(condition))
        for (target, values), way in zip(last.successors, ways, strict=True):
            for facts in alternatives(way):
                self._state.context = (*before, *facts)
                self._enter(target, values)
            self._state.context = before

    def enter(self, last: Operation) -> None:
        ((target, values),) = last.successors
        self._enter(target, values)

    def _enter(self, target: Block, values: Sequence[Value]) -> None:
        if len(target.operations) > 1 or target.terminator.has(BRANCH):
            if len(self._state.context) > 24:
                raise NotModelledError("branches between blocks that may form a loop")
            for argument, value in zip(target.arguments, values, strict=True):
                self._values[argument] = self._state.get(value)
            self._function(target)

    def _block(self, block: Block) -> Operation:
        for op in block.operations[:-1]:
            self._operation(op)
        return block.terminator

    def _operation(self, op: Operation) -> None:
        if self.follow(op):
            return
        if op.has(READS, WRITES):
            self._access(op)
        else:
            results = operations.evaluate(self._state, op)
            for result, value in zip(op.results, results, strict=True):
                self._values[result] = value

    # ---- structured control flow
    def branch(self, op: Operation) -> None:
        condition = self._state.logic(op.operands[0])
        outcomes: list[tuple[Facts, list[AnyValue]]] = []
        before = self._state.context
        for region, way in zip(op.regions, (condition, negated(condition)), strict=False):
            if not region.blocks:
                continue
            ways = alternatives(way)
            for facts in ways:
                self._state.context = (*before, *facts)
                last = self._block(region.entry)
                outcomes.append((facts, [self._state.get(v) for v in last.operands]))
            self._state.context = before
        for n, result in enumerate(op.results):
            values = [(facts, values[n]) for facts, values in outcomes]
            self._values[result] = self._merged(result, values)

    def _merged(self, result: Value, values: list[tuple[Facts, AnyValue]]) -> AnyValue:
        if len(values) == 1:
            return values[0][1]
        if all(isinstance(v, Number) for _, v in values):
            cases = [
                Case(c.value, (*facts, *c.when), c.needs, c.base)
                for facts, v in values
                if isinstance(v, Number)
                for c in v.cases
            ]
            if 0 < len(cases) <= 8:
                return Number(tuple(cases))
        return self._state.havoc(result)

    def counted_loop(self, op: Operation) -> None:
        if op.attributes.get("unsignedCmp"):
            raise NotModelledError("a loop over unsigned integers")
        lower, upper, step = (self._state.number(v) for v in op.operands[:3])
        body = op.regions[0].entry
        counter, *arguments = body.arguments
        inits = op.operands[3:]
        k = Symbol("iteration", "iteration", LOOP, (), op)
        first, by = lower.single, step.single
        bounds: Facts = ()
        trips: int | None = None
        # If the computation of an end may have wrapped, the end is not a bound until it is proved
        # not to wrap.
        sure = not (all_needs(lower) | all_needs(upper) | all_needs(step))
        around = [f.expr for f in self._state.context if not f.needs]
        if by is None or not self._space.nonneg(by - 1, around):
            index = self._state.unknown(counter)
            is_known = False
        else:
            index = Number(
                tuple(
                    Case(c.value + as_expr(k) * by, c.when, c.needs | all_needs(step))
                    for c in lower.cases
                )
            )
            is_known = True
            spans = [u.value - c.value for u in upper.cases for c in lower.cases]
            ends = [self._space.range(span)[1] for span in spans]
            least = max(1, self._space.range(by)[0] or 1)
            if sure and all(e is not None for e in ends):
                trips = max(0, max(-(-(e or 0) // least) for e in ends))
        self._space.declare(k, 0, None if trips is None else max(0, trips - 1))
        ways = alternatives(negated(compare("ge", index, upper)))
        before, recording = self._state.context, self._recording
        self._values[counter] = index
        stepped = by if is_known else None
        if 1 < len(ways) <= _MOST_BOUNDS and recording:
            for bounds in ways:
                self._state.context = (*before, *bounds)
                self._iterate(op, body, list(arguments), list(inits), k, before)
                self._need_step(op, index, stepped)
            # The code after the loop may follow any of these cases.
            ways, self._recording = [()], False
        self._state.context = (*before, *(ways[0] if len(ways) == 1 else ()))
        self._iterate(op, body, list(arguments), list(inits), k, before)
        self._need_step(op, index, stepped)
        self._recording = recording
        self._state.context = before
        end = upper.single if sure else None
        total = self._trips(k, first, end, by, trips) if is_known else None
        self._results(op, total)

    def _need_step(self, op: Operation, index: Number, by: Expr | None) -> None:
        """Add the obligation that the counter does not wrap after the last iteration."""
        if by is None or not self._recording:
            return
        half = 1 << (width_of(op.regions[0].entry.arguments[0]) - 1)
        for case in index.cases:
            need = Need(op, case.value + by, -half, half - 1)
            self._result.needed.append((need, (*self._state.context, *case.when)))

    def _trips(
        self, k: Symbol, first: Expr | None, upper: Expr | None, by: Expr | None, most: int | None
    ) -> Symbol:
        """Return a symbol for the trip count of a loop; the results of the loop depend on it."""
        total = Symbol("iterations", "iteration", LOOP, (), k)
        self._space.declare(total, 0, most)
        if first is not None and upper is not None and by is not None:
            span, t = upper - first, as_expr(total)
            if self._space.nonneg(span, [f.expr for f in self._state.context if not f.needs]):
                self._space.relate(total, by * t - span, span + by - 1 - by * t)
        return total

    def _iterate(
        self,
        op: Operation,
        body: Block,
        arguments: list[Value],
        inits: list[Value],
        k: Symbol,
        outside: Facts,
        condition: Block | None = None,
    ) -> None:
        """Evaluate a loop body twice: first to find how values grow, and then with this growth."""
        starts = [self._state.get(v) for v in inits]
        symbols: dict[int, Symbol] = {}
        for n, argument in enumerate(arguments):
            fresh = self._state.havoc(argument)
            if isinstance(fresh, Number):
                (case,) = fresh.cases
                (symbols[n],) = case.value.symbols()
                bases = {c.base for s in [starts[n]] if isinstance(s, Number) for c in s.cases}
                base = bases.pop() if len(bases) == 1 else case.base
                fresh = Number((Case(case.value, base=base),))
            self._values[argument] = fresh
        recording, self._recording = self._recording, False
        newest = Symbol("", "data", 0).order
        outcome = self._iteration(body, condition)
        growth_of = growths(outcome, self._producers, symbols, starts, newest, k)
        carried = [(argument, starts[n], growth_of.get(n)) for n, argument in enumerate(arguments)]
        scalar = {n: s for n, s in symbols.items() if s.level <= LANE}
        bounds: Bounds = {}
        if not scalar.keys() <= growth_of.keys():
            inside = (*self._state.context, *self._way)
            ends = self._counted(op) if condition is None else ()
            bounds = kept_bounds(self._space, scalar, starts, outcome, outside, inside, ends)
        self._carry(carried, k, frozenset(), bounds)
        shown: Needs = NO_NEEDS
        if condition is not None:
            shown = self._shown_by(condition, k, carried)
            self._carry(carried, k, shown, bounds)
        self._recording = recording
        self._iteration(body, condition)
        self._ends = (op, carried, bounds)

    def _counted(self, op: Operation) -> Sequence[Expr]:
        """Return the first and the last value that the counter of a loop may have.

        Values that are not known are left out.
        """
        first, end = (self._state.number(v).single for v in op.operands[:2])
        return [*([] if first is None else [first]), *([] if end is None else [end - 1])]

    def _bounded(self, value: Value, bounds: Sequence[Bound]) -> AnyValue:
        """Return an unknown number that has the given bounds."""
        unknown = self._state.havoc(value)
        if bounds and isinstance(unknown, Number):
            (symbol,) = unknown.cases[0].value.symbols()
            self._space.relate(symbol, *(bound.of(as_expr(symbol)) for bound in bounds))
        return unknown

    def _carry(
        self,
        carried: Sequence[tuple[Value, AnyValue, Growth | None]],
        k: Symbol,
        shown: Needs,
        bounds: Bounds,
    ) -> None:
        """Set carried values to those at the start of iteration `k`."""
        for n, (argument, start, growth) in enumerate(carried):
            if growth is None or not isinstance(start, Number):
                self._values[argument] = self._bounded(argument, bounds.get(n, ()))
            else:
                self._values[argument] = growth.after(start, as_expr(k), self._space, shown)

    def _shown_by(
        self, condition: Block, k: Symbol, carried: Sequence[tuple[Value, AnyValue, Growth | None]]
    ) -> Needs:
        """Return obligations of carried values that the loop's condition implies by induction."""
        needs = frozenset(
            need
            for argument, _, growth in carried
            if growth is not None and isinstance(value := self._state.get(argument), Number)
            for need in all_needs(value)
            if need.op is growth.producer
        )
        last = self._block(condition)
        ways = alternatives(self._state.logic(last.operands[0]))
        if not needs or len(ways) != 1:
            return NO_NEEDS
        around = [f.expr for f in self._state.context if not f.needs]
        return inductive(self._space, needs, ways[0], around, k)

    def _iteration(self, body: Block, condition: Block | None) -> list[AnyValue]:
        before = self._state.context
        way: Facts = ()
        if condition is not None:
            last = self._block(condition)
            ways = alternatives(self._state.logic(last.operands[0]))
            for argument, value in zip(body.arguments, last.operands[1:], strict=True):
                self._values[argument] = self._state.get(value)
            way = ways[0] if len(ways) == 1 else ()
            self._state.context = (*before, *way)
        last = self._block(body)
        self._state.context = before
        self._way = way
        self._producers = list(last.operands)
        return [self._state.get(v) for v in last.operands]

    def _results(self, op: Operation, total: Symbol | None) -> None:
        owner, carried, bounds = self._ends
        for n, (result, (_, start, growth)) in enumerate(zip(op.results, carried, strict=True)):
            even_growth = growth if owner is op and isinstance(start, Number) else None
            if even_growth is None or (total is None and even_growth.step.terms):
                limits = bounds.get(n, ()) if owner is op else ()
                self._values[result] = self._bounded(result, limits)
            else:
                assert isinstance(start, Number)
                end = ZERO if total is None else as_expr(total)
                self._values[result] = even_growth.after(start, end, self._space)

    def loop(self, op: Operation) -> None:
        """Evaluate a loop that runs while a condition holds."""
        condition, body = op.regions[0].entry, op.regions[1].entry
        k = Symbol("iteration", "iteration", LOOP, (), op)
        self._space.declare(k, 0, None)
        carried = list(condition.arguments)
        self._iterate(op, body, carried, list(op.operands), k, self._state.context, condition)
        # The results of a `while` are the values that its condition passes on. The bounds of a
        # carried value hold for a result only if the carried value itself is passed on.
        passed = list(condition.terminator.operands[1:])
        bounds = self._ends[2] if self._ends[0] is op else {}
        places = {value: n for n, value in enumerate(condition.arguments)}
        for result, value in zip(op.results, passed, strict=True):
            self._values[result] = self._bounded(result, bounds.get(places.get(value, -1), ()))

    def _access(self, op: Operation) -> None:
        if not is_modelled(op):
            raise NotModelledError(f"`{op.name}` in the kernel")
        pointer = self._state.number(op.address)
        mask = None if op.mask is None else self._state.logic(op.mask)
        kind = access_kind(op)
        if self._recording:
            uniform = kind == "store" and self._is_uniform(op.operand("value"))
            self._result.accesses.append(
                Access(op, kind, pointer, mask, self._state.context, uniform)
            )
        for result in op.results:
            self._values[result] = self._state.havoc(result)
            if kind == "load" and isinstance(self._values[result], Number):
                self._values[result] = self._loaded(op, result, pointer, mask)

    def _is_uniform(self, value: Value | None) -> bool:
        stored = None if value is None else self._state.get(value)
        if isinstance(stored, Opaque):
            return stored.uniform
        if not isinstance(stored, Number) or stored.single is None:
            return False
        return all(s.level < PROGRAM for s in stored.single.base_symbols())

    def _loaded(self, op: Operation, result: Value, pointer: Number, mask: Logic | None) -> Number:
        kind = element_type(result.type)
        if not isinstance(kind, IntegerType):
            return self._state.unknown(result)
        half = 1 << (kind.width - 1)
        cases: list[Case] = []
        for case in pointer.cases:
            content = self._content(case)
            if content is None:
                content = self._promised(case, result)
            if content is None:
                return self._state.unknown(result)
            # The expression is the loaded integer only if it fits the integer's type.
            needs = case.needs | {Need(op, content, -half, half - 1, "model")}
            if self._space.within(content, -half, half - 1):
                needs = case.needs
            for facts in alternatives(mask):
                cases.append(Case(content, (*case.when, *facts), needs))
        if mask is not None:
            other = op.operand("other")
            left = alternatives(mask, negate=True)
            if left and left != [()]:
                rest = self._state.unknown(result) if other is None else self._state.number(other)
                cases += [
                    Case(c.value, (*c.when, *facts), c.needs) for c in rest.cases for facts in left
                ]
            elif left:
                return self._state.unknown(result)
        return Number(tuple(cases)) if 0 < len(cases) <= 8 else self._state.unknown(result)

    def _promised(self, case: Case, result: Value) -> Expr | None:
        """Return a symbol for an element of a table with an assumption.

        Returns:
            The symbol; None if the address is not known to be in such a table.
        """
        memory = self._table(case)
        if memory is None or not (memory.within or memory.distinct or memory.ascending):
            return None
        width = 8 * memory.dtype.itemsize
        if width_of(result) != width:
            return None
        # Kernels read unsigned numbers as signed integers, so the load gets the obligation that the
        # number is not in the upper half of the unsigned range.
        ends = () if memory.dtype.is_signed else (0, (1 << width) - 1)
        loaded = self._state.data(result, *ends)
        if memory.within is not None:
            low, high = memory.within
            self._space.relate(loaded, as_expr(loaded) - low, high - as_expr(loaded))
        note_element(self._space, loaded, memory, case.value)
        return as_expr(loaded)

    def _table(self, case: Case) -> Memory | None:
        """Return the memory that a load reads, if the kernel does not change it."""
        if case.base is None or case.base < 0:
            return None
        memory = self._launch.arguments[case.base]
        if not isinstance(memory, Memory) or memory.number in self._state.written:
            return None
        return memory

    def _content(self, case: Case) -> Expr | None:
        memory = self._table(case)
        if memory is None or memory.content is None:
            return None
        return substitute(memory.content, {INDEX: memory.offset + case.value})
