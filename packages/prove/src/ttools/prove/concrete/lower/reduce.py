"""Rules for reductions and scans."""

from __future__ import annotations

import numpy as np

from ttools.ir import IntegerType, Operation, element_type, shape_of
from ttools.ir.combining import combined_by
from ttools.prove.concrete.integers import reduced, scanned
from ttools.prove.concrete.lanes import Lanes, mixed, spread
from ttools.prove.concrete.operations import otherwise, rule
from ttools.prove.concrete.state import State


@rule("tt.reduce")
def _reduce(run: State, op: Operation) -> Lanes:
    value = _integers(run, op)
    result = None if value is None else reduced(run, op, value)
    if result is not None or len(op.operands) != 1:
        return result or otherwise(run, op, op.results[0])
    kind = element_type(op.results[0].type)
    if isinstance(kind, IntegerType):
        return otherwise(run, op, op.results[0])
    whole = spread(run.get(op.operands[0]).data, (run.count, *shape_of(op.operands[0].type)))
    total = np.sum(whole.astype(np.uint64), axis=op.axis + 1, dtype=np.uint64)
    return Lanes(mixed("reduce", total))


@rule("tt.scan")
def _scan(run: State, op: Operation) -> Lanes:
    value = _integers(run, op)
    result = None if value is None else scanned(run, op, value)
    return result or otherwise(run, op, op.results[0])


def _integers(run: State, op: Operation) -> Lanes | None:
    """Return the operand of a reduction or scan if all of its elements are known integers.

    Returns:
        The operand; None if an element is not a known integer, or if the combine function consists
        of more than one operation.
    """
    value, kind = run.get(op.operands[0]), element_type(op.operands[0].type)
    if combined_by(op) is None or not isinstance(kind, IntegerType) or kind.width == 1:
        return None
    if value.unknown is not None and value.unknown.any():
        return None
    shape = (run.count, *shape_of(op.operands[0].type))
    shadow = None if value.shadow is None else spread(value.shadow, shape)
    return Lanes(spread(value.data, shape), shadow)
