"""Evaluates a kernel for all sizes of a box, programs, lanes and iterations at once.

Owns control flow and memory: which accesses a launch makes, at which addresses, under which
conditions. What single operations compute is `arithmetic`'s business; what is asked of the
accesses, that of `conditions`. Must not know host code.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.interpreter.dialects.traits import READS, WRITES
from ttools.interpreter.ir import (
    Block,
    Operation,
    Value,
)
from ttools.sanitizer.sizes.algebra.polynomials import (
    LOOP,
    ZERO,
    Poly,
    Symbol,
    as_poly,
    substitute,
)
from ttools.sanitizer.sizes.attributes import width_of
from ttools.sanitizer.sizes.host.launches import Memory
from ttools.sanitizer.sizes.host.paths import NotModelledError
from ttools.sanitizer.sizes.symbolic import operations
from ttools.sanitizer.sizes.symbolic.accesses import Accesses, Evaluated
from ttools.sanitizer.sizes.symbolic.values import (
    AnyValue,
    Case,
    Facts,
    Need,
    Number,
    Opaque,
    all_needs,
    alternatives,
    compare,
    negated,
    number,
)


class Evaluator(Accesses):
    """Evaluates one launch; see `State`."""

    def run(self) -> Evaluated:
        """Evaluates the whole kernel."""
        self.result = Evaluated(programs=tuple(self.programs))
        entry = self.module.kernel.regions[0].entry
        for n, value in enumerate(entry.arguments):
            self._values[value] = self._argument(n, value)
        self._function(entry)
        return self.result

    def _argument(self, n: int, value: Value) -> AnyValue:
        given = self.launch.arguments[n] if n < len(self.launch.arguments) else None
        if isinstance(given, Memory):
            return Number((Case(ZERO, base=n),))
        if isinstance(given, Poly):
            if width_of(value) == 1:
                return compare("ge", number(given), number(1))
            return number(given)
        return Opaque(uniform=True)

    # ---- control
    def _function(self, block: Block) -> None:
        last = self._block(block)
        if last.name == "cf.br":
            ((target, values),) = last.successors
            self._enter(target, values)
        elif last.name == "cf.cond_br":
            condition = self.logic(last.operands[0])
            for (target, values), way in zip(
                last.successors, (condition, negated(condition)), strict=True
            ):
                before = self.context
                for facts in alternatives(way) or []:
                    self.context = (*before, *facts)
                    self._enter(target, values)
                self.context = before
        elif last.name not in ("tt.return", "ub.unreachable"):
            raise NotModelledError(f"`{last.name}` of the kernel")

    def _enter(self, target: Block, values: Sequence[Value]) -> None:
        if len(target.operations) > 1 or target.terminator.name != "tt.return":
            if len(self.context) > 24:
                raise NotModelledError("branches between blocks that may go round")
            for argument, value in zip(target.arguments, values, strict=True):
                self._values[argument] = self.get(value)
            self._function(target)

    def _block(self, block: Block) -> Operation:
        for op in block.operations[:-1]:
            self._operation(op)
        return block.terminator

    def _operation(self, op: Operation) -> None:
        if op.name == "scf.for":
            self._for(op)
        elif op.name == "scf.while":
            self._while(op)
        elif op.name == "scf.if":
            self._if(op)
        elif op.has(READS, WRITES):
            self._access(op)
        elif op.name in ("tt.call", "tt.map_elementwise") or op.name.startswith("tt.descriptor"):
            raise NotModelledError(f"`{op.name}` of the kernel")
        else:
            results = operations.evaluate(self, op)
            for result, value in zip(op.results, results, strict=True):
                self._values[result] = value

    # ---- structured control flow
    def _if(self, op: Operation) -> None:
        condition = self.logic(op.operands[0])
        outcomes: list[tuple[Facts, list[AnyValue]]] = []
        before = self.context
        for region, way in zip(op.regions, (condition, negated(condition)), strict=False):
            if not region.blocks:
                continue
            ways = alternatives(way)
            for facts in ways:
                self.context = (*before, *facts)
                last = self._block(region.entry)
                outcomes.append((facts, [self.get(v) for v in last.operands]))
            self.context = before
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
        return self.havoc(result)

    def _for(self, op: Operation) -> None:
        lower, upper, step = (self.number(v) for v in op.operands[:3])
        body = op.regions[0].entry
        counter, *arguments = body.arguments
        inits = op.operands[3:]
        k = Symbol("iteration", "iteration", LOOP, (), op)
        first, by = lower.single, step.single
        bounds: Facts = ()
        trips: int | None = None
        if first is None or by is None or not self.space.nonneg(by - 1):
            index = self.unknown(counter)
            known = False
        else:
            needs = all_needs(lower) | all_needs(step)
            index = Number((Case(first + as_poly(k) * by, (), needs),))
            known = True
            ends = [self.space.range(c.value - first)[1] for c in upper.cases]
            least = max(1, self.space.range(by)[0] or 1)
            # An end that may have wrapped bounds nothing before that is seen not to be.
            sure = not (needs | all_needs(upper))
            if sure and all(e is not None for e in ends):
                trips = max(0, max(-(-(e or 0) // least) for e in ends))
        self.space.declare(k, 0, None if trips is None else max(0, trips - 1))
        ways = alternatives(negated(compare("ge", index, upper)))
        bounds = ways[0] if len(ways) == 1 else ()
        before = self.context
        self.context = (*before, *bounds)
        self._values[counter] = index
        self._iterate(op, body, list(arguments), list(inits), k)
        if known and self._recording:
            # The counter is stepped once more than the body runs.
            width = width_of(counter)
            for case in index.cases:
                assert by is not None
                need = Need(op, case.value + by, -(1 << (width - 1)), (1 << (width - 1)) - 1)
                self.result.needed.append((need, self.context))
        self.context = before
        sure = not (all_needs(lower) | all_needs(upper) | all_needs(step))
        end = upper.single if sure else None
        total = self._trips(k, first, end, by, trips) if known else None
        self._results(op, total)

    def _trips(
        self, k: Symbol, first: Poly | None, upper: Poly | None, by: Poly | None, most: int | None
    ) -> Symbol:
        """How often a loop runs, for what its results are."""
        total = Symbol("iterations", "iteration", LOOP, (), k)
        self.space.declare(total, 0, most)
        if first is not None and upper is not None and by is not None:
            span, t = upper - first, as_poly(total)
            if self.space.nonneg(span, [f.poly for f in self.context if not f.needs]):
                self.space.relate(total, by * t - span, span + by - 1 - by * t)
        return total

    def _iterate(
        self,
        op: Operation,
        body: Block,
        arguments: list[Value],
        inits: list[Value],
        k: Symbol,
        condition: Block | None = None,
    ) -> None:
        """Evaluates a loop body twice: to see how its values change, then with that known."""
        starts = [self.get(v) for v in inits]
        symbols: dict[int, Symbol] = {}
        for n, argument in enumerate(arguments):
            fresh = self.havoc(argument)
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
        steps = self._steps(outcome, symbols, starts, newest, k)
        self._recording = recording
        for n, argument in enumerate(arguments):
            start = starts[n]
            if n not in steps or not isinstance(start, Number):
                self._values[argument] = self.havoc(argument)
                continue
            step, producer = steps[n]
            self._values[argument] = self._after(start, step, as_poly(k), producer)
        closed = {n: (start, *steps[n]) for n in steps if isinstance(start := starts[n], Number)}
        self._iteration(body, condition)
        self._ends = (op, closed)

    def _iteration(self, body: Block, condition: Block | None) -> list[AnyValue]:
        before = self.context
        if condition is not None:
            last = self._block(condition)
            ways = alternatives(self.logic(last.operands[0]))
            for argument, value in zip(body.arguments, last.operands[1:], strict=True):
                self._values[argument] = self.get(value)
            self.context = (*before, *(ways[0] if len(ways) == 1 else ()))
        last = self._block(body)
        self.context = before
        self._producers = list(last.operands)
        return [self.get(v) for v in last.operands]

    def _steps(
        self,
        outcome: list[AnyValue],
        symbols: dict[int, Symbol],
        starts: list[AnyValue],
        newest: int,
        k: Symbol,
    ) -> dict[int, tuple[Poly, Operation | None]]:
        """By how much values grow in each iteration, where that is the same in all of them."""
        changes: dict[int, Poly] = {}
        for n, symbol in symbols.items():
            value = outcome[n] if n < len(outcome) else None
            if not isinstance(value, Number) or len(value.cases) != 1 or value.cases[0].when:
                continue
            start = starts[n]
            bases = {c.base for c in start.cases} if isinstance(start, Number) else set()
            if bases == {value.cases[0].base}:
                changes[n] = value.cases[0].value - as_poly(symbol)
        constant = {symbols[n] for n, c in changes.items() if not c.terms}
        same: dict[Symbol, Poly] = {}
        for n, start in enumerate(starts):
            single = start.single if isinstance(start, Number) else None
            if n in symbols and symbols[n] in constant and single is not None:
                same[symbols[n]] = single
        found: dict[int, tuple[Poly, Operation | None]] = {}
        own = set(symbols.values())
        for n, change in changes.items():
            step = substitute(change, same)
            inside = step.base_symbols()
            if k in inside or inside & own or any(self._varies(s, newest) for s in inside):
                continue
            found[n] = step, self._producers[n].defining_op
        return found

    @staticmethod
    def _varies(symbol: Symbol, newest: int) -> bool:
        return symbol.order > newest and symbol.kind in ("data", "iteration")

    def _after(self, start: Number, step: Poly, k: Poly, producer: Operation | None) -> Number:
        """A number that has grown by `step` in each of `k` iterations."""
        if not step.terms:
            return start
        cases = []
        for case in start.cases:
            value, needs = case.value + step * k, case.needs
            if case.base is None and producer is not None:
                width = width_of(producer.results[0])
                low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
                if not self.space.within(value, low, high):
                    needs = needs | {Need(producer, value, low, high)}
            cases.append(Case(value, case.when, needs, case.base))
        return Number(tuple(cases))

    def _results(self, op: Operation, total: Symbol | None) -> None:
        owner, closed = self._ends
        for n, result in enumerate(op.results):
            known = closed.get(n) if owner is op else None
            if known is None:
                self._values[result] = self.havoc(result)
                continue
            start, step, producer = known
            if not step.terms:
                self._values[result] = start
            elif total is None:
                self._values[result] = self.havoc(result)
            else:
                self._values[result] = self._after(start, step, as_poly(total), producer)

    def _while(self, op: Operation) -> None:
        condition, body = op.regions[0].entry, op.regions[1].entry
        k = Symbol("iteration", "iteration", LOOP, (), op)
        self.space.declare(k, 0, None)
        self._iterate(op, body, list(condition.arguments), list(op.operands), k, condition)
        for result in op.results:
            self._values[result] = self.havoc(result)
