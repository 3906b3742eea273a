"""Hints about a kernel's parameters, read from its source: Triton drops them on the way to TTIR.

Only what every launch does counts: statements outside loops and branches, the arms that constants
choose, and the functions called there with a parameter. Must not know what a wrong hint means.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ttools.core.location import SourceLocation, source_lines
from ttools.core.ownership import is_triton_file
from ttools.sanitizer.hints.constants import PASSED, UNKNOWN, value_of
from ttools.sanitizer.passes.hints.locations import (
    function_at,
    functions_around,
    name_of,
    variable_of,
)

_CALL = "multiple_of"
_STRAIGHT = (ast.Assign, ast.AnnAssign, ast.Expr, ast.AugAssign)
#: Functions that call each other to this depth are looked into.
_DEEPEST = 8


@dataclass(frozen=True)
class ArgumentHint:
    """Something that divides an argument.

    Attributes:
        parameter: its index.
        divisor: of the number or, in bytes, of the address.
        location: of the kernel, or of the hint.
        by: who says so.
    """

    parameter: int
    divisor: int
    location: SourceLocation | None
    by: Literal["specialisation", "source"]


def source_hints(
    kernel: SourceLocation, names: Iterable[str], known: Mapping[str, Any]
) -> Iterator[ArgumentHint]:
    """The hints of a kernel.

    Args:
        kernel: where it is.
        names: of the parameters that it has when it runs.
        known: values of its constexpr parameters, and what its global names mean.
    """
    source = "".join(source_lines(kernel.file))
    around = functions_around(source, kernel.line)
    if around:
        parameters = {name: index for index, name in enumerate(names)}
        walk = _Walk(replace(kernel, name=None), parameters, dict(known))
        yield from walk.body(around[-1].body)


class _Walk:
    """One function, from statement to statement.

    Args:
        location: of the function; its callers are those of each hint.
        subjects: for each name that holds a kernel's parameter as it was passed, its index.
        known: what other names mean.
        depth: how many calls led here.
    """

    def __init__(
        self,
        location: SourceLocation,
        subjects: dict[str, int],
        known: dict[str, Any],
        depth: int = 0,
    ) -> None:
        self._location, self._subjects, self._depth = location, subjects, depth
        self._known = known | dict.fromkeys(subjects, PASSED)

    def body(self, statements: Iterable[ast.stmt]) -> Generator[ArgumentHint, None, bool]:
        """The hints in statements; returns whether they end the function."""
        for statement in statements:
            if isinstance(statement, ast.If):
                yield from self._hints(statement.test)
                test = value_of(statement.test, self._known)
                if test is UNKNOWN:
                    self._forget(statement)
                elif (yield from self.body(statement.body if test else statement.orelse)):
                    return True
            elif isinstance(statement, ast.Return):
                yield from self._hints(statement)
                return True
            elif isinstance(statement, _STRAIGHT):
                yield from self._hints(statement)
                self._assign(statement)
            else:
                self._forget(statement)
        return False

    # ---- what names hold
    def _assign(self, statement: ast.stmt) -> None:
        target, value = _assignment(statement)
        subject = None if value is None else self._subjects.get(variable_of(value))
        number = UNKNOWN if value is None else value_of(value, self._known)
        self._forget(statement)
        if target is not None and subject is not None:
            self._subjects[target], self._known[target] = subject, PASSED
        elif target is not None and number is not UNKNOWN:
            self._known[target] = number

    def _forget(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._subjects.pop(node.id, None)
                self._known[node.id] = UNKNOWN

    # ---- hints
    def _hints(self, node: ast.AST) -> Iterator[ArgumentHint]:
        """The hints in an expression that are given whatever its conditions say."""
        if isinstance(node, ast.Call):
            if name_of(node.func) == _CALL and node.args:
                yield from self._hint(node)
            elif self._depth < _DEEPEST:
                yield from self._called(node)
        for part in self._always(node):
            yield from self._hints(part)

    def _always(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parts of an expression that are evaluated whenever it is."""
        if isinstance(node, ast.IfExp):
            yield node.test
            test = value_of(node.test, self._known)
            if test is not UNKNOWN:
                yield node.body if test else node.orelse
        elif isinstance(node, ast.BoolOp):
            yield node.values[0]
        elif not isinstance(node, ast.Lambda):
            yield from ast.iter_child_nodes(node)

    def _hint(self, call: ast.Call) -> Iterator[ArgumentHint]:
        subject, divisor = self._subjects.get(variable_of(call)), self._divisor(call)
        if subject is not None and divisor > 1:
            location = replace(self._location, line=call.lineno, column=call.col_offset + 1)
            yield ArgumentHint(subject, divisor, location, "source")

    def _divisor(self, call: ast.Call) -> int:
        given = call.args[1] if len(call.args) > 1 else None
        for keyword in call.keywords:
            given = keyword.value if keyword.arg == "values" else given
        if isinstance(given, ast.List | ast.Tuple) and len(given.elts) == 1:
            given = given.elts[0]
        value = UNKNOWN if given is None else value_of(given, self._known)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    # ---- functions of the kernel's
    def _called(self, call: ast.Call) -> Iterator[ArgumentHint]:
        """The hints that a function gives about its arguments."""
        callee = self._function(call.func)
        function = getattr(callee, "fn", None)
        code = getattr(function, "__code__", None)
        if code is None or is_triton_file(code.co_filename):
            return
        given = _given(call, list(getattr(callee, "arg_names", ())))
        if given is None:
            return
        subjects = {name: self._subjects.get(variable_of(value)) for name, value in given.items()}
        held = {name: subject for name, subject in subjects.items() if subject is not None}
        definition = function_at("".join(source_lines(code.co_filename)), code.co_firstlineno)
        if definition is None or not held:
            return
        names = code.co_varnames[: code.co_argcount]
        known = dict(getattr(function, "__globals__", {})) | dict.fromkeys(names, UNKNOWN)
        known |= {name: value_of(value, self._known) for name, value in given.items()}
        at = replace(self._location, line=call.lineno, column=call.col_offset + 1, callers=())
        inner = SourceLocation(
            code.co_filename, definition.lineno, 0, callers=(at, *self._location.callers)
        )
        yield from _Walk(inner, held, known, self._depth + 1).body(definition.body)

    def _function(self, expression: ast.expr) -> Any:
        """What a call calls, if its name says so."""
        if isinstance(expression, ast.Name):
            return self._known.get(expression.id)
        if isinstance(expression, ast.Attribute):
            return getattr(self._function(expression.value), expression.attr, None)
        return None


def _assignment(statement: ast.stmt) -> tuple[str | None, ast.expr | None]:
    """The one name that a statement gives a value, and the value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr | None = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None, None
    return (target.id, statement.value) if isinstance(target, ast.Name) else (None, None)


def _given(call: ast.Call, names: list[str]) -> dict[str, ast.expr] | None:
    """What a call gives each parameter of a function; None if the call does not say."""
    if any(isinstance(value, ast.Starred) for value in call.args) or len(call.args) > len(names):
        return None
    given = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        given[keyword.arg] = keyword.value
    return given
