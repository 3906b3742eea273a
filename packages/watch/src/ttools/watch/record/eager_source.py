"""Instrumentation of a kernel's Python source, so that it reports the values of its variables.

After each assignment, a call is inserted that reports the variable's name and value. Each loop is
wrapped to count its iterations. The inserted calls are to methods of the active observer
(`eager.observation`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ttools.interpreter.eager.debugging.frames import MARK


def report_assignments(function: ast.FunctionDef) -> None:
    """Instrument a function in place.

    The function then calls `assigned(name, value, line)` after each assignment, `loop()` as a
    context manager around each loop, and `iteration()` at the start of the loop's body.
    """
    function.body = _statements(function.body)


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    return [changed for statement in body for changed in _reporting(statement)]


def _reporting(statement: ast.stmt) -> Iterator[ast.stmt]:
    for field in ("body", "orelse"):
        inner = getattr(statement, field, None)
        if isinstance(inner, list) and not isinstance(statement, ast.FunctionDef):
            setattr(statement, field, _statements(inner))
    if isinstance(statement, (ast.For, ast.While)):
        names = [statement.target] if isinstance(statement, ast.For) else []
        first = [_call("iteration", statement), *_report(names, statement, statement.lineno)]
        statement.body = [*first, *statement.body]
        wrapped = ast.With([ast.withitem(_called("loop", statement))], [statement])
        yield ast.copy_location(wrapped, statement)
        return
    yield statement
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Assign):
        yield from _report(statement.targets, statement, statement.value.lineno)
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)) and value is not None:
        yield from _report([statement.target], statement, statement.lineno)


def _report(targets: list[ast.expr], near: ast.stmt, line: int) -> list[ast.stmt]:
    names = [
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return [
        _call("assigned", near, ast.Constant(name), ast.Name(name, ast.Load()), ast.Constant(line))
        for name in names
    ]


def _called(name: str, near: ast.stmt, *arguments: ast.expr) -> ast.expr:
    mark = ast.Name(MARK, ast.Load())
    observer = ast.Call(ast.Attribute(mark, "observer", ast.Load()), [], [])
    call = ast.Call(ast.Attribute(observer, name, ast.Load()), list(arguments), [])
    for node in ast.walk(call):
        ast.copy_location(node, near)
    return call


def _call(name: str, near: ast.stmt, *arguments: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(_called(name, near, *arguments)), near)
