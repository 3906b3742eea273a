"""Placement of the tensors that the branches of an `scf.if` yield.

A value that a branch yields is needed only at the end of the branch. If it is an expression, it is
computed there, directly into the slot of the result of the `scf.if`. If it must be stored, it may
share the slot of that result instead of having its own. This module decides which values may share
the slot, and which loads may be delayed until the yield.
"""

from __future__ import annotations

import ttools.interpreter.elementwise as elementwise
from ttools.interpreter.analysis.effects import synchronises
from ttools.interpreter.schedule.plan import Plan
from ttools.ir import Block, Operation, Value
from ttools.ir.dialects.traits import CALL, CONDITIONAL, WRITES


def blocks_of(op: Operation) -> list[Block]:
    """Return the blocks of an `scf.if`; without `else`, there is only one."""
    return [region.entry for region in op.regions if region.blocks]


def yielded_twice(block: Block) -> list[Value]:
    """Return the values that a branch yields for more than one result.

    They are stored, so that they are computed once.
    """
    values = block.terminator.operands
    return [v for n, v in enumerate(values) if any(v is other for other in values[:n])]


def share_results(op: Operation, plan: Plan) -> None:
    """Let stored values that a branch yields share the slot of the result that they become.

    This is possible because no operation reads or writes the result's slot while a branch runs. A
    value keeps its own slot if it is defined outside the branch, or yielded for two results.

    Args:
        op: An `scf.if` whose results are stored.
        plan: The plan, which is changed.
    """
    for block in blocks_of(op):
        for yielded, result in zip(block.terminator.operands, op.results, strict=True):
            maker = yielded.defining_op
            if yielded not in plan.stored or maker is None or maker.parent is not block:
                continue
            if plan.stored[yielded] == plan.stored[plan.owner(result)]:
                plan.share(yielded, result)


def waits_for_yield(load: Operation) -> bool:
    """Return whether a load in a branch may be delayed until the yield.

    At the yield, the load is executed once, chunk by chunk. Therefore it must have a single use,
    which leads to the yield through elementwise operations only. In addition, no operation after
    the load may write memory or observe other programs.
    """
    block = load.parent
    if block is None or load.attributes.get("isVolatile"):
        return False
    terminator = block.terminator
    owner = block.parent.parent if block.parent is not None else None
    if owner is None or not owner.has(CONDITIONAL):
        return False
    value = load.results[0]
    while True:
        if len(value.uses) != 1:
            return False
        ((user, _),) = value.uses
        if user is terminator:
            break
        if user.parent is not block or len(user.results) != 1:
            return False
        if not elementwise.is_elementwise(user.name) or elementwise.has_effects(user):
            return False
        value = user.results[0]
    after = block.operations[block.operations.index(load) + 1 :]
    return not any(is_observable(inner) for op in after for inner in op.walk())


def is_observable(op: Operation) -> bool:
    """Return whether an operation writes memory or observes writes of other programs."""
    traits = op.traits
    return WRITES in traits or CALL in traits or synchronises(op) or elementwise.has_effects(op)
