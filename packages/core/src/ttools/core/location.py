"""Positions in the user's source, and excerpts that mark them with carets."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ttools.core.ownership import is_triton_file
from ttools.core.syntax_trees import syntax_tree

#: Lines of source files that were read from a record. They are kept out of `linecache`, where
#: Triton and `inspect` read the sources of this process's own kernels.
_RECORDED_LINES: dict[str, list[str]] = {}


def _any_file(file: str) -> bool:
    return True


#: Function that returns whether a source file may be read; see `restrict_source_files`.
_may_read: Callable[[str], bool] = _any_file


@dataclass(frozen=True)
class SourceLocation:
    """A position in the source of a kernel.

    Attributes:
        file: Path of the file as Triton recorded it, normally absolute.
        line: 1-based line; 0 if unknown.
        column: 1-based column of the first character; 0 if unknown.
        name: The Python variable that holds the result of the operation, if Triton recorded one.
        callers: The calls through which the surrounding function was inlined, innermost first.
    """

    file: str
    line: int
    column: int
    name: str | None = None
    callers: tuple[SourceLocation, ...] = ()

    def __str__(self) -> str:
        return ":".join([self.file, *(str(part) for part in (self.line, self.column) if part)])


def inlined(location: SourceLocation | None, call: SourceLocation | None) -> SourceLocation | None:
    """Return a location inside a function that is inlined at a call."""
    if location is None or call is None:
        return location or call
    caller = SourceLocation(call.file, call.line, call.column, call.name)
    callers = (*location.callers, caller, *call.callers)
    return SourceLocation(location.file, location.line, location.column, location.name, callers)


_PLACE = re.compile(r"(.+?):(\d+)(?::(\d+))?", re.DOTALL)


def location_of_line(text: str | None) -> SourceLocation | None:
    """Parse `file:line` or `file:line:column`; return None for any other text."""
    match = _PLACE.fullmatch(text or "")
    return SourceLocation(match[1], int(match[2]), int(match[3] or 0)) if match else None


def shown_path(file: str, root: Path | None = None) -> str:
    """Return a path relative to `root` if the file is inside `root`, else the path unchanged.

    Args:
        root: Folder that paths are shown relative to; the working folder by default.
    """
    try:
        return str(Path(file).relative_to(root or Path.cwd()))
    except ValueError:
        return file


def shown_line(location: str, root: Path | None = None) -> str:
    """Return a `file:line` as `shown_place` writes it."""
    file, colon, line = location.rpartition(":")
    if not line.isdigit():
        return f"{shown_path(file, root)}{colon}{line}"
    return shown_place(file, int(line), root=root)


def shown_place(file: str, line: int, column: int = 0, *, root: Path | None = None) -> str:
    """Return `file:line:column` without unknown parts; `Cell In[3], line 4` in a notebook."""
    cell = notebook_cell(file)
    if cell is not None:
        return f"{cell}, line {line}" if line else cell
    return ":".join([shown_path(file, root), *(str(part) for part in (line, column) if part)])


def notebook_cell(file: str) -> str | None:
    """Return the name of a notebook cell as IPython's tracebacks write it; None for other files.

    An example is `Cell In[3]`. IPython compiles each cell under a file name of its own, such as
    `/tmp/ipykernel_5565/2229167903.py`, and remembers which execution it belongs to.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    named = getattr(getattr(shell, "compile", None), "format_code_name", None)
    label = named(file) if named is not None else None
    return " ".join(label) if label else None


def chain_of(location: SourceLocation) -> list[SourceLocation]:
    """Return a location and those of its callers, each with the remainder of the call stack."""
    bare = (location, *location.callers)
    return [replace(link, callers=bare[n + 1 :]) for n, link in enumerate(bare)]


def user_location(location: SourceLocation | None) -> SourceLocation | None:
    """Return the innermost location outside Triton's own functions; None if there is none."""
    chain = chain_of(location) if location is not None else []
    return next((link for link in chain if link.line and not is_triton_file(link.file)), None)


