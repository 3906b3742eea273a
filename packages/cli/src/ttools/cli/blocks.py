"""Formats text reports as blocks: a title with facts below it, and tables without constant columns.

Reports are readable at 80 columns and in pipes: there are no boxes, and the value of a constant
column is printed once below the table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

#: Maximum width of lines, for readability on wide terminals.
_WIDEST = 100
#: Maximum number of similar items shown; the others are counted.
MOST_SHOWN = 10


def block(title: str, facts: Iterable[tuple[str, str]], *tables: RenderableType) -> RenderableType:
    """Return a title, and below it named facts, then tables.

    Args:
        title: A single line of text.
        facts: Names and texts; facts whose text is empty are left out.
        tables: Tables or other renderables.
    """
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in facts:
        if text:
            grid.add_row(Text(name, style="cyan"), Text(text))
    parts = [part for part in (grid if grid.row_count else None, *tables) if part is not None]
    heading = Text(title, style="bold", overflow="fold")
    return Constrain(
        Group(heading, *(Padding(part, (0, 0, 0, 2)) for part in parts), Text("")), _WIDEST
    )


def paragraph(text: str) -> RenderableType:
    """Return a paragraph of sentences below a report."""
    return Constrain(Text(text, style="dim"), _WIDEST)


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
        )
    for row in rows:
        result.add_row(*(Text(row[n]) for n in shown))
    once = [
        f"{names[n] or 'all'} {column[0]}".strip()
        for n, column in enumerate(cells)
        if constant[n] and column[0] and n not in shown
    ]
    return Group(result, Text(f"in all rows: {'; '.join(once)}")) if once else result


def left_out(n: int, what: str, where: str) -> str:
    """Return, e.g., "86 more `same` left out; --format json has all"; empty for n = 0."""
    return f"{n:,} {what} left out; {where} has all" if n > 0 else ""
