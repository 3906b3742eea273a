"""Hints about a kernel's parameters (`tl.multiple_of`), read from the kernel's source.

TTIR does not contain hints about parameters, because Triton drops them when it creates TTIR. Only
hints that every launch executes are returned: those in statements outside loops and branches, in
the branch that a constant condition selects, and in functions that are called there with a
parameter. For example:

    @triton.jit
    def kernel(x, n, ALIGNED: tl.constexpr):
        if ALIGNED:
            x = tl.multiple_of(x, 16)   # a hint about parameter 0 if ALIGNED is true
        if n > 0:
            n = tl.multiple_of(n, 8)    # no hint: the branch depends on a runtime argument
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ttools.core.location import SourceLocation, source_lines
from ttools.core.ownership import is_triton_file
from ttools.core.syntax_trees import assigned_names, function_at, functions_around
from ttools.sanitizer.hints.constants import PASSED, UNKNOWN, value_of
from ttools.sanitizer.passes.hints.locations import (
    name_of,
    variable_of,
)

_CALL = "multiple_of"
_STRAIGHT = (ast.Assign, ast.AnnAssign, ast.Expr, ast.AugAssign)
#: Largest depth of nested calls that are followed.
_DEEPEST = 8


@dataclass(frozen=True)
class ArgumentHint:
    """A hint that an argument is divisible by a number.

    Attributes:
        parameter: Index of the kernel's parameter.
        divisor: Divisor of an integer argument, or of an address in bytes.
        location: Source location of the hint, or of the kernel for a specialisation.
        by: Origin of the hint: Triton's specialisation for the launch, or the kernel's source.
    """

    parameter: int
    divisor: int
    location: SourceLocation | None
    by: Literal["specialisation", "source"]


def source_hints(
    kernel: SourceLocation, names: Iterable[str], bindings: Mapping[str, Any]
) -> Iterator[ArgumentHint]:
    """Yield the hints in the source of a kernel about its runtime parameters.

    Args:
        kernel: Source location of the kernel.
        names: Names of the runtime parameters, in order.
        bindings: Values of the constexpr parameters and of the kernel's global names.
    """
    source = "".join(source_lines(kernel.file))
    around = functions_around(source, kernel.line)
    if around:
        parameters = {name: index for index, name in enumerate(names)}
        walk = _Walk(replace(kernel, name=None), parameters, dict(bindings))
        yield from walk.body(around[-1].body)


class _Walk:
    """Interprets the statements of one function in order and yields its hints.

    Args:
        location: Source location of the function, with its chain of callers.
        subjects: Maps each name that holds an unchanged parameter of the kernel to the parameter's
            index.
        bindings: Values of the other names.
        depth: Number of calls between the kernel and this function.
    """

    def __init__(
        self,
        location: SourceLocation,
        subjects: dict[str, int],
        bindings: dict[str, Any],
        depth: int = 0,
    ) -> None:
        self._location, self._subjects, self._depth = location, subjects, depth
        self._bindings = bindings | dict.fromkeys(subjects, PASSED)

    def body(self, statements: Iterable[ast.stmt]) -> Generator[ArgumentHint, None, bool]:
        """Yield the hints in statements, and return whether a `return` ends the function."""
        for statement in statements:
            if isinstance(statement, ast.If):
                yield from self._hints(statement.test)
                test = value_of(statement.test, self._bindings)
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

    # ---- values of names
    def _assign(self, statement: ast.stmt) -> None:
        target, value = _assignment(statement)
        subject = None if value is None else self._subjects.get(variable_of(value))
        number = UNKNOWN if value is None else value_of(value, self._bindings)
        self._forget(statement)
        if target is not None and subject is not None:
            self._subjects[target], self._bindings[target] = subject, PASSED
        elif target is not None and number is not UNKNOWN:
            self._bindings[target] = number

    def _forget(self, statement: ast.stmt) -> None:
        for name in assigned_names(statement):
            self._subjects.pop(name, None)
            self._bindings[name] = UNKNOWN

    # ---- hints
    def _hints(self, node: ast.AST) -> Iterator[ArgumentHint]:
        """Yield the hints that are executed whenever the expression or statement is evaluated."""
        if isinstance(node, ast.Call):
            if name_of(node.func) == _CALL and node.args:
                yield from self._hint(node)
            elif self._depth < _DEEPEST:
                yield from self._callee_hints(node)
        for part in self._always(node):
            yield from self._hints(part)

    def _always(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the parts of an expression that are evaluated whenever the whole expression is."""
        if isinstance(node, ast.IfExp):
            yield node.test
            test = value_of(node.test, self._bindings)
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
        argument = call.args[1] if len(call.args) > 1 else None
        for keyword in call.keywords:
            argument = keyword.value if keyword.arg == "values" else argument
        if isinstance(argument, ast.List | ast.Tuple) and len(argument.elts) == 1:
            argument = argument.elts[0]
        value = UNKNOWN if argument is None else value_of(argument, self._bindings)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    # ---- functions that the kernel calls
    def _callee_hints(self, call: ast.Call) -> Iterator[ArgumentHint]:
        """Yield the hints in a called function that concern kernel parameters passed to it."""
        callee = called_function(call, self._bindings)
        if callee is None:
            return
        indices = {
            name: self._subjects.get(variable_of(node)) for name, node in callee.arguments.items()
        }
        subjects = {name: index for name, index in indices.items() if index is not None}
        if not subjects:
            return
        at = replace(self._location, line=call.lineno, column=call.col_offset + 1, callers=())
        inner = SourceLocation(
            callee.file, callee.definition.lineno, 0, callers=(at, *self._location.callers)
        )
        walk = _Walk(inner, subjects, callee.bindings, self._depth + 1)
        yield from walk.body(callee.definition.body)


