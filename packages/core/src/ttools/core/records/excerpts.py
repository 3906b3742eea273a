"""Source lines in records, which are selected when a record is made and shown when it is read.

For each location, the complete function that contains it is recorded.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ttools.core.location import SourceLocation, show_recorded_lines, source_lines
from ttools.core.records.launch_record import Excerpt
from ttools.core.syntax_trees import lines_of, syntax_tree

#: For a location outside functions, the number of lines to record before and after it.
_CONTEXT = 2
_MOST_LINES = 5_000


def excerpts_around(locations: Iterable[SourceLocation]) -> list[Excerpt]:
    """Return the readable source of the functions that contain the locations and their callers."""
    lines_by_file: dict[str, set[int]] = defaultdict(set)
    for location in locations:
        for position in (location, *location.callers):
            if position.line:
                lines_by_file[position.file].add(position.line)
    excerpts = []
    for file, lines in lines_by_file.items():
        text = [line.rstrip("\r\n") for line in source_lines(file)]
        numbers = sorted(_lines(text, lines))[:_MOST_LINES]
        if numbers:
            excerpts.append(Excerpt(file=file, lines={n: text[n - 1] for n in numbers}))
    return excerpts


def _lines(text: Sequence[str], lines: set[int]) -> set[int]:
    chosen: set[int] = set()
    functions = _functions(text)
    for line in lines:
        function = next((span for span in functions if line in span), None)
        shown = range(line - _CONTEXT, line + _CONTEXT + 1) if function is None else function
        chosen.update(n for n in shown if 1 <= n <= len(text))
    return chosen


def _functions(text: Sequence[str]) -> list[range]:
    """Return the outermost definitions of a file, including decorators."""
    tree = syntax_tree("\n".join(text))
    body = [] if tree is None else tree.body
    return [lines_of(node) for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def show(excerpts: Sequence[Excerpt], files: Iterable[str]) -> None:
    """Make findings and errors show only recorded lines.

    Args:
        files: Files that the record's kernels name. Lines of these files that are not recorded are
            hidden.
    """
    recorded = {excerpt.file: excerpt.lines for excerpt in excerpts}
    for file in {*recorded, *files}:
        lines = recorded.get(file, {})
        here = source_lines(file)
        if lines and all(
            n <= len(here) and here[n - 1].rstrip() == lines[n].rstrip() for n in lines
        ):
            continue
        shown = [f"{lines.get(n, '')}\n" for n in range(1, max(lines, default=0) + 1)]
        show_recorded_lines(file, shown)
