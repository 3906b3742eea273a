"""Text reports as blocks: a title, facts beneath it, and tables of what differs between rows.

Readable at 80 columns and in pipes: no boxes, and nothing is said in each row that is said once.
Must not know what a report is about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

#: Longer lines are hard to read, however wide the terminal is.
_WIDEST = 100
#: Of like things so many are shown, the others counted.
MOST_SHOWN = 10


def block(title: str, facts: Iterable[tuple[str, str]], *tables: RenderableType) -> RenderableType:
    """A title, and beneath it facts with their names, then tables.

    Args:
        title: one line.
        facts: name and text each; those without a text are left out.
        tables: or whatever else belongs to it.
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
    """Sentences under a report."""
    return Constrain(Text(text, style="dim"), _WIDEST)


def table(
    names: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str] = ()
) -> RenderableType:
    """What differs between rows; what is the same in all of them is said once.

    Args:
        rows: a cell for each of them.
        left: names of columns of text; the others have numbers.
    """
    cells = list(zip(*rows, strict=True)) or [()] * len(names)
    constant = [len(rows) > 1 and len(set(own)) == 1 for own in cells]
    shown = [n for n, own in enumerate(cells) if any(own) and not constant[n]] or [0]
    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    for n in shown:
        is_text = names[n] in left
        found.add_column(
            names[n],
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_text,
            vertical="top",
        )
    for row in rows:
        found.add_row(*(Text(row[n]) for n in shown))
    once = [
        f"{names[n] or 'all'} {own[0]}".strip()
        for n, own in enumerate(cells)
        if constant[n] and own[0] and n not in shown
    ]
    return Group(found, Text(f"in all rows: {'; '.join(once)}")) if once else found


def left_out(n: int, what: str, where: str) -> str:
    """`86 more `same` left out; --format json has all`; empty where nothing is."""
    return f"{n:,} {what} left out; {where} has all" if n > 0 else ""
