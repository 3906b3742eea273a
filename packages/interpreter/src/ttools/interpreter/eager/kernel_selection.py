"""Selection of kernels that run eagerly: those that a run requests, and those only Python can run.

This module searches a kernel's source for code that the compiler does not support, and diverts
launches from the backend to `launch`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from ttools.core.location import SourceLocation
from ttools.core.syntax_trees import assigned_names
from ttools.core.triton_versions import CompiledSource
from ttools.interpreter.frontend.triton_passes import location_of

_SUSPECT = re.compile(r"\b(breakpoint|pdb|print)\b")
_DEBUGGERS = ("pdb", "ipdb", "pudb")


def python_only(source: CompiledSource) -> tuple[str, SourceLocation] | None:
    """Return the first construct of a kernel that only Python can run, and its location.

    The functions that the kernel calls are searched, too. Triton would report that `breakpoint` is
    not defined, or call `pdb.set_trace()` inside its compiler. A `print` whose first argument is a
    text is Triton's `device_print` and compiles.
    """
    for function in source.kernels:
        if _SUSPECT.search(function.src):
            tree = ast.parse(function.src)
            for node, what in _python_only(tree, _constants(function, tree)):
                return what, location_of(function, node)
    return None


def _constants(function: Any, tree: ast.AST) -> frozenset[str]:
    """Return names that cannot hold a run-time value."""
    parameters = {p.name for p in function.params if not p.is_constexpr}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(names - assigned_names(tree) - parameters)


def _python_only(tree: ast.AST, constants: frozenset[str]) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            if any(name.split(".")[0] in _DEBUGGERS for name in names):
                yield node, "`import pdb`"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called == "breakpoint":
                yield node, "`breakpoint()`"
            elif called.split(".")[0] in _DEBUGGERS:
                yield node, f"`{called}()`"
            elif called == "print" and not _is_device_print(node, constants):
                yield node, "Python's `print` of a value"


def _is_device_print(call: ast.Call, constants: frozenset[str]) -> bool:
    first = call.args[0] if call.args else None
    if isinstance(first, ast.JoinedStr):
        names = {node.id for node in ast.walk(first) if isinstance(node, ast.Name)}
        return names <= constants
    return isinstance(first, ast.Constant) and isinstance(first.value, str)


def hand_over(function: Any, codegen: Any) -> None:
    """Divert the launch that Triton is preparing to the eager engine.

    Triton asks its backend to parse the options immediately before it compiles. Only this launch of
    this function is diverted, by an attribute of the function that removes itself.

    Args:
        function: The kernel, a `JITFunction`.
        codegen: Functions of the code generator that the backend supplies.
    """

    def instead(
        key: Any, signature: Any, device: Any, constexprs: Any, options: Any, *_: Any
    ) -> Any:
        from ttools.interpreter.eager.launch import EagerKernel

        function.__dict__.pop("_do_compile", None)
        return EagerKernel(function, signature, options, codegen)

    function.__dict__["_do_compile"] = instead
