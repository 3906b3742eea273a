"""The Markdown format: tables of the text report in GitHub's syntax, for pull requests.

Columns without content are left out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ttools.core.reports.markdown import escaped

#: Width of trees, whose lines are not wrapped.
_WIDTH = 1000


def markdown(tables: Iterable[Table | Tree]) -> str:
    """Return tables in GitHub-flavoured Markdown, and trees as fenced text."""
    parts = [_table(item) if isinstance(item, Table) else _tree(item) for item in tables]
    return "\n".join(parts)


def _table(table: Table) -> str:
    columns = [
        (str(column.header), column.justify == "right", [_cell(cell) for cell in column.cells])
        for column in table.columns
    ]
    kept = [column for column in columns if any(column[2])] or columns[:1]
    lines = [f"**{_cell(table.title)}**", ""] if table.title else []
    lines.append(_row(_cell(header) for header, _, _ in kept))
    lines.append(_row("---:" if right else "---" for _, right, _ in kept))
    lines += [_row(row) for row in zip(*(cells for _, _, cells in kept), strict=True)]
    if table.caption:
        lines += ["", *_sentences(table.caption)]
    return "\n".join(lines) + "\n"


def _sentences(caption: object) -> Iterator[str]:
    for line in _plain(caption).splitlines():
        yield f"{escaped(line)}  "  # a line of its own


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: object) -> str:
    return escaped(" ".join(_plain(value).split()))


def _plain(value: object) -> str:
    return value.plain if isinstance(value, Text) else str(value or "")


def _tree(tree: Tree) -> str:
    file = io.StringIO()
    Console(file=file, width=_WIDTH, markup=False, emoji=False).print(tree)
    text = "\n".join(line.rstrip() for line in file.getvalue().splitlines())
    return _fenced_text(text)


def _fenced_text(text: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}\n"


def text_as_markdown(text: str) -> str:
    """Return a text report as fenced text after its first line, which is its result."""
    first, _, rest = text.partition("\n")
    body = rest.strip("\n")
    return f"**{escaped(first)}**\n" + (f"\n{_fenced_text(body)}" if body else "")


def fenced(source: str) -> str:
    """Return lines of Python code as a fenced block."""
    return f"```python\n{source}```\n" if source else ""
