"""Positions of operations in the source, which identify operations in rewritten kernels, too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ttools.core.compilation.string_escapes import unescape
from ttools.core.location import SourceLocation
from ttools.ir.parser.locations import first_column_of

Position: TypeAlias = tuple[str, int, int]
"""File, line and column, counted from 1; the innermost if the operation was inlined."""

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
#: In `callsite(callee at caller)` and `"variable"(location)`, the first match is the innermost
#: position.
_POSITION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)|(#loc\d*)')

#: The name of a variable and the alias of its position.
_NAMED = re.compile(r'"((?:[^"\\]|\\.)*)"\((#loc\d*)\)')


def position_of(location: SourceLocation | None) -> Position | None:
    """Return the position of a location, ignoring its callers, which inlining may change."""
    return None if location is None else (location.file, location.line, location.column)


def line_positions(ttir: str, pattern: str) -> set[Position]:
    """Return the positions of operations whose lines match a pattern, without parsing the module.

    Args:
        ttir: The text of a module.
        pattern: A regular expression that must not consume the location at the end of a line.
    """
    locations = re.findall(rf"{pattern}.* loc\((.*)\)$", ttir, re.MULTILINE)
    if not locations:
        return set()
    aliases: dict[str, str] = dict(_ALIAS.findall(ttir))
    shift = 1 - first_column_of(ttir)
    positions = (_innermost(text, aliases) for text in locations)
    return {(p[0], p[1], p[2] + shift) for p in positions if p is not None}


def named_positions(ttir: str, chosen: Sequence[str]) -> dict[str, SourceLocation]:
    """Return the locations that name a variable, keyed by alias, without parsing the module.

    Args:
        ttir: The text of a module.
        chosen: Aliases of locations. Those that name no variable are left out.
    """
    shift = 1 - first_column_of(ttir) if chosen else 0
    locations: dict[str, SourceLocation] = {}
    for alias in chosen:
        named = _NAMED.fullmatch(_location(alias, ttir))
        position = _innermost(named[2], ttir) if named is not None else None
        if named is not None and position is not None:
            file, line, column = position
            locations[alias] = SourceLocation(file, line, column + shift, unescape(named[1]))
    return locations


def _innermost(text: str, aliases: Mapping[str, str] | str) -> Position | None:
    """Return the innermost position of a location.

    Args:
        text: Text of the location.
        aliases: The aliases of the module, or its text if few locations are looked up.
    """
    while match := _POSITION.search(text):
        file, line, column, alias = match.groups()
        if alias is None:
            return unescape(file), int(line), int(column)
        text = _location(alias, aliases) if isinstance(aliases, str) else aliases.get(alias, "")
    return None


def _location(alias: str, ttir: str) -> str:
    """Return the text of the location that has an alias; empty if there is none."""
    begin = f"{alias} = loc("
    if ttir.startswith(begin):
        start = len(begin)
    elif (at := ttir.find(f"\n{begin}")) >= 0:
        start = at + 1 + len(begin)
    else:
        return ""
    return ttir[start : ttir.index("\n", start) - 1]
