"""Scopes inside kernels, which Proton measures: named ones, and one for each source line.

The GPU's cycle counter is read at both ends of a scope. Kernels contain the reads only if they are
compiled while a session of Proton with the backend `instrumentation` is active.
"""

from __future__ import annotations

import ast
import importlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ttools.core.patches import Patches
from ttools.core.triton_versions.version import installed_triton

#: Beginning of the name of a line's scope, which the line number follows.
LINE_SCOPE = "line "
_FIRST_VERSION = "3.6"


def missing_kernel_scopes() -> str:
    """Return why the installed Triton cannot measure scopes inside kernels; empty if it can."""
    try:
        language = importlib.import_module("triton.profiler.language")
        hooks = importlib.import_module("triton.profiler.hooks")
    except ImportError as error:
        reason = f"cannot be imported ({error})"
    else:
        if hasattr(language, "enable_semantic") and hasattr(hooks, "InstrumentationHook"):
            return ""
        reason = "has no instrumentation of kernels"
    return (
        f"Proton of Triton {installed_triton()} {reason}; scopes inside kernels need Triton "
        f"{_FIRST_VERSION} or later, as published with its profiler"
    )


@contextmanager
def kernel_scopes(*, lines: bool) -> Iterator[None]:
    """Allow scopes in kernels that are written in Triton's language, during the `with` block.

    Kernels are compiled again, because Triton's cache does not distinguish kernels with and without
    scopes of lines.

    Args:
        lines: If True, each loop and each statement of a kernel that calls a function gets a scope.
            Functions that the kernel calls belong to the line of the call.
    """
    from triton import knobs
    from triton.compiler.code_generator import CodeGenerator

    language = importlib.import_module("triton.profiler.language")
    # Initially, the set of enabled languages contains only Gluon.
    language.enable_semantic("triton")
    with tempfile.TemporaryDirectory() as folder, knobs.cache.scope(), Patches() as patches:
        knobs.cache.dir = folder
        if lines:
            patches.wrap(CodeGenerator, "visit", lambda visit: _visiting(visit, language.record))
        yield


def _visiting(visit: Callable[..., Any], record: Callable[..., Any]) -> Callable[..., Any]:
    def visit_node(self: Any, node: Any) -> Any:
        if not self.is_kernel or not _has_scope(node):
            return visit(self, node)
        name = f"{LINE_SCOPE}{self.begin_line + node.lineno}"
        record(True, name, self.semantic)
        result = visit(self, node)
        record(False, name, self.semantic)
        return result

    return visit_node


def _has_scope(node: object) -> bool:
    """Return whether a node is a loop, or a simple statement that calls a function."""
    if isinstance(node, (ast.For, ast.While)):
        return True
    if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
        return False
    return any(isinstance(inner, ast.Call) for inner in ast.walk(node))
