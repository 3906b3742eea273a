"""Evaluation of single operations at all sizes.

Integer operations and views are evaluated by their declarations in `ttools.ir`, and all other
operations by the rules in `lower`. A result is that of machine integers if its obligations are met.
If there is neither a declaration nor a rule, an integer result may have any value of its type.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.ir import (
    IntegerType,
    Operation,
    PointerType,
    Value,
    element_type,
)
from ttools.prove.rules import Rules, require_modelled
from ttools.prove.symbolic.integers import computed
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import AnyValue, Number, Opaque
from ttools.prove.symbolic.views import viewed

#: Rules for operations with one result.
rule: Rules[Callable[[State, Operation], AnyValue]] = Rules()
#: Rules for operations with several results.
several: Rules[Callable[[State, Operation], list[AnyValue]]] = Rules()


def evaluate(kernel: State, op: Operation) -> list[AnyValue]:
    """Return the results of an operation that neither accesses memory nor has control flow."""
    number = computed(kernel, op)
    if number is not None:
        return [number]
    views = [view for result in op.results if (view := viewed(kernel, result)) is not None]
    if views and len(views) == len(op.results):
        return views
    of_one, of_several = rule.get(op.name), several.get(op.name)
    if of_one is not None and len(op.results) == 1:
        return [of_one(kernel, op)]
    if of_several is not None:
        return of_several(kernel, op)
    require_modelled(op)
    return [otherwise(kernel, op, result) for result in op.results]


def otherwise(kernel: State, op: Operation, result: Value) -> AnyValue:
    """Return the result of an operation without a rule.

    An integer or pointer may have any value of its type. A float is unknown, but uniform if all
    operands are uniform.
    """
    if isinstance(element_type(result.type), (IntegerType, PointerType)):
        return kernel.havoc(result)
    operands = [kernel.get(v) for v in op.operands]
    return Opaque(all(_is_uniform(v) for v in operands) and not op.regions)


def _is_uniform(value: AnyValue) -> bool:
    if isinstance(value, Opaque):
        return value.uniform
    if isinstance(value, Number):
        single = value.single
        return single is not None and all(s.level <= 1 for s in single.base_symbols())
    return value.kind == "true"
