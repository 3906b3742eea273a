"""Positions of operations in the source, which stay the same however a kernel is rewritten."""

from __future__ import annotations

import re
from typing import TypeAlias

from ttools.core.compilation.quoted import unescape
from ttools.core.location import SourceLocation
from ttools.ir.parser.locations import first_column_of

Position: TypeAlias = tuple[str, int, int]
"""File, line and column, counted from 1; the innermost of an operation in a called function."""

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
#: The first is the innermost: of `callsite(callee at caller)`, of `"variable"(location)`.
_POSITION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)|(#loc\d*)')


def position_of(location: SourceLocation | None) -> Position | None:
    """The position of a location; inlining changes the rest of it."""
    return None if location is None else (location.file, location.line, location.column)


def line_positions(ttir: str, pattern: str) -> set[Position]:
    """The positions of the operations in whose lines something is found, without parsing them.

    Args:
        ttir: the text of a module.
        pattern: a regular expression; it must not reach beyond the attributes.
    """
    found = re.findall(rf"{pattern}.* loc\((.*)\)$", ttir, re.MULTILINE)
    if not found:
        return set()
    aliases: dict[str, str] = dict(_ALIAS.findall(ttir))
    shift = 1 - first_column_of(ttir)
    positions = (_innermost(text, aliases) for text in found)
    return {(each[0], each[1], each[2] + shift) for each in positions if each is not None}


def _innermost(text: str, aliases: dict[str, str]) -> Position | None:
    while found := _POSITION.search(text):
        file, line, column, alias = found.groups()
        if alias is None:
            return unescape(file), int(line), int(column)
        text = aliases.get(alias, "")
    return None
