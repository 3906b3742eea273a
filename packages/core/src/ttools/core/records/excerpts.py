"""The lines of source that go with a record: chosen where it is made, shown where it is read.

Owns which lines belong to a location: the whole function around it. Must not know records' files.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ttools.core.location import SourceLocation, show_recorded_lines, source_lines
from ttools.core.records.launch_record import Excerpt

#: Around a location that is in no function.
_CONTEXT = 2
_MOST_LINES = 5_000


def excerpts_around(locations: Iterable[SourceLocation]) -> list[Excerpt]:
    """The functions that locations lie in; files that cannot be read are left out.

    Args:
        locations: what is looked up; their callers count too.
    """
    wanted: dict[str, set[int]] = defaultdict(set)
    for location in locations:
        for each in (location, *location.callers):
            if each.line:
                wanted[each.file].add(each.line)
    found = []
    for file, lines in wanted.items():
        text = [line.rstrip("\r\n") for line in source_lines(file)]
        numbers = sorted(_lines(text, lines))[:_MOST_LINES]
        if numbers:
            found.append(Excerpt(file=file, lines={n: text[n - 1] for n in numbers}))
    return found


def _lines(text: Sequence[str], lines: set[int]) -> set[int]:
    chosen: set[int] = set()
    functions = _functions(text)
    for line in lines:
        around = next((each for each in functions if line in each), None)
        shown = range(line - _CONTEXT, line + _CONTEXT + 1) if around is None else around
        chosen.update(n for n in shown if 1 <= n <= len(text))
    return chosen


def _functions(text: Sequence[str]) -> list[range]:
    """The outermost definitions of a file, decorators included."""
    try:
        tree = ast.parse("\n".join(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        range(
            min([node.lineno, *(each.lineno for each in node.decorator_list)]),
            (node.end_lineno or node.lineno) + 1,
        )
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]


def show(excerpts: Sequence[Excerpt], files: Iterable[str]) -> None:
    """Makes recorded lines, and no others, what findings and errors show.

    Args:
        files: that its kernels name; lines of these that are not recorded are none of its business.
    """
    recorded = {each.file: each.lines for each in excerpts}
    for file in {*recorded, *files}:
        lines = recorded.get(file, {})
        here = source_lines(file)
        if lines and all(
            n <= len(here) and here[n - 1].rstrip() == lines[n].rstrip() for n in lines
        ):
            continue
        shown = [f"{lines.get(n, '')}\n" for n in range(1, max(lines, default=0) + 1)]
        show_recorded_lines(file, shown)