@dataclass(frozen=True)
class Callee:
    """A function that a kernel calls, with the arguments of one call.

    Attributes:
        file: The file that defines the function.
        definition: Definition of the function in the syntax tree.
        arguments: The argument of each parameter in the call, by the parameter's name.
        bindings: Values of the function's global names and parameters; see `value_of`.
    """

    file: str
    definition: ast.FunctionDef
    arguments: dict[str, ast.expr]
    bindings: dict[str, Any]


def called_function(call: ast.Call, bindings: Mapping[str, Any]) -> Callee | None:
    """Return the function of a call; None if it is unknown or belongs to Triton.

    Args:
        call: A call in the source of a kernel.
        bindings: Values by name where the call is made.
    """
    callee = _object(call.func, bindings)
    function = getattr(callee, "fn", None)
    code = getattr(function, "__code__", None)
    if code is None or is_triton_file(code.co_filename):
        return None
    arguments = _arguments(call, list(getattr(callee, "arg_names", ())))
    definition = function_at("".join(source_lines(code.co_filename)), code.co_firstlineno)
    if arguments is None or definition is None:
        return None
    names = code.co_varnames[: code.co_argcount]
    values = dict(getattr(function, "__globals__", {})) | dict.fromkeys(names, UNKNOWN)
    values |= {name: value_of(node, bindings) for name, node in arguments.items()}
    return Callee(code.co_filename, definition, arguments, values)


def _object(expression: ast.expr, bindings: Mapping[str, Any]) -> Any:
    """Return the object to which a name or attribute in a call refers, or None."""
    if isinstance(expression, ast.Name):
        return bindings.get(expression.id)
    if isinstance(expression, ast.Attribute):
        return getattr(_object(expression.value, bindings), expression.attr, None)
    return None


def _assignment(statement: ast.stmt) -> tuple[str | None, ast.expr | None]:
    """Return a statement's assigned name and value; (None, None) if it is not an assignment."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr | None = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None, None
    return (target.id, statement.value) if isinstance(target, ast.Name) else (None, None)


def _arguments(call: ast.Call, names: list[str]) -> dict[str, ast.expr] | None:
    """Return the argument of each parameter, or None if the call unpacks `*args` or `**kwargs`."""
    if any(isinstance(value, ast.Starred) for value in call.args) or len(call.args) > len(names):
        return None
    arguments = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        arguments[keyword.arg] = keyword.value
    return arguments
