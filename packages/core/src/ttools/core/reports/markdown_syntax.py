"""GitHub-flavoured Markdown: escaped text, tables, fenced text and folded parts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

#: Characters that would be interpreted as markup or would end a cell.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#])")


def escaped(text: str) -> str:
    """Return text in one line, without markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(title: str, columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; columns without content are left out.

    Args:
        title: Text above the table, which may be empty.
        columns: Heading of each column, and whether its cells are aligned to the right.
        rows: The cells of each row, one per column.
    """
    cells = [[escaped(str(cell)) for cell in row] for row in rows]
    shown = [n for n in range(len(columns)) if any(row[n] for row in cells)] or [0]
    lines = [f"**{escaped(title)}**", ""] if title else []
    lines.append(_row(escaped(columns[n][0]) for n in shown))
    lines.append(_row("---:" if columns[n][1] else "---" for n in shown))
    lines += [_row(row[n] for n in shown) for row in cells]
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def fenced_text(text: str, language: str = "") -> str:
    """Return text as a block in a fixed-width font, in which no markup is interpreted."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}\n"


def folded(summary: str, content: str) -> str:
    """Return Markdown that GitHub shows folded under a summary."""
    return f"<details><summary>{html.escape(summary)}</summary>\n\n{content}\n</details>\n"


def text_as_markdown(text: str) -> str:
    """Convert a text report to Markdown: the first line, the result, is bold, the rest fenced."""
    first, _, rest = text.partition("\n")
    body = rest.strip("\n")
    return f"**{escaped(first)}**\n" + (f"\n{fenced_text(body)}" if body else "")
