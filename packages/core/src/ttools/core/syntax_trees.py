"""Syntax trees of Python source, and the functions in it."""

from __future__ import annotations

import ast
from functools import lru_cache


@lru_cache(maxsize=16)
def syntax_tree(source: str) -> ast.Module | None:
    """Return the tree of a source, which callers must not change; None if it is not Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=16)
def functions_in(source: str) -> tuple[ast.FunctionDef, ...]:
    """Return all functions of a source, outer ones before inner ones."""
    tree = syntax_tree(source)
    every = () if tree is None else ast.walk(tree)
    return tuple(node for node in every if isinstance(node, ast.FunctionDef))


def functions_around(source: str, line: int) -> list[ast.FunctionDef]:
    """Return the functions around a line, outermost first."""
    return [f for f in functions_in(source) if f.lineno <= line <= (f.end_lineno or f.lineno)]


def function_at(source: str, first: int) -> ast.FunctionDef | None:
    """Return the function that begins at a line, with or without its decorators."""
    starts = ((f, (f.lineno, lines_of(f).start)) for f in functions_in(source))
    return next((f for f, lines in starts if first in lines), None)


def assigned_names(*nodes: ast.AST) -> set[str]:
    """Return the names that statements or other nodes assign."""
    names = (child for node in nodes for child in ast.walk(node) if isinstance(child, ast.Name))
    return {child.id for child in names if isinstance(child.ctx, ast.Store)}


def lines_of(definition: ast.FunctionDef | ast.ClassDef) -> range:
    """Return the lines of a definition, decorators included."""
    first = min([definition.lineno, *(d.lineno for d in definition.decorator_list)])
    return range(first, (definition.end_lineno or definition.lineno) + 1)
