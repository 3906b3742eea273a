"""What operations on integers, pointers and tiles compute, as polynomials: what rules share.

Rules are in `lower`. Each is right for machine integers where the needs of its result are met;
where no rule is, the result is a number of which only the range is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ttools.ir import (
    IntegerType,
    Operation,
    PointerType,
    Value,
    element_type,
)
from ttools.ir.expr import Expr
from ttools.prove.attributes import width_of
from ttools.prove.rules import Rules, require_modelled
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import (
    NO_NEEDS,
    AnyValue,
    Case,
    Need,
    Number,
    Opaque,
    facts_of,
    joined,
    needs_of,
)

#: The result of an operation that neither accesses memory nor has control flow.
rule: Rules[Callable[[State, Operation], AnyValue]] = Rules()
#: Of operations with several results.
several: Rules[Callable[[State, Operation], list[AnyValue]]] = Rules()

Function: TypeAlias = "Callable[..., Expr | None]"


def evaluate(kernel: State, op: Operation) -> list[AnyValue]:
    """The results of an operation that neither accesses memory nor has control flow."""
    known = rule.get(op.name)
    if known is not None and len(op.results) == 1:
        return [known(kernel, op)]
    parted = several.get(op.name)
    if parted is not None:
        return parted(kernel, op)
    require_modelled(op)
    return [otherwise(kernel, op, result) for result in op.results]


def otherwise(kernel: State, op: Operation, result: Value) -> AnyValue:
    """What is known of a result where no rule is."""
    if isinstance(element_type(result.type), (IntegerType, PointerType)):
        return kernel.havoc(result)
    given = [kernel.get(v) for v in op.operands]
    return Opaque(all(_is_uniform(v) for v in given) and not op.regions)


def _is_uniform(value: AnyValue) -> bool:
    if isinstance(value, Opaque):
        return value.uniform
    if isinstance(value, Number):
        single = value.single
        return single is not None and all(s.level <= 1 for s in single.base_symbols())
    return value.kind == "true"


def is_condition(value: Value) -> bool:
    """Whether it is one bit."""
    return width_of(value) == 1


def exact(kernel: State, op: Operation, expr: Expr, kind: str = "wrap") -> frozenset[Need]:
    """What it takes that the result holds a polynomial; nothing where its range shows it."""
    half = 1 << (width_of(op.results[0]) - 1)
    if kernel.space.within(expr, -half, half - 1):
        return NO_NEEDS
    return frozenset({Need(op, expr, -half, half - 1, kind)})  # type: ignore[arg-type]


def combined(kernel: State, op: Operation, function: Function) -> Number:
    """The results of all combinations of the operands' cases."""
    numbers = [kernel.number(v) for v in op.operands]
    combinations = joined(*numbers)
    if combinations is None:
        return kernel.unknown(op.results[0])
    cases = []
    for each in combinations:
        value = function(*(c.value for c in each))
        if value is None:
            return kernel.unknown(op.results[0])
        needs = needs_of(each) | exact(kernel, op, value)
        cases.append(Case(value, facts_of(each), needs))
    return Number(tuple(cases))
