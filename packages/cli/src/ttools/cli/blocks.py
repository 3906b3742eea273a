"""Formats text reports as blocks: a title with facts below it, and tables without constant columns.

Reports are readable at 80 columns and in pipes: there are no boxes, and the value of a constant
column is printed once below the table. Lines are divided between words; paths and commands stay
whole, even if a line then exceeds the width of the terminal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ttools.core.reports.wrapping import (
    unbroken,
    width_of_whole_parts,
    with_blanks,
    wrapped,
)

#: Maximum width of lines, for readability on wide terminals.
_WIDEST = 100
#: Minimum width of a text beside its label, in very narrow terminals.
_NARROWEST = 20
#: Maximum number of similar items shown; the others are counted.
MOST_SHOWN = 10
#: Number of blanks between columns, and before the parts of a block.
_GAP = 2


@dataclass(frozen=True)
class Labelled:
    """Texts in a column, with labels before them.

    Attributes:
        rows: Labels with their styles, and the text of each row; a text may have several lines.
    """

    rows: Sequence[tuple[Sequence[tuple[str, str]], Text]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        widths = [
            max(len(labels[n][0]) for labels, _ in self.rows) + _GAP
            for n in range(len(self.rows[0][0]) if self.rows else 0)
        ]
        for labels, text in self.rows:
            first = Text.assemble(
                *((label.ljust(w), style) for (label, style), w in zip(labels, widths, strict=True))
            )
            width = max(_NARROWEST, options.max_width - len(first))
            for line in _lines(text, width):
                yield _whole_line(Text.assemble(first, line))
                first = Text(" " * len(first))


@dataclass(frozen=True)
class _Paragraphs:
    """Text whose lines are divided between words.

    Attributes:
        text: The text, which may have several paragraphs.
        hanging: Indentation of all lines of a paragraph but the first.
        whole: Parts that must not be divided.
    """

    text: Text
    hanging: str = ""
    whole: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = min(options.max_width, _WIDEST)
        for line in _lines(self.text, width, self.hanging, self.whole):
            yield _whole_line(line)


@dataclass(frozen=True)
class _Indented:
    """A part of a block, which may be wider than the terminal."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        width = min(options.max_width, _WIDEST) - _GAP
        for line in Segment.split_lines(console.render(self.part, options.update_width(width))):
            yield Segment(" " * _GAP)
            yield from line
            yield Segment.line()


@dataclass(frozen=True)
class _WholeParts:
    """A table whose cells contain `unbroken` text."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.table, options):
            yield segment._replace(text=with_blanks(segment.text))


def _lines(text: Text, width: int, hanging: str = "", whole: Sequence[str] = ()) -> Iterator[Text]:
    for part in text.plain.split("\n"):
        for line in wrapped(part, "", hanging, width=width, whole=whole) or [""]:
            yield Text(line, style=text.style)


def _whole_line(line: Text) -> Text:
    """Return a line that is neither divided nor cut off."""
    line.no_wrap, line.overflow = True, "ignore"
    return line


def block(
    title: str, facts: Iterable[tuple[str, str]], *tables: RenderableType, place: str = ""
) -> RenderableType:
    """Return a title, and below it named facts, then tables.

    Args:
        title: A single line of text.
        facts: Names and texts; facts whose text is empty are left out.
        tables: Tables or other renderables.
        place: A file and a line that follow the title.
    """
    rows = [(((name, "cyan"),), Text(text)) for name, text in facts if text]
    heading = Text("  ".join(filter(None, [title, place])), style="bold")
    parts: list[RenderableType] = [Labelled(rows)] if rows else []
    return Group(
        _Paragraphs(heading, " " * _GAP, [place] if place else []),
        *map(_Indented, [*parts, *tables]),
        Text(""),
    )


def paragraph(text: str) -> RenderableType:
    """Return a paragraph of sentences below a report."""
    return _Paragraphs(Text(text, style="dim"))


def table(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[str] = (),
    *,
    always: Collection[str] = (),
) -> RenderableType:
    """Return a table without constant columns, whose values are printed once below it.

    Args:
        names: Headings of the columns.
        rows: Cells of each row, one per column.
        left: Names of columns with text; the others contain numbers.
        always: Names of columns that are shown even if they are constant.
    """
    cells = list(zip(*rows, strict=True)) or [()] * len(names)
    constant = [
        len(rows) > 1 and len(set(column)) == 1 and name not in always
        for name, column in zip(names, cells, strict=True)
    ]
    shown = [n for n, column in enumerate(cells) if any(column) and not constant[n]] or [0]
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    for n in shown:
        is_text = names[n] in left
        result.add_column(
            names[n],
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_text,
            vertical="top",
            min_width=max(map(width_of_whole_parts, cells[n]), default=0) or None,
        )
    for row in rows:
        result.add_row(*(Text(unbroken(row[n])) for n in shown))
    once = [
        f"{names[n] or 'all'} {column[0]}".strip()
        for n, column in enumerate(cells)
        if constant[n] and column[0] and n not in shown
    ]
    shown_table = _WholeParts(result)
    if not once:
        return shown_table
    return Group(shown_table, _Paragraphs(Text(f"in all rows: {'; '.join(once)}")))


def left_out(n: int, what: str, where: str) -> str:
    """Return, e.g., "86 more `same` left out; --format json has all"; empty for n = 0."""
    return f"{n:,} {what} left out; {where} has all" if n > 0 else ""
