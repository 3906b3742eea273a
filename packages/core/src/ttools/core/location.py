"""Where something is in the user's source, and the excerpt that shows it.

Owns `SourceLocation` and the caret rendering under a source line. Must not know what is being
reported there, nor how Triton encodes locations.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class SourceLocation:
    """A position in the source of a kernel.

    Attributes:
        file: Path of the file as Triton recorded it, normally absolute.
        line: 1-based line; 0 if unknown.
        column: 1-based column of the first character; 0 if unknown.
        name: The Python variable that holds the value made here, if Triton recorded one.
        callers: Where the function around this position was inlined, innermost call first.
    """

    file: str
    line: int
    column: int
    name: str | None = None
    callers: tuple[SourceLocation, ...] = ()

    def __str__(self) -> str:
        return ":".join([self.file, *(str(part) for part in (self.line, self.column) if part)])


def excerpt(location: SourceLocation) -> str:
    """The source line of `location` with carets under the expression that starts there.

    Never raises: a file that cannot be read or has no such line gives `""`, an unknown column
    gives the line without carets, an unknown extent one caret.

    Returns:
        One or two lines without a trailing newline, in the style
        `   12 |     x = tl.load(p)` / `      |         ^^^^^^^^^^`.
    """
    text = _source_line(location.file, location.line)
    if not text.strip():
        return ""
    lines = [f"{location.line:5} | {text}"]
    if 1 <= location.column <= len(text):
        end = _expression_end(location, text)
        # Tabs are kept so that the carets line up whatever the terminal's tab width.
        pad = "".join("\t" if char == "\t" else " " for char in text[: location.column - 1])
        lines.append(f"{'':5} | {pad}{'^' * max(1, end - location.column + 1)}")
    return "\n".join(lines)


def _source_line(file: str, line: int) -> str:
    linecache.checkcache(file)
    return linecache.getline(file, line).rstrip()


def _expression_end(location: SourceLocation, text: str) -> int:
    """The 1-based column of the last character of the expression at `location`, on its line."""
    starts = _expression_ends("".join(linecache.getlines(location.file)))
    # ast counts columns in UTF-8 bytes, Triton passes them on, so both ends are bytes.
    found = starts.get((location.line, location.column - 1))
    if found is None:
        return location.column
    end_line, end_byte = found
    if end_line != location.line:
        return len(text)
    return len(text.encode()[:end_byte].decode(errors="ignore"))


@lru_cache(maxsize=8)
def _expression_ends(source: str) -> dict[tuple[int, int], tuple[int, int]]:
    """End (line, byte column) of the expression to underline, by its start.

    Several expressions can start at one position; the outermost call wins (a memory operation is a
    call), else the outermost expression.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    chosen: dict[tuple[int, int], tuple[bool, tuple[int, int]]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr):
            continue
        start = (node.lineno, node.col_offset)
        end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        rank = (isinstance(node, ast.Call), end)
        if start not in chosen or rank > chosen[start]:
            chosen[start] = rank
    return {start: end for start, (_, end) in chosen.items()}
