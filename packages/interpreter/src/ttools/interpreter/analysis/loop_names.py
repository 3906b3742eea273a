"""Names of the Python variables that the arguments of a loop's body hold.

Triton records the names of assigned values and of the arguments of a `while`. For a `for`, the name
of a carried variable is that of the yielded value, and the counter's is only in the source.
"""

from __future__ import annotations

import re

from ttools.core.location import SourceLocation, source_line
from ttools.ir import Block, Operation, Value
from ttools.ir.dialects.traits import COUNTED, UNCOUNTED

_COUNTER = re.compile(r"\s*for\s+(\w+)\s+in\b")


def argument_name(value: Value) -> str:
    """Return the variable that a block argument holds at the start of an iteration, or `""`."""
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
    match = _COUNTER.match(source_line(location.file, location.line)) if location else None
    return match[1] if match else ""
