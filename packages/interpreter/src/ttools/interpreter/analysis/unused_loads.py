"""Dead loads that Triton removes. They are found during compilation and reported later.

The module that Triton's front end writes is compared with the module after Triton's passes. A load
that has disappeared is not necessarily unused: it may have been merged with an equal load, or have
been in unreachable code. It is unused only if no operation with an effect depends on its value,
which is determined in the module of the front end. The locations are kept in a comment after the
final module, so that Triton's cache stores them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.positions import line_positions, position_of
from ttools.interpreter.analysis.ttir_comments import comment, with_comment
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
        waits: True if a loop that was meant to wait for the loaded value was removed, too.
    """

    location: SourceLocation
    waits: bool = False


def unused_loads(written: str, final: str) -> list[UnusedLoad]:
    """Return the dead loads that Triton removed, one per location.

    Args:
        written: The module as the front end writes it.
        final: The module after Triton's passes.
    """
    if line_positions(written, _LOAD) <= (left := line_positions(final, _LOAD)):
        return []
    try:
        module = parse_module(written)
    except TtoolsError:  # the module has unsupported operations, which the passes remove
        return []
    for function in module.functions.values():
        _drop_unreachable_blocks(function)
    inline_calls(module)
    dead = (load for load in _unused(module) if position_of(load.location) not in left)
    return list({load.location: load for load in dead}.values())


def with_unused_loads(final: str, loads: list[UnusedLoad]) -> str:
    """Return the module followed by a comment with the loads."""
    data = [
        [load.waits, *map(position_of, (load.location, *load.location.callers))] for load in loads
    ]
    return with_comment(final, _COMMENT, data)


def commented_loads(ttir: str) -> tuple[UnusedLoad, ...]:
    """Return the loads in the comment that `with_unused_loads` appended."""
    rows: list[list[Any]] = comment(ttir, _COMMENT)
    loads = []
    for waits, *chain in rows:
        location, *callers = (SourceLocation(*data) for data in chain)
        loads.append(UnusedLoad(replace(location, callers=tuple(callers)), waits))
    return tuple(loads)


# ---- which loads are dead


def _drop_unreachable_blocks(function: Operation) -> None:
    """Remove the blocks after a `return`, to which nothing branches."""
    if not any(op.has(BRANCH) for op in function.walk()):
        for region in function.regions:
            del region.blocks[1:]


def _unused(module: Module) -> Iterator[UnusedLoad]:
    """Yield the unused loads at positions where no load is used.

    If a function was inlined several times, a load in it is unused only if all copies of the load
    are.
    """
    unused = set(operations_without_purpose(module.kernel, has_effect))
    polled = {op for loop in unused if loop.has(UNCOUNTED) for op in _polled(loop)}
    loads = [op for op in module.kernel.walk() if op.name in _LOADS and op.location is not None]
    used = {position_of(op.location) for op in loads if op.location and op not in unused}
    for op in loads:
        if op.location and op.location.line and position_of(op.location) not in used:
            yield UnusedLoad(op.location, op in polled)


def _polled(loop: Operation) -> set[Operation]:
    """Return the loads that a `while` loop waits for, because they alone determine whether it ends.

    The result is empty if the condition also depends on something that the loop counts.
    """
    condition = loop.regions[0].entry.terminator.operands[0]
    inside = set(loop.walk())
    loads, carried = _origins(condition)
    for argument in carried:
        more, still_carried = _origins(*_following(argument))
        if argument.owner not in [region.entry for region in loop.regions] or still_carried:
            return set()  # the loop counts
        loads |= more
    return loads & inside


def _following(argument: Value) -> list[Value]:
    """Return the value that a block argument of a loop has in later iterations.

    The result is empty if the argument does not change.
    """
    assert isinstance(argument.owner, Block)
    sources = block_argument_sources(argument, argument.owner)[-1:]
    return [value for value in sources if value is not None and value is not argument]


def _origins(*values: Value) -> tuple[set[Operation], set[Value]]:
    """Return the loads and block arguments from which values are computed.

    The search stops at these loads and arguments: it does not continue with the address of a load,
    for example.
    """

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


def has_effect(op: Operation) -> bool:
    """Return whether an operation must not be removed if its results are unused."""
    if op.attributes.get("isVolatile", False):
        return True
    if op.name in ("tt.elementwise_inline_asm", "tt.extern_elementwise"):
        return not op.attributes.get("pure", False)
    return not (op.has(PURE, FUNCTION) or op.name in _LOADS)
