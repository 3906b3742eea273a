"""Which Python variable an argument of a loop's body holds.

Triton names what assignments compute, and the arguments of a `while`; of a `for`, what it carries
is named where it is yielded, and the counter in the source only. Must not know who asks.
"""

from __future__ import annotations

import re

from ttools.core.location import SourceLocation, source_lines
from ttools.interpreter.ir import Block, Operation, Value

_COUNTER = re.compile(r"\s*for\s+(\w+)\s+in\b")


def argument_name(value: Value) -> str:
    """The variable that a block argument holds when a turn begins; `""` if it is not known."""
    block = value.owner
    loop = block.parent.parent if isinstance(block, Block) and block.parent else None
    if loop is None or not isinstance(block, Block):
        return ""
    if loop.name == "scf.while":
        return _name(value.location)
    if loop.name != "scf.for":
        return ""
    if value.index == 0:
        return _counter(loop)
    carried = block.terminator.operands[value.index - 1]
    made = carried.defining_op
    return _name(carried.location) if made is not None and not made.regions else ""


def _name(place: SourceLocation | None) -> str:
    return place.name or "" if place is not None else ""


def _counter(loop: Operation) -> str:
    place = loop.location
    lines = source_lines(place.file)[place.line - 1 : place.line] if place is not None else []
    found = _COUNTER.match(lines[0]) if lines else None
    return found[1] if found else ""
