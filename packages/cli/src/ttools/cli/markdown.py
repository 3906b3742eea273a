"""The Markdown format: tables of the text report in GitHub's syntax, for pull requests.

Columns without content are left out.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ttools.core.reports import markdown_syntax
from ttools.core.reports.markdown_syntax import escaped, fenced_text

#: Width of trees, whose lines are not wrapped.
_WIDTH = 1000


def markdown(tables: Iterable[Table | Tree]) -> str:
    """Return tables in GitHub-flavoured Markdown, and trees as fenced text."""
    parts = [_table(item) if isinstance(item, Table) else _tree(item) for item in tables]
    return "\n".join(parts)


def _table(table: Table) -> str:
    columns = [(str(column.header), column.justify == "right") for column in table.columns]
    rows = zip(*(map(_plain, column.cells) for column in table.columns), strict=True)
    text = markdown_syntax.table(_plain(table.title), columns, list(rows))
    if table.caption:
        text += "\n".join(["", *_sentences(table.caption)]) + "\n"
    return text


def _sentences(caption: object) -> Iterator[str]:
    for line in _plain(caption).splitlines():
        yield f"{escaped(line)}  "  # a line of its own


def _plain(value: object) -> str:
    return value.plain if isinstance(value, Text) else str(value or "")


def _tree(tree: Tree) -> str:
    file = io.StringIO()
    Console(file=file, width=_WIDTH, markup=False, emoji=False).print(tree)
    text = "\n".join(line.rstrip() for line in file.getvalue().splitlines())
    return fenced_text(text)


def fenced(source: str) -> str:
    """Return lines of Python code as a fenced block."""
    return fenced_text(source.rstrip("\n"), "python") if source else ""
