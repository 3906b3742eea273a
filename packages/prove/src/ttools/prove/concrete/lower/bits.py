"""Conditions, comparisons, choices, and bits of integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ttools.ir import Operation
from ttools.prove.attributes import width_of
from ttools.prove.concrete.lanes import Lanes, either, fit, select
from ttools.prove.concrete.operations import combination, plain, rule
from ttools.prove.concrete.state import State


def _logic(function: Callable[[Any, Any], Any], run: State, op: Operation) -> Lanes:
    """Of conditions a known operand may decide alone."""
    decisive = function is np.bitwise_or
    a, b = (run.get(v) for v in op.operands)
    found = plain(function, run, op)
    if width_of(op.results[0]) != 1 or found.unknown is None:
        return found
    settled = [
        (np.asarray(p.data, bool) == decisive)
        & (~p.unknown if p.unknown is not None else np.ones(1, bool))
        for p in (a, b)
    ]
    sure = np.logical_or(*fit(*settled))
    unknown, sure = fit(found.unknown, sure)
    return Lanes(np.where(sure, decisive, found.data), unknown=unknown & ~sure)


rule.each(_logic, {"arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or})
rule.each(plain, {"arith.xori": np.bitwise_xor, "arith.shrsi": np.right_shift})
combination("arith.xori")(np.bitwise_xor)


@rule("arith.cmpi")
def _compare(run: State, op: Operation) -> Lanes:
    predicate = str(op.attributes["predicate"])
    a, b = (run.get(v) for v in op.operands)
    left, right = fit(a.data, b.data)
    unknown = either(a.unknown, b.unknown)
    if a.base is not None or b.base is not None:
        unknown = np.ones(np.broadcast_shapes(left.shape, right.shape), bool)
    if predicate not in ("eq", "ne"):
        if predicate.startswith("u"):
            left, right = left.astype(np.uint64), right.astype(np.uint64)
        predicate = predicate[1:]
    return Lanes(getattr(operator, predicate)(left, right), unknown=unknown)


@rule("arith.select")
def _select(run: State, op: Operation) -> Lanes:
    return select(*(run.get(v) for v in op.operands))
