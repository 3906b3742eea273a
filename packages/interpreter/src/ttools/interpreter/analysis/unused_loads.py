"""Dead loads, which Triton removes: found while it compiles, reported later.

What Triton's front end writes is compared with what its passes leave. A load that is gone may have
been merged with an equal one or belong to code that never runs; it is unused only if nothing with
an effect depends on its value, which is looked up in the module as it was. Their locations
are kept in a comment behind the final module, so that they outlast Triton's cache. Must not know
who asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.comments import comment, with_comment
from ttools.interpreter.analysis.positions import line_positions, position_of
from ttools.ir import Block, Module, Operation, Value
from ttools.ir.dataflow import block_argument_sources, control_sources, reachable
from ttools.ir.dead_code import operations_without_purpose
from ttools.ir.dialects import OPERATIONS
from ttools.ir.dialects.traits import (
    ATOMIC,
    BRANCH,
    FUNCTION,
    PURE,
    READS,
    STRUCTURED,
    UNCOUNTED,
    WRITES,
)
from ttools.ir.inlining import inline_calls
from ttools.ir.parser import parse_module

_LOADS = tuple(
    name
    for name, op in OPERATIONS.items()
    if READS in op.traits and op.traits.isdisjoint((WRITES, ATOMIC))
)
_LOAD = rf"= \"?(?:{'|'.join(_LOADS)})\b"
_COMMENT = "removed loads"


@dataclass(frozen=True)
class UnusedLoad:
    """A dead load that Triton removed.

    Attributes:
        location: where it was.
        waits: whether a loop was to wait for its value, and is removed, too.
    """

    location: SourceLocation
    waits: bool = False


def unused_loads(written: str, final: str) -> list[UnusedLoad]:
    """The dead loads that Triton removed, one of each place.

    Args:
        written: the module as the front end writes it.
        final: the module after Triton's passes.
    """
    if line_positions(written, _LOAD) <= (left := line_positions(final, _LOAD)):
        return []
    try:
        module = parse_module(written)
    except TtoolsError:  # what the front end writes and its passes take away
        return []
    for function in module.functions.values():
        _drop_unreachable_blocks(function)
    inline_calls(module)
    found = (load for load in _unused(module) if position_of(load.location) not in left)
    return list({load.location: load for load in found}.values())


def with_unused_loads(final: str, loads: list[UnusedLoad]) -> str:
    """The module with the loads in a comment behind it."""
    data = [
        [load.waits, *(position_of(each) for each in (load.location, *load.location.callers))]
        for load in loads
    ]
    return with_comment(final, _COMMENT, data)


def commented_loads(ttir: str) -> tuple[UnusedLoad, ...]:
    """The loads in such a comment; none if there is none."""
    rows: list[list[Any]] = comment(ttir, _COMMENT)
    loads = []
    for waits, *chain in rows:
        location, *callers = (SourceLocation(*data) for data in chain)
        loads.append(UnusedLoad(replace(location, callers=tuple(callers)), waits))
    return tuple(loads)


# --- which of them are dead ---------------------------------------------------------------------


def _drop_unreachable_blocks(function: Operation) -> None:
    """Takes away the blocks behind a `return`, where nothing branches."""
    if not any(op.has(BRANCH) for op in function.walk()):
        for region in function.regions:
            del region.blocks[1:]


def _unused(module: Module) -> Iterator[UnusedLoad]:
    """Loads where none is used: a function may be called for one of its values only."""
    unused = set(operations_without_purpose(module.kernel, _has_effect))
    polled = {op for loop in unused if loop.has(UNCOUNTED) for op in _polled(loop)}
    loads = [op for op in module.kernel.walk() if op.name in _LOADS and op.location is not None]
    used = {position_of(op.location) for op in loads if op.location and op not in unused}
    for op in loads:
        if op.location and op.location.line and position_of(op.location) not in used:
            yield UnusedLoad(op.location, op in polled)


def _polled(loop: Operation) -> set[Operation]:
    """The loads that a `while` loop waits for: nothing but they decide whether it goes on."""
    condition = loop.regions[0].entry.terminator.operands[0]
    inside = set(loop.walk())
    loads, carried = _origins(condition)
    for argument in carried:
        more, still_carried = _origins(*_following(argument))
        if argument.owner not in [region.entry for region in loop.regions] or still_carried:
            return set()  # it counts
        loads |= more
    return loads & inside


def _following(argument: Value) -> list[Value]:
    """What a block argument of a loop may be in a later iteration."""
    assert isinstance(argument.owner, Block)
    found = block_argument_sources(argument, argument.owner)[-1:]
    return [value for value in found if value is not None and value is not argument]


def _origins(*values: Value) -> tuple[set[Operation], set[Value]]:
    """The loads and the block arguments that values are computed from, without a look behind."""

    def sources(value: Value) -> Iterable[Value]:
        op = value.defining_op
        if op is None or op.name in _LOADS:
            return ()
        return control_sources(value) if op.has(STRUCTURED) else op.operands

    loads: set[Operation] = set()
    arguments: set[Value] = set()
    for value in reachable(values, sources):
        op = value.defining_op
        if op is not None and op.name in _LOADS:
            loads.add(op)
        holder = value.owner.parent_op if isinstance(value.owner, Block) else None
        if holder is not None and not holder.has(FUNCTION):
            arguments.add(value)
    return loads, arguments


def _has_effect(op: Operation) -> bool:
    if op.attributes.get("isVolatile", False):
        return True
    if op.name in ("tt.elementwise_inline_asm", "tt.extern_elementwise"):
        return not op.attributes.get("pure", False)
    return not (op.has(PURE, FUNCTION) or op.name in _LOADS)