def excerpt(location: SourceLocation) -> str:
    """Return the source line of a location with carets under the expression that starts there.

    It never raises an exception. The result is empty if the line cannot be read, has no carets if
    the column is unknown, and one caret if the end of the expression is unknown.

    Returns:
        One or two lines without a trailing newline, in the style `   12 |     x = tl.load(p)` / `
        |         ^^^^^^^^^^`. Control characters other than tabs are shown as blanks.
    """
    line = source_line(location.file, location.line)
    text = "".join(char if char == "\t" or char.isprintable() else " " for char in line)
    if not text.strip():
        return ""
    lines = [f"{location.line:5} | {text}"]
    if columns := extent(location):
        first, end = columns
        # Tabs are kept so that the carets line up for any tab width of the terminal.
        pad = "".join("\t" if char == "\t" else " " for char in text[: first - 1])
        lines.append(f"{'':5} | {pad}{'^' * (end - first)}")
    return "\n".join(lines)


def source_line(file: str, line: int) -> str:
    """Return a line of a file without trailing white space; empty if it cannot be read."""
    lines = source_lines(file)
    return lines[line - 1].rstrip() if 1 <= line <= len(lines) else ""


_FOR = re.compile(r"\s*for\s+(\w+)\s+in\b")


def loop_variable(file: str, line: int) -> str:
    """Return the variable of the `for` statement that starts at a line, or `""`."""
    match = _FOR.match(source_line(file, line))
    return match[1] if match else ""


def subscripted_variable(location: SourceLocation) -> str:
    """Return the variable of a subscript that starts at a location: `rk` for `rk[None, :]`."""
    return _subscripted("".join(source_lines(location.file))).get(
        (location.line, location.column - 1), ""
    )


@lru_cache(maxsize=8)
def _subscripted(source: str) -> dict[tuple[int, int], str]:
    tree = syntax_tree(source)
    return {
        (node.lineno, node.col_offset): node.value.id
        for node in (() if tree is None else ast.walk(tree))
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    }


def source_lines(file: str) -> list[str]:
    """Return the lines of a file, or an empty list if it cannot be read.

    Lines given to `show_recorded_lines` take precedence, followed by the lines that `linecache` has
    for this name, and then by the current content of the file.
    """
    if file in _RECORDED_LINES:
        return _RECORDED_LINES[file]
    if not _may_read(file):
        return []
    try:
        linecache.checkcache(file)
        return linecache.getlines(file)
    except ValueError:  # a name that no file can have
        return []


def restrict_source_files(may_read: Callable[[str], bool]) -> None:
    """Make this process read only those source files for which a function returns True.

    Untrusted TTIR may name any file, even an infinite one such as `/dev/zero`. A process whose
    results must not depend on the contents of such files calls this function before it reads the
    TTIR.
    """
    global _may_read
    _may_read = lru_cache(maxsize=1024)(may_read)


def show_recorded_lines(file: str, lines: list[str]) -> None:
    """Make excerpts of a file show the given lines instead of the file's current content.

    Args:
        file: The name of the file in locations.
        lines: All lines with their line ends; if empty, excerpts show nothing.
    """
    _RECORDED_LINES[file] = lines


def extent(location: SourceLocation) -> tuple[int, int] | None:
    """Return the columns of the expression at `location`, as 1-based positions of characters.

    Returns:
        The first column, and the column after the last one. An expression of several lines ends
        with its first line; if the end is unknown, the extent is one character. None if the line
        has no such column.
    """
    text = source_line(location.file, location.line)
    # Columns count UTF-8 bytes in `ast`, and Triton passes them on unchanged.
    encoded = text.encode(errors="replace")
    if not 1 <= location.column <= len(encoded):
        return None
    first = _characters(encoded[: location.column - 1]) + 1
    starts = _expression_ends("".join(source_lines(location.file)))
    end_line, end_byte = starts.get((location.line, location.column - 1), (location.line, 0))
    end = _characters(encoded[:end_byte] if end_line == location.line else encoded) + 1
    return first, max(end, first + 1)


def _characters(text: bytes) -> int:
    return len(text.decode(errors="ignore"))


@lru_cache(maxsize=8)
def _expression_ends(source: str) -> dict[tuple[int, int], tuple[int, int]]:
    """Map the start (line, byte column) of each expression to the end of the part to underline.

    Several expressions can start at the same position. Of these, the outermost call is underlined,
    because a memory operation is a call. If there is no call, the outermost expression is
    underlined.
    """
    tree = syntax_tree(source)
    chosen: dict[tuple[int, int], tuple[bool, tuple[int, int]]] = {}
    for node in () if tree is None else ast.walk(tree):
        if not isinstance(node, ast.expr):
            continue
        start = (node.lineno, node.col_offset)
        end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        rank = (isinstance(node, ast.Call), end)
        if start not in chosen or rank > chosen[start]:
            chosen[start] = rank
    return {start: end for start, (_, end) in chosen.items()}
