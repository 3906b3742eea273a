"""Eager twins of jit functions: their source rewritten, compiled under its own name and lines.

Owns the globals that such code runs in. Must not know what its names do.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.triton_versions import compilation_error, source_file
from ttools.interpreter.eager import control
from ttools.interpreter.eager.debugging.debugger import breakpoint_function
from ttools.interpreter.eager.debugging.frames import MARK, location
from ttools.interpreter.eager.observation import observer
from ttools.interpreter.eager.rewrite import rewrite
from ttools.interpreter.eager.session import current
from ttools.interpreter.eager.values import EagerConstexpr, EagerTensor, constant_of
from ttools.interpreter.frontend.front import definition_offset


class EagerFunction:
    """A jit function that runs as Python.

    Args:
        function: Triton's `JITFunction`.
    """

    def __init__(self, function: Any) -> None:
        self.jit_function = function
        self._signature = inspect.signature(function.fn)
        self._constants = frozenset(p.name for p in function.params if p.is_constexpr)
        self._globals: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}
        self._launch = -1
        self._python: dict[type | None, FunctionType] = {}
        self.__name__ = function.fn.__name__
        self.__doc__ = function.fn.__doc__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Runs it in the current session."""
        bound = self._signature.bind(*arguments, **named)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            bound.arguments[name] = self._argument(name, value)
        if self.jit_function.noinline:
            self._refuse_blocks(bound.arguments)
        return self.python(*bound.args, **bound.kwargs)

    def _refuse_blocks(self, arguments: Mapping[str, Any]) -> None:
        """Refuses what the compiler refuses of functions that it does not inline."""
        for name, value in arguments.items():
            if isinstance(value, EagerTensor) and value.type.is_block():
                what = (
                    f"`{self.__name__}` is marked noinline, but `{name}` is no scalar: {value.type}"
                )
                raise compilation_error(location(), TypeError(what))

    @property
    def python(self) -> FunctionType:
        """The Python function, in globals as this launch finds them."""
        if self._launch != _launches[0]:
            self._refresh()
            self._launch = _launches[0]
        kind = None if observer() is None else type(observer())
        if kind not in self._python:
            self._python[kind] = self._compile()
        return self._python[kind]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.jit_function, name)

    def __repr__(self) -> str:
        return f"<jit function {self.__name__}>"

    def _argument(self, name: str, value: Any) -> Any:
        if self._signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            return tuple(map(constant_of, value))
        if name in self._constants and not isinstance(value, EagerConstexpr):
            return value if hasattr(value, "handle") else EagerConstexpr(value)
        return constant_of(value)

    def _refresh(self) -> None:
        """Takes over what changed in the globals that the function was defined in."""
        language = current().language
        if not self._globals:
            self._globals[MARK] = control
        for name, value in self.jit_function.get_capture_scope().items():
            if name not in self._seen or self._seen[name] is not value:
                self._seen[name] = value
                self._globals[name] = value if name.startswith("__") else language.wrap(value)
        self._globals["__builtins__"] = language.python_builtins(breakpoint_function())

    def _compile(self) -> FunctionType:
        function = self.jit_function
        tree = ast.parse(function.src)
        definition = tree.body[0]
        if not isinstance(definition, ast.FunctionDef):
            raise UsageError(f"`{function.fn.__name__}` is no function definition")
        _move(definition, *definition_offset(function))
        observed_by = observer()
        if observed_by is not None:
            observed_by.instrument(definition)
        name = source_file(function)
        code = compile(rewrite(definition), name, "exec", dont_inherit=True)
        # Not executed: a debugger would stop in the definition.
        body = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
        original = function.fn
        python = FunctionType(body, self._globals, original.__name__)
        python.__defaults__ = original.__defaults__
        python.__kwdefaults__ = original.__kwdefaults__
        python.__module__ = original.__module__
        python.__qualname__ = original.__qualname__
        return python


def _move(tree: ast.AST, lines: int, columns: int) -> None:
    """Shifts every node to where it is in its file."""
    for node in ast.walk(tree):
        if isinstance(
            node, (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.alias, ast.excepthandler)
        ):
            node.lineno += lines
            node.col_offset += columns
            node.end_lineno = (node.end_lineno or node.lineno) + lines
            node.end_col_offset = (node.end_col_offset or 0) + columns


_launches = [0]
_functions: dict[int, tuple[Any, str, EagerFunction]] = {}


def function_for(function: Any) -> EagerFunction:
    """The eager twin of a jit function; there is one for each."""
    found = _functions.get(id(function))
    if found is not None and found[0] is function and found[1] == function.src:
        return found[2]
    made = EagerFunction(function)
    _functions[id(function)] = function, function.src, made
    return made


def begin_launch() -> None:
    """Has every twin look up its module's globals anew when it is called next."""
    _launches[0] += 1
