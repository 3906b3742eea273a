"""Which Python variable an argument of a loop's body holds.

Triton names what assignments compute, and the arguments of a `while`; of a `for`, what it carries
is named where it is yielded, and the counter in the source only. Must not know who asks.
"""

from __future__ import annotations

import re

from ttools.core.location import SourceLocation, source_line
from ttools.ir import Block, Operation, Value
from ttools.ir.dialects.traits import COUNTED, UNCOUNTED

_COUNTER = re.compile(r"\s*for\s+(\w+)\s+in\b")


def argument_name(value: Value) -> str:
    """The variable a block argument holds as an iteration begins; `""` if it is not known."""
    block = value.owner
    if not isinstance(block, Block) or (loop := block.parent_op) is None:
        return ""
    if loop.has(UNCOUNTED):
        return _name(value.location)
    if not loop.has(COUNTED):
        return ""
    if value.index == 0:
        return _counter(loop)
    carried = block.terminator.operands[value.index - 1]
    made = carried.defining_op
    return _name(carried.location) if made is not None and not made.regions else ""


def _name(location: SourceLocation | None) -> str:
    return location.name or "" if location is not None else ""


def _counter(loop: Operation) -> str:
    location = loop.location
    found = _COUNTER.match(source_line(location.file, location.line)) if location else None
    return found[1] if found else ""
