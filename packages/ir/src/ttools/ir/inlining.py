"""Inlining of calls, so that passes which follow values need to consider only one function.

Triton itself inlines all functions except those marked `noinline`. This module also inlines
functions that are marked `noinline`, and reports the calls that cannot be inlined.
"""

from __future__ import annotations

from ttools.core.location import SourceLocation, inlined
from ttools.ir import Block, Module, Operation, Region, Value
from ttools.ir.dialects.traits import CALL
from ttools.ir.rewriting import add_operand, replace_uses


def inline_calls(module: Module) -> list[Operation]:
    """Replace calls by the bodies of their callees, and remove callees that become unused.

    Returns:
        The remaining calls, whose callee has several blocks (an early return) or is recursive.
    """
    kernel = module.kernel
    while any(_inline_in(block, module) for block in _blocks(kernel)):
        pass
    remaining = [op for op in kernel.walk() if op.has(CALL)]
    if not remaining:
        name = str(kernel.attributes["sym_name"])
        module.functions = {name: kernel}
    return remaining


def _blocks(op: Operation) -> list[Block]:
    return [b for inner in op.walk() for region in inner.regions for b in region.blocks]


def _inline_in(block: Block, module: Module) -> bool:
    """Inline the calls that are directly in a block, and return whether there were any."""
    operations: list[Operation] = []
    for op in block.operations:
        callee = module.functions.get(str(op.attributes.get("callee")))
        if not op.has(CALL) or callee is None or not _can_inline(callee, module):
            operations.append(op)
            continue
        body = callee.regions[0].entry
        values = dict(zip(body.arguments, op.operands, strict=True))
        copies = [_clone(inner, values, block, op.location) for inner in body.operations[:-1]]
        for result, returned in zip(op.results, body.terminator.operands, strict=True):
            replace_uses(result, values[returned])
        for index, operand in enumerate(op.operands):
            operand.uses.remove((op, index))
        operations += copies
    changed = len(operations) != len(block.operations) or any(
        a is not b for a, b in zip(operations, block.operations, strict=True)
    )
    block.operations[:] = operations
    return changed


def _can_inline(callee: Operation, module: Module) -> bool:
    return len(callee.regions[0].blocks) == 1 and not _reaches(callee, callee, module, set())


def _reaches(start: Operation, target: Operation, module: Module, seen: set[int]) -> bool:
    """Return whether calls lead from `start` to `target`."""
    for op in start.walk():
        callee = module.functions.get(str(op.attributes.get("callee")))
        if not op.has(CALL) or callee is None:
            continue
        if callee is target:
            return True
        if id(callee) not in seen:
            seen.add(id(callee))
            if _reaches(callee, target, module, seen):
                return True
    return False


def _clone(
    op: Operation, values: dict[Value, Value], parent: Block, call: SourceLocation | None
) -> Operation:
    """Return a copy of an operation and its regions.

    Args:
        values: Replacements of operands. The function adds the copies of results and block
            arguments.
        parent: Block that the copy belongs to.
        call: Location of the call that is inlined.
    """
    copy = Operation(
        op.name,
        attributes=dict(op.attributes),
        location=inlined(op.location, call),
        parent=parent,
    )
    for operand in op.operands:
        add_operand(copy, values.get(operand, operand))
    for result in op.results:
        location = inlined(result.location, call)
        values[result] = Value(result.type, result.name, copy, result.index, location)
        copy.results.append(values[result])
    for region in op.regions:
        copied = Region(parent=copy)
        copy.regions.append(copied)
        for block in region.blocks:
            target = Block(parent=copied)
            copied.blocks.append(target)
            for argument in block.arguments:
                location = inlined(argument.location, call)
                values[argument] = Value(
                    argument.type, argument.name, target, argument.index, location
                )
                target.arguments.append(values[argument])
        for block, target in zip(region.blocks, copied.blocks, strict=True):
            target.operations += [_clone(inner, values, target, call) for inner in block.operations]
    return copy
