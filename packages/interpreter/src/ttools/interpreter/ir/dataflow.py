"""Where values come from: through branches and loops, and back over any number of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from ttools.interpreter.ir import Block, Operation, Value


def backward_slice(
    values: Iterable[Value], sources: Callable[[Value], Iterable[Value]]
) -> Iterator[Value]:
    """The values that some depend on, each once, the nearest first and themselves before all.

    Args:
        sources: what a value comes from; nothing where the slice is to end.
    """
    pending = deque(dict.fromkeys(values))
    seen = set(pending)
    while pending:
        value = pending.popleft()
        yield value
        new = [source for source in dict.fromkeys(sources(value)) if source not in seen]
        seen.update(new)
        pending += new


def control_sources(value: Value) -> list[Value]:
    """The values that control flow may move to a block argument or to a result of a region."""
    op = value.defining_op
    if op is not None:
        return region_result_sources(op, value.index)
    assert isinstance(value.owner, Block)
    return [v for v in block_argument_sources(value, value.owner) if v is not None]


def block_argument_sources(value: Value, block: Block) -> list[Value | None]:
    """The values that may flow into a block argument; None where that cannot be seen."""
    region = block.parent
    op = block.parent_op
    if region is None or op is None:
        return [None]
    if op.name == "scf.for":
        n = value.index - 1
        return [op.operands[3 + n], block.terminator.operands[n]] if n >= 0 else []
    if op.name == "scf.while":
        if block is op.regions[0].entry:
            return [op.operands[value.index], op.regions[1].entry.terminator.operands[value.index]]
        return [op.regions[0].entry.terminator.operands[1 + value.index]]
    if op.name == "tt.func" and block is region.entry:
        return [None]
    incoming: list[Value | None] = []
    for other in region.blocks:
        for target, forwarded in other.terminator.successors:
            if target is block:
                incoming.append(forwarded[value.index])
    return incoming or [None]


def region_result_sources(op: Operation, index: int) -> list[Value]:
    """The values that may flow into result `index` of a structured control-flow operation."""
    if op.name == "scf.while":
        return [op.regions[0].entry.terminator.operands[1 + index]]
    sources = [r.entry.terminator.operands[index] for r in op.regions if r.blocks]
    if op.name == "scf.for":
        sources.append(op.operands[3 + index])
    return sources
