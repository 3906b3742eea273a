"""Integers and conditions in other widths, and constants."""

from __future__ import annotations

from dataclasses import replace

from ttools.ir import (
    Constant,
    IntegerType,
    Operation,
    as_signed,
    element_type,
)
from ttools.ir.expr import as_expr
from ttools.prove.attributes import same_elements, width_of
from ttools.prove.symbolic.operations import exact, is_condition, otherwise, rule
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import (
    TRUE,
    UNKNOWN,
    AnyValue,
    Case,
    Logic,
    Need,
    Number,
    Opaque,
    negated,
    number,
)


@rule("arith.extui")
def _extend_unsigned(kernel: State, op: Operation) -> AnyValue:
    value = kernel.get(op.operands[0])
    if isinstance(value, Logic):
        return kernel.from_logic(value, op.results[0])
    known = kernel.number(op.operands[0])
    cases = []
    for case in known.cases:
        low = kernel.space.range(case.value)[0]
        needs = case.needs
        if low is None or low < 0:
            fresh = _without_sign(kernel, op, case)
            if fresh is not None:
                cases.append(fresh)
                continue
        if low is None or low < 0:
            high = (1 << (width_of(op.operands[0]) - 1)) - 1
            needs = needs | {Need(op, case.value, 0, high, "model")}
        cases.append(Case(case.value, case.when, needs))
    return Number(tuple(cases))


def _without_sign(kernel: State, op: Operation, case: Case) -> Case | None:
    """Data of which nothing is known, as a number without a sign; None if something is."""
    half = 1 << (width_of(op.operands[0]) - 1)
    symbols = case.value.symbols()
    (symbol,) = symbols if len(symbols) == 1 else (None,)
    if symbol is None or symbol.kind != "data" or case.value != as_expr(symbol) or case.needs:
        return None
    if kernel.space.range_of(symbol) != (-half, half - 1) or symbol in kernel.space.elements:
        return None
    return replace(case, value=as_expr(kernel.data(op.results[0], 0, 2 * half - 1)))


@rule("arith.extsi", "arith.index_cast")
def _extend(kernel: State, op: Operation) -> AnyValue:
    value = kernel.get(op.operands[0])
    if isinstance(value, Logic) and not is_condition(op.results[0]):
        # An extension by sign has all bits set.
        ones = kernel.from_logic(value, op.operands[0])
        return Number(tuple(Case(-c.value, c.when, c.needs) for c in ones.cases))
    if isinstance(value, Opaque):
        return otherwise(kernel, op, op.results[0])
    return value


@rule("arith.trunci")
def _truncate(kernel: State, op: Operation) -> AnyValue:
    if is_condition(op.results[0]):
        return UNKNOWN
    value = kernel.number(op.operands[0])
    return Number(
        tuple(Case(c.value, c.when, c.needs | exact(kernel, op, c.value)) for c in value.cases)
    )


@rule("tt.bitcast")
def _bitcast(kernel: State, op: Operation) -> AnyValue:
    """Pointers to elements of one size count them alike; other values keep their bits."""
    value, result = kernel.get(op.operands[0]), op.results[0]
    kinds = [element_type(v.type) for v in (op.operands[0], result)]
    integers = all(isinstance(k, IntegerType) for k in kinds)
    if isinstance(value, Opaque) or not (integers or same_elements(*kinds)):
        return otherwise(kernel, op, result)
    return value


@rule("arith.constant")
def _constant(kernel: State, op: Operation) -> AnyValue:
    value, result = op.attributes["value"], op.results[0]
    kind = element_type(result.type)
    if not isinstance(kind, IntegerType):
        return Opaque(isinstance(value, Constant) and value.is_splat)
    if not isinstance(value, Constant) or not value.is_splat:
        return otherwise(kernel, op, result)
    bits = as_signed(value.bits[0], kind.width)
    if kind.width == 1:
        return TRUE if bits else negated(TRUE)
    return number(bits)
