"""Dead loads, which Triton removes: found while it compiles, reported later.

What Triton's front end writes is compared with what its passes leave. A load that is gone may have
been merged with an equal one or belong to code that never runs; it is unused only if nothing with
an effect depends on its value, which is looked up in the module as it was. Their locations
are kept in a comment behind the final module, so that they outlast Triton's cache. Must not know
who asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.location import SourceLocation
from ttools.interpreter.dialects import OPERATIONS
from ttools.interpreter.dialects.traits import BRANCH, FUNCTION, PURE, READS, WRITES
from ttools.interpreter.ir import Module, Operation
from ttools.interpreter.ir.dead_code import operations_without_purpose
from ttools.interpreter.ir.inlining import inline_calls
from ttools.interpreter.parser import parse_module

_Position = tuple[str, int, int]

_LOADS = tuple(
    name for name, op in OPERATIONS.items() if READS in op.traits and WRITES not in op.traits
)
_LOAD = re.compile(rf"= \"?(?:{'|'.join(_LOADS)})\b.* loc\((.*)\)$", re.MULTILINE)
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
#: The first is the innermost: of `callsite(callee at caller)`, of `"variable"(location)`.
_POSITION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)|(#loc\d*)')

_COMMENT = "// ttools: unused loads "


def unused_loads(written: str, final: str) -> list[SourceLocation]:
    """Where the dead loads were that Triton removed.

    Args:
        written: the module as the front end writes it.
        final: the module after Triton's passes.
    """
    if _load_positions(written) <= (left := _load_positions(final)):
        return []
    try:
        module = parse_module(written)
    except TtoolsError:  # what the front end writes and its passes take away
        return []
    for function in module.functions.values():
        _drop_unreachable_blocks(function)
    inline_calls(module)
    return list(dict.fromkeys(each for each in _unused(module) if _key(each) not in left))


def with_comment(final: str, locations: list[SourceLocation]) -> str:
    """The module with the locations in a comment behind it."""
    if not locations:
        return final
    data = [[_as_data(each) for each in (location, *location.callers)] for location in locations]
    return f"{final.rstrip()}\n{_COMMENT}{json.dumps(data)}\n"


def commented_locations(ttir: str) -> tuple[SourceLocation, ...]:
    """The locations in such a comment; none if there is none."""
    start = ttir.rfind(_COMMENT)
    if start < 0:
        return ()
    chains: list[list[Any]] = json.loads(ttir[start + len(_COMMENT) :])
    return tuple(
        replace(location, callers=tuple(callers))
        for location, *callers in ([SourceLocation(*data) for data in chain] for chain in chains)
    )


def _as_data(location: SourceLocation) -> list[object]:
    return [location.file, location.line, location.column]


def _key(location: SourceLocation) -> _Position:
    return location.file, location.line, location.column


# --- where loads are ----------------------------------------------------------------------------


def _load_positions(ttir: str) -> set[_Position]:
    """Files, lines and columns of the loads in a module's text."""
    found = _LOAD.findall(ttir)
    if not found:
        return set()
    aliases: dict[str, str] = dict(_ALIAS.findall(ttir))
    return {position for text in found if (position := _innermost(text, aliases)) is not None}


def _innermost(text: str, aliases: dict[str, str]) -> _Position | None:
    while found := _POSITION.search(text):
        file, line, column, alias = found.groups()
        if alias is None:
            return str(json.loads(f'"{file}"')), int(line), int(column)
        text = aliases.get(alias, "")
    return None


# --- which of them are dead ---------------------------------------------------------------------


def _drop_unreachable_blocks(function: Operation) -> None:
    """Takes away the blocks behind a `return`, where nothing branches."""
    if not any(op.has(BRANCH) for op in function.walk()):
        for region in function.regions:
            del region.blocks[1:]


def _unused(module: Module) -> Iterator[SourceLocation]:
    """Locations where no load is used: a function may be called for one of its values only."""
    unused = set(operations_without_purpose(module.kernel, _has_effect))
    loads = [op for op in module.kernel.walk() if op.name in _LOADS and op.location is not None]
    used = {_key(op.location) for op in loads if op.location and op not in unused}
    for op in loads:
        if op.location and op.location.line and _key(op.location) not in used:
            yield op.location


def _has_effect(op: Operation) -> bool:
    if op.attributes.get("isVolatile", False):
        return True
    if op.name in ("tt.elementwise_inline_asm", "tt.extern_elementwise"):
        return not op.attributes.get("pure", False)
    return not (op.has(PURE, FUNCTION) or op.name in _LOADS)
