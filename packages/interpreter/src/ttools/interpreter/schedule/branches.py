"""What an `scf.if` yields: computed where it is yielded, or in the slot of the result.

A branch's values are wanted once, when the branch ends, so expressions need no slot of their own,
and a value that has one can have the result's.  Owns the two questions that this raises, which
values may share the result's slot and which loads may wait until the branch ends; must not know
how anything is emitted.
"""

from __future__ import annotations

import ttools.interpreter.elementwise as elementwise
from ttools.interpreter.analysis.effects import synchronises
from ttools.interpreter.schedule.plan import Plan
from ttools.ir import Block, Operation, Value
from ttools.ir.dialects.traits import CALL, CONDITIONAL, WRITES


def blocks_of(op: Operation) -> list[Block]:
    """The branches of an `scf.if` that exist."""
    return [region.entry for region in op.regions if region.blocks]


def yielded_twice(block: Block) -> list[Value]:
    """Values that a branch yields as several results: to be computed once."""
    values = block.terminator.operands
    return [v for n, v in enumerate(values) if any(v is other for other in values[:n])]


def share_results(op: Operation, plan: Plan) -> None:
    """Assigns values that a branch itself makes the slot of the result they become.

    Nothing reads or writes a result's slot while a branch runs, so only what lives longer must
    keep a slot of its own: values from outside, and those that another result has taken.

    Args:
        op: an `scf.if` whose results are stored.
        plan: which values have slots; those that come to share one lose theirs.
    """
    for block in blocks_of(op):
        for yielded, result in zip(block.terminator.operands, op.results, strict=True):
            maker = yielded.defining_op
            if yielded not in plan.stored or maker is None or maker.parent is not block:
                continue
            if plan.stored[yielded] == plan.stored[plan.owner(result)]:
                plan.share(yielded, result)


def waits_for_yield(load: Operation) -> bool:
    """Whether a load may be executed when its branch yields what is computed from it.

    It is executed once there, chunk by chunk, if elementwise operations lead from it to the yield
    and nothing else uses them. Nothing in between may write or let other programs be observed.
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
    """Whether an operation writes memory, or lets what other programs wrote be observed."""
    traits = op.traits
    return (
        WRITES in traits
        or CALL in traits
        or synchronises(op)
        or (op.name == "tt.elementwise_inline_asm" and elementwise.has_effects(op))
    )
