"""Kernels that tell what their variables hold: the rewriting of their source, and whom it tells.

Behind each assignment stands a call that hands on name and value, around each loop one that counts
its turns. Owns the variable that says who listens here. Must not know what becomes of the values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from ttools.interpreter.eager.frames import MARK


class Listener(Protocol):
    """Who is told what variables hold.

    Attributes:
        turns: how often each loop around the current statement has gone round before.
    """

    turns: list[int]

    def assigned(self, name: str, value: Any, line: int) -> None:
        """Takes note of a value that was given to a variable by the statement at a line."""


_listener: ContextVar[Listener | None] = ContextVar("ttools_eager_listener", default=None)


def listener() -> Listener | None:
    """Who listens here."""
    return _listener.get()


@contextmanager
def listening(one: Listener) -> Iterator[None]:
    """Lets one be told of all that kernels assign meanwhile."""
    token = _listener.set(one)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def loop() -> Iterator[None]:
    """Stands around a loop."""
    one = _listener.get()
    if one is None:
        yield
        return
    one.turns.append(-1)
    try:
        yield
    finally:
        one.turns.pop()


def turn() -> None:
    """Stands first in a loop's body."""
    one = _listener.get()
    if one is not None:
        one.turns[-1] += 1


def assigned(name: str, value: Any, line: int) -> None:
    """Stands behind an assignment."""
    one = _listener.get()
    if one is not None:
        one.assigned(name, value, line)


# ---- the source


def tell_assignments(function: ast.FunctionDef) -> None:
    """Changes a function's body so that it tells what it assigns."""
    function.body = _statements(function.body)


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    return [told for statement in body for told in _told(statement)]


def _told(statement: ast.stmt) -> Iterator[ast.stmt]:
    for field in ("body", "orelse"):
        inner = getattr(statement, field, None)
        if isinstance(inner, list) and not isinstance(statement, ast.FunctionDef):
            setattr(statement, field, _statements(inner))
    if isinstance(statement, (ast.For, ast.While)):
        names = [statement.target] if isinstance(statement, ast.For) else []
        first = [_call("turn", statement), *_tell(names, statement, statement.lineno)]
        statement.body = [*first, *statement.body]
        around = ast.With([ast.withitem(_called("loop", statement))], [statement])
        yield ast.copy_location(around, statement)
        return
    yield statement
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Assign):
        yield from _tell(statement.targets, statement, statement.value.lineno)
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)) and value is not None:
        yield from _tell([statement.target], statement, statement.lineno)


def _tell(targets: list[ast.expr], place: ast.stmt, line: int) -> list[ast.stmt]:
    names = [
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return [
        _call(
            "assigned",
            place,
            ast.Constant(name),
            ast.Name(name, ast.Load()),
            ast.Constant(line),
        )
        for name in names
    ]


def _called(name: str, place: ast.stmt, *arguments: ast.expr) -> ast.expr:
    function = ast.Attribute(ast.Name(MARK, ast.Load()), name, ast.Load())
    call = ast.Call(function, list(arguments), [])
    for node in ast.walk(call):
        ast.copy_location(node, place)
    return call


def _call(name: str, place: ast.stmt, *arguments: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(_called(name, place, *arguments)), place)
