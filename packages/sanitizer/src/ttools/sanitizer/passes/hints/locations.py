"""Locations of hints in the source, which Triton attaches to the operation that computes the value.

`off = r * stride` may get its hint lines later, by `off = tl.multiple_of(off, 16)`, but the TTIR
has only the first location. The second location is found in the text of the kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ttools.core.location import SourceLocation, source_lines
from ttools.core.syntax_trees import functions_around

_CALLS = {
    "tt.divisibility": "multiple_of",
    "tt.contiguity": "max_contiguous",
    "tt.constancy": "max_constancy",
}


def location_of_hint(made: SourceLocation | None, hints: frozenset[str]) -> SourceLocation | None:
    """Return the location of the call that gives a hint; if there is none, return `made`.

    Args:
        made: Location of the operation that computes the value; its name is the variable that holds
            the value.
        hints: Names of the attributes that the operation carries.
    """
    if made is None or not made.name:
        return made
    names = {_CALLS[hint] for hint in hints}
    later = []
    for call in _hint_calls("".join(source_lines(made.file)), made.line):
        if call.lineno <= made.line <= (call.end_lineno or call.lineno):
            return made
        is_later = call.lineno > made.line and variable_of(call) == made.name
        if is_later and name_of(call.func) in names:
            later.append(call)
    if not later:
        return made
    first = min(later, key=lambda call: (call.lineno, call.col_offset))
    return replace(made, line=first.lineno, column=first.col_offset + 1)


def variable_of(expression: ast.expr) -> str:
    """Return the variable inside the hint calls of an expression; `""` if it is not a variable."""
    while isinstance(expression, ast.Call) and _is_hint(expression) and expression.args:
        expression = expression.args[0]
    return expression.id if isinstance(expression, ast.Name) else ""


def _is_hint(call: ast.Call) -> bool:
    return name_of(call.func) in _CALLS.values()


def name_of(function: ast.expr) -> str | None:
    """Return the last part of a possibly qualified function name."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def _hint_calls(source: str, line: int) -> Iterator[ast.Call]:
    """Yield the hint calls in the innermost function around a line."""
    for function in functions_around(source, line)[-1:]:
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _is_hint(node):
                yield node
