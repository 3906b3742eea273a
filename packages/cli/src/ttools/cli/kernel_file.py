"""Loads the kernel that `FILE.py:NAME` names, and reads names from files without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches
from inspect import isroutine
from pathlib import Path
from typing import Any

from ttools.core.process.user_module import LoadError, load_file, split_word


def parsed(file: Path) -> ast.Module | None:
    """Return the syntax tree of a Python file; None if it cannot be read."""
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def kernels_of(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield functions that are decorated by `jit` or `triton.jit`, with or without arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
            if any(ast.unparse(d).rpartition(".")[2] == "jit" for d in decorators):
                yield node


def kernels_in(file: Path) -> list[str]:
    """Return the names of the kernels that a file defines, without running it."""
    tree = parsed(file)
    return [] if tree is None else [kernel.name for kernel in kernels_of(tree)]


def load_kernel(word: str) -> Any:
    """Return the `JITFunction` that a word names, without the decorators around it.

    Raises:
        UsageError: There is no such file or kernel, or the file cannot be loaded.
    """
    from ttools.core.compilation.kernel_source import kernel_within

    return kernel_within(load_decorated(word))


def load_decorated(word: str, *, or_function: bool = False) -> Any:
    """Return the kernel that a word names, with the decorators around it.

    Args:
        word: Name of the kernel as `FILE.py:KERNEL`.
        or_function: If True, the word may also name a function that launches kernels.

    Raises:
        UsageError: There is no such file or kernel, or the file cannot be loaded.
    """
    path, name = split_word(word, "kernel")
    module = load_file(path)
    from ttools.core.compilation.kernel_source import kernel_within

    kernels = {n: k for n in dir(module) if kernel_within(k := getattr(module, n)) is not None}
    if or_function and name not in kernels and isroutine(getattr(module, name, None)):
        return getattr(module, name)
    if name not in kernels:
        close = get_close_matches(name, kernels) or sorted(kernels)
        hint = f"; it has {', '.join(close)}" if close else "; it has no kernel"
        raise LoadError(path, f"has no kernel `{name}`{hint}")
    return kernels[name]
