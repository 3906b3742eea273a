"""Display of results in notebooks: headings, tables and code, as HTML, text and Markdown.

The markup needs no script and no style sheet.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ttools.core.location import location_of_line, shown_place, source_line
from ttools.core.reports import markdown_syntax

_CODE = "font-family:monospace;white-space:pre;text-align:left"
_LEFT, _RIGHT = "text-align:left;vertical-align:top", "text-align:right;vertical-align:top"
_MOST_ROWS = 200
#: In text, collapsible code with more lines than this is replaced by its title and line count.
_MOST_UNFOLDED = 30


@dataclass(frozen=True)
class Text:
    """Text with one paragraph per line."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines in a fixed-width font.

    Attributes:
        summary: Title to show while the lines are collapsed; None if they are always shown.
    """

    text: str
    summary: str | None = None


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    Attributes:
        columns: Headings; the prefix `>` marks a column of numbers, `|` one of code.
        rows: Cells of each row, one per column.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]] = field(default=())


Part = Text | Code | Table


_reporters: dict[type, Callable[[Any], Iterable[Part]]] = {}
_Reporter = TypeVar("_Reporter", bound=Callable[..., Iterable[Part]])


def reporter_of(kind: type[ShowsItself]) -> Callable[[_Reporter], _Reporter]:
    """Register a function that makes the displayed parts of results of the given type."""

    def register(reporter: _Reporter) -> _Reporter:
        _reporters[kind] = reporter
        return reporter

    return register


class ShowsItself:
    """A result that a notebook displays if it is the last value of a cell."""

    def _shown(self) -> Iterable[Part]:
        """Return the parts to display, in order."""
        reporter = _reporters.get(type(self))
        return [Code(repr(self))] if reporter is None else reporter(self)

    def _repr_html_(self) -> str:
        return parts_as_html(self._shown())

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        parts = list(self._shown())
        return {"text/plain": parts_as_text(parts), "text/html": parts_as_html(parts)}


def parts_as_text(parts: Iterable[Part]) -> str:
    """Return parts as text, separated by empty lines."""
    return "\n\n".join("\n".join(_lines(part)) for part in parts)


def parts_as_html(parts: Iterable[Part]) -> str:
    """Return parts as HTML."""
    return "\n".join(map(_html, parts))


def parts_as_markdown(parts: Iterable[Part]) -> str:
    """Return parts in GitHub-flavoured Markdown, separated by empty lines."""
    return "\n".join(f"{text.rstrip()}\n" for text in map(_markdown, parts) if text)


def framed(page: str, title: str, height: int = 600) -> str:
    """Return a frame with an HTML page, so that a notebook does not share the page's styles.

    Args:
        page: HTML document to show in the frame.
        title: Title of the frame for screen readers.
        height: Height of the frame in pixels.
    """
    return (
        f'<iframe sandbox="allow-scripts" title="{title}" width="100%" height="{height}"'
        f' style="border:0" srcdoc="{html.escape(page, quote=True)}"></iframe>'
    )


def place_cells(file: str, line: int) -> tuple[str, str]:
    """Return two table cells: file name with line, and the source line."""
    if not file:
        return "", ""
    place = shown_place(file, line, root=Path(file).parent)
    return place, source_line(file, line).strip()


def host_cells(host_line: str | None) -> tuple[str, str]:
    """Return the two cells of `place_cells` for a `file:line`; they are empty for None."""
    location = location_of_line(host_line)
    return place_cells(location.file, location.line) if location else ("", "")


# ---- HTML


def _html(part: Part) -> str:
    if isinstance(part, Text):
        return "".join(f"<p>{html.escape(line)}</p>" for line in part.text.splitlines())
    if isinstance(part, Code):
        code = f'<pre style="text-align:left">{html.escape(part.text)}</pre>'
        if part.summary is None:
            return code
        return f"<details><summary>{html.escape(part.summary)}</summary>{code}</details>"
    head = "".join(
        f'<th style="{_RIGHT if column.startswith(">") else _LEFT}">{_heading(column)}</th>'
        for column in part.columns
    )
    rows = "".join(f"<tr>{_row(part.columns, row)}</tr>" for row in part.rows[:_MOST_ROWS])
    title = f"<p><b>{html.escape(part.title)}</b></p>" if part.title else ""
    left = f"<p>{_left_out(part)}</p>" if _left_out(part) else ""
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{left}"


def _heading(column: str) -> str:
    return html.escape(column.lstrip(">|"))


def _row(columns: Sequence[str], row: Sequence[object]) -> str:
    return "".join(
        f'<td style="{_style(column)}">{html.escape(str(cell))}</td>'
        for column, cell in zip(columns, row, strict=True)
    )


def _style(column: str) -> str:
    return {">": _RIGHT, "|": _CODE}.get(column[:1], _LEFT)


def _left_out(table: Table) -> str:
    rest = len(table.rows) - _MOST_ROWS
    return f"and {rest:,} more" if rest > 0 else ""


# ---- Markdown


def _markdown(part: Part) -> str:
    if isinstance(part, Text):
        return "\n\n".join(map(markdown_syntax.escaped, part.text.splitlines()))
    if isinstance(part, Code):
        code = markdown_syntax.fenced_text(part.text)
        return code if part.summary is None else markdown_syntax.folded(part.summary, code)
    columns = [(column.lstrip(">|"), column.startswith(">")) for column in part.columns]
    text = markdown_syntax.table(part.title, columns, part.rows[:_MOST_ROWS])
    return f"{text}\n{_left_out(part)}" if _left_out(part) else text


# ---- text


def _lines(part: Part) -> Iterator[str]:
    if isinstance(part, Text):
        yield part.text
    elif isinstance(part, Code):
        lines = part.text.count("\n") + 1
        folded = part.summary is not None and lines > _MOST_UNFOLDED
        yield f"{part.summary}: {lines} lines" if folded else part.text
    else:
        yield from _table_lines(part)


def _table_lines(table: Table) -> Iterator[str]:
    if table.title:
        yield table.title
    shown = [[str(cell).replace("\n", " ") for cell in row] for row in table.rows[:_MOST_ROWS]]
    rows = [[column.lstrip(">|") for column in table.columns], *shown]
    widths = [max(len(row[n]) for row in rows) for n in range(len(table.columns))]
    for row in rows:
        cells = (
            cell.rjust(width) if column.startswith(">") else cell.ljust(width)
            for cell, width, column in zip(row, widths, table.columns, strict=True)
        )
        yield "  ".join(cells).rstrip()
    if _left_out(table):
        yield _left_out(table)
