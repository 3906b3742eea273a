"""Finds kernels that only Python can run, and passes launches to the eager engine.

An example is a kernel that calls `breakpoint()`. This module searches the source of kernels for
such code. `hand_over` makes a launch use `launch.EagerKernel` instead of compiled code.
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

    The functions that the kernel calls are searched, too. If such a kernel were compiled, Triton
    would report that `breakpoint` is not defined, or would execute `pdb.set_trace()` in its
    compiler. A `print` whose first argument is a string is not returned, because Triton compiles it
    as `device_print`.
    """
    for function in source.kernels:
        if _SUSPECT.search(function.src):
            tree = ast.parse(function.src)
            for node, what in _python_only(tree, _constants(function, tree)):
                return what, location_of(function, node)
    return None


def _constants(function: Any, tree: ast.AST) -> frozenset[str]:
    """Return the names in a function that cannot hold a value known only at run time."""
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

    The backend calls this while it parses the launch options, which Triton requests immediately
    before it calls the function's `_do_compile` method. The method is hidden by an attribute that
    returns an eager kernel and removes itself, so that later launches are not affected.

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
