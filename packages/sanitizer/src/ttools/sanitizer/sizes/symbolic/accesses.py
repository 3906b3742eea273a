"""Accesses at all sizes: where each goes under which conditions, and what is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field

from ttools.interpreter.ir import (
    IntegerType,
    Operation,
    Value,
    element_type,
)
from ttools.interpreter.ir.expr import (
    PROGRAM,
    Expr,
    as_expr,
    substitute,
)
from ttools.sanitizer.sizes.attributes import access_kind, is_modelled, width_of
from ttools.sanitizer.sizes.host.launches import Memory
from ttools.sanitizer.sizes.host.paths import NotModelledError
from ttools.sanitizer.sizes.host.storage import INDEX
from ttools.sanitizer.sizes.symbolic.state import State
from ttools.sanitizer.sizes.symbolic.tables import note_element
from ttools.sanitizer.sizes.symbolic.values import (
    Case,
    Facts,
    Logic,
    Need,
    Number,
    Opaque,
    alternatives,
)


@dataclass(frozen=True)
class Access:
    """One access of the kernel.

    Attributes:
        kind: `load`, `store` or `atomic`.
        pointer: where.
        mask: in which lanes; None for all.
        context: what holds where it is reached.
        uniform: of a store, whether all programs and lanes write the same.
    """

    op: Operation
    kind: str
    pointer: Number
    mask: Logic | None
    context: Facts
    uniform: bool = False


@dataclass
class Evaluated:
    """What a launch does.

    Attributes:
        accesses: in program order.
        programs: symbols of the program ids.
        needed: what must hold beside the accesses, each with its context.
    """

    accesses: list[Access] = field(default_factory=list)
    programs: tuple[Expr, ...] = ()
    needed: list[tuple[Need, Facts]] = field(default_factory=list)


class Accesses(State):
    """Evaluates the accesses of a launch, and keeps them."""

    result: Evaluated
    _recording = True

    def _access(self, op: Operation) -> None:
        if not is_modelled(op):
            raise NotModelledError(f"`{op.name}` of the kernel")
        pointer = self.number(op.address)
        mask = None if op.mask is None else self.logic(op.mask)
        kind = access_kind(op)
        if self._recording:
            uniform = kind == "store" and self._is_uniform(op.operand("value"))
            self.result.accesses.append(Access(op, kind, pointer, mask, self.context, uniform))
        for result in op.results:
            self._values[result] = self.havoc(result)
            if kind == "load" and isinstance(self._values[result], Number):
                self._values[result] = self._loaded(op, result, pointer, mask)

    def _is_uniform(self, value: Value | None) -> bool:
        known = None if value is None else self.get(value)
        if isinstance(known, Opaque):
            return known.uniform
        if not isinstance(known, Number) or known.single is None:
            return False
        return all(s.level < PROGRAM for s in known.single.base_symbols())

    def _loaded(self, op: Operation, result: Value, pointer: Number, mask: Logic | None) -> Number:
        kind = element_type(result.type)
        if not isinstance(kind, IntegerType):
            return self.unknown(result)
        half = 1 << (kind.width - 1)
        cases: list[Case] = []
        for case in pointer.cases:
            content = self._content(case)
            if content is None:
                content = self._promised(case, result)
            if content is None:
                return self.unknown(result)
            # What its type cannot hold, the table does not hold either.
            needs = case.needs | {Need(op, content, -half, half - 1, "model")}
            if self.space.within(content, -half, half - 1):
                needs = case.needs
            for facts in alternatives(mask):
                cases.append(Case(content, (*case.when, *facts), needs))
        if mask is not None:
            other = op.operand("other")
            left = alternatives(mask, negate=True)
            if left and left != [()]:
                rest = self.unknown(result) if other is None else self.number(other)
                cases += [
                    Case(c.value, (*c.when, *facts), c.needs) for c in rest.cases for facts in left
                ]
            elif left:
                return self.unknown(result)
        return Number(tuple(cases)) if 0 < len(cases) <= 8 else self.unknown(result)

    def _promised(self, case: Case, result: Value) -> Expr | None:
        """An element of which its bounds are promised."""
        memory = self._table(case)
        if memory is None or not (memory.within or memory.distinct or memory.ascending):
            return None
        width = 8 * memory.dtype.itemsize
        if width_of(result) != width:
            return None
        # Kernels see numbers without a sign as ones with: those from the middle on are others.
        ends = () if memory.dtype.is_signed else (0, (1 << width) - 1)
        loaded = self.data(result, *ends)
        if memory.within is not None:
            low, high = memory.within
            self.space.relate(loaded, as_expr(loaded) - low, high - as_expr(loaded))
        note_element(self.space, loaded, memory, case.value)
        return as_expr(loaded)

    def _table(self, case: Case) -> Memory | None:
        """The memory that a load reads, if it is as it was at the launch."""
        if case.base is None or case.base < 0:
            return None
        memory = self.launch.arguments[case.base]
        if not isinstance(memory, Memory) or memory.number in self._written:
            return None
        return memory

    def _content(self, case: Case) -> Expr | None:
        memory = self._table(case)
        if memory is None or memory.content is None:
            return None
        return substitute(memory.content, {INDEX: memory.offset + case.value})
