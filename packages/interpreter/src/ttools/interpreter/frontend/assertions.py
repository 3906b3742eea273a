"""Search for assertions of a kernel that its compilation leaves out because `debug` is off."""

from __future__ import annotations

import ast

from ttools.core.location import SourceLocation
from ttools.core.triton_versions import CompiledSource
from ttools.interpreter.frontend.front import location_of

_CALLED = "device_assert"


def first_assertion(source: CompiledSource) -> SourceLocation | None:
    """Return where a kernel, or a function that it calls, first asserts something at run time.

    Triton treats Python's `assert` as a `tl.device_assert`.
    """
    for function in source.kernels:
        if "assert" in function.src:
            for node in ast.walk(ast.parse(function.src)):
                if isinstance(node, ast.Assert) or _is_device_assert(node):
                    return location_of(function, node)
    return None


def _is_device_assert(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == _CALLED
