"""Conversion of MLIR locations to `SourceLocation`.

Locations are defined at the end of a module and refer to each other. The table therefore stores
their text, and parses a location when an operation first refers to it. Triton uses three kinds: a
position in a file; a name (the Python variable) with a position; and a call site, which consists of
a position inside an inlined function and the position of the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ttools.core.location import SourceLocation, inlined
from ttools.ir.parser.cursor import Cursor
from ttools.ir.parser.lexer import Source

_UNKNOWN_FILE = "<unknown>"

# Matches the definitions of almost all aliases, because a single regular expression is fast;
# `LocationTable.parse` parses all other definitions.
_COMMON = re.compile(
    r"""loc\(
    (?: "([^"\\\n]*)":(\d+):(\d+)
      | "([^"\\\n]*)"\((\#[\w$.-]+)\)
      | callsite\((\#[\w$.-]+)\ at\ (\#[\w$.-]+)\)
    )\)\s*""",
    re.VERBOSE,
)


_COLUMN_ZERO = re.compile(r'loc\("(?:[^"\\\n]|\\.)*":\d+:0\)')


def first_column_of(ttir: str) -> int:
    """Return the number that a module's locations use for the first column of a line.

    It is 0 if any location has column 0, otherwise 1. In Triton 3.6 and 3.7, the locations of all
    functions have column 0.
    """
    return 0 if ":0)" in ttir and _COLUMN_ZERO.search(ttir) else 1


class LocationTable:
    """The location aliases of a module, read on demand."""

    def __init__(
        self, text: str, file: str, spans: dict[str, tuple[int, int]], first_column: int = 1
    ) -> None:
        """Create the table.

        Args:
            text: The text of the module.
            file: Name of the text in errors.
            spans: For each alias (`#loc4`), the start and end of its definition in `text`.
            first_column: Number of the first column of a line in the text, 0 or 1.
        """
        self._text = text
        self._file = file
        self._spans = spans
        self._column_shift = 1 - first_column
        self._known: dict[str, SourceLocation | None] = {}

    def resolve(self, alias: str, user: Cursor) -> SourceLocation | None:
        """Return the location that `alias` names, or None if the location has no source line.

        An alias that is not defined is reported as an error at the last token that `user` has read.
        """
        if alias in self._known:
            return self._known[alias]
        span = self._spans.get(alias)
        if span is None:
            user.error(f"`{alias}` is not defined", user.index - 1)
        self._known[alias] = None  # so that a cycle ends
        match = _COMMON.fullmatch(self._text, *span)
        location = self._common(match, user) if match else self._uncommon(span)
        self._known[alias] = location
        return location

    def _common(self, match: re.Match[str], user: Cursor) -> SourceLocation | None:
        file, line, column, name, inner, callee, caller = match.groups()
        if file is not None:
            return self._position(file, int(line), int(column))
        if inner is not None:
            return _named(name, self.resolve(inner, user))
        return inlined(self.resolve(callee, user), self.resolve(caller, user))

    def _uncommon(self, span: tuple[int, int]) -> SourceLocation | None:
        return self.parse(Cursor(Source(self._text, self._file, *span)))

    def _position(self, file: str, line: int, column: int) -> SourceLocation:
        return SourceLocation(file, line, column + self._column_shift)

    def parse(self, cursor: Cursor) -> SourceLocation | None:
        """Parse `loc(…)`."""
        token = cursor.peek
        if token != "loc" and not token.startswith("loc("):
            cursor.fail("a location (`loc(…)`)")
        cursor.index += 1
        if token != "loc":
            return self.resolve(token[4:-1], cursor)
        cursor.expect("(")
        location = self._inner(cursor)
        cursor.expect(")")
        return location

    def _inner(self, cursor: Cursor) -> SourceLocation | None:
        token = cursor.peek
        if token.startswith("#"):
            cursor.index += 1
            return self.resolve(token, cursor)
        if token.startswith('"'):
            return self._position_or_name(cursor)
        form = _FORMS.get(token)
        if form is None:
            cursor.fail("a location")
        cursor.index += 1
        return form(self, cursor)

    def _position_or_name(self, cursor: Cursor) -> SourceLocation | None:
        text = cursor.string()
        if cursor.accept(":"):
            line = cursor.integer()
            cursor.expect(":")
            column = cursor.integer()
            _skip_range_end(cursor)
            return self._position(text, line, column)
        inner = None
        if cursor.accept("("):
            inner = self._inner(cursor)
            cursor.expect(")")
        return _named(text, inner)

    def _call_site(self, cursor: Cursor) -> SourceLocation | None:
        cursor.expect("(")
        callee = self._inner(cursor)
        cursor.expect("at")
        caller = self._inner(cursor)
        cursor.expect(")")
        return inlined(callee, caller)

    def _fused(self, cursor: Cursor) -> SourceLocation | None:
        if cursor.accept("<"):
            while not cursor.accept(">"):
                cursor.index += 1
                if not cursor.peek:
                    cursor.fail("`>`")
        parts = cursor.list("[", lambda: self._inner(cursor), "]")
        return next((part for part in parts if part is not None), None)

    def _unknown(self, cursor: Cursor) -> SourceLocation | None:
        return None


_FORMS: dict[str, Callable[[LocationTable, Cursor], SourceLocation | None]] = {
    "unknown": LocationTable._unknown,
    "callsite": LocationTable._call_site,
    "fused": LocationTable._fused,
}


def _named(name: str, inner: SourceLocation | None) -> SourceLocation:
    if inner is None:
        return SourceLocation(_UNKNOWN_FILE, 0, 0, name)
    return SourceLocation(inner.file, inner.line, inner.column, name, inner.callers)


def _skip_range_end(cursor: Cursor) -> None:
    """Parse `to :9` or `to 4:9` after a position; only the start is kept."""
    if cursor.accept("to"):
        if cursor.peek != ":":
            cursor.integer()
        cursor.expect(":")
        cursor.integer()
