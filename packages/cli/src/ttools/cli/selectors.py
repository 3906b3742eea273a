"""Rejects names in `--watch` and `--only` that a script cannot have, before the script runs.

A name is rejected only if the script's file alone shows that it does not exist. A variable may
belong to a kernel of another module, so names are compared only if the script imports nothing but
torch, Triton, NumPy and the standard library, and loads no code in other ways.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli.kernel_file import kernels_of, parsed
from ttools.cli.work import Work
from ttools.core.errors import UsageError, did_you_mean
from ttools.core.process.script import Target

if TYPE_CHECKING:
    from ttools.watch.variables.selectors import Selector

_KERNELLESS = frozenset({"torch", "triton", "numpy", *sys.stdlib_module_names})
#: Words in a script which suggest that it loads kernels from elsewhere.
_LOADING = re.compile(
    r"\b(compile|inductor|exec|eval|importlib|__import__|runpy|cpp_extension|ops|library|hub)\b"
)

#: Words in a script which suggest that it runs other programs, launches torch's own kernels or
#: renames functions.
_STARTING = re.compile(
    r"\b(subprocess|system|popen|exec\w+|(posix_)?spawn\w*|\w*sparse\w*|repr=|__name__ = )"
)


def refuse_unknown(texts: Sequence[str], work: Work) -> None:
    """Reject lines and names that no kernel of a script can have.

    Args:
        work: The work of the command: a script, a launch or a record.

    Raises:
        UsageError: A line is outside all kernels, or a name does not occur in the script.
    """
    if not texts:
        return
    from ttools.watch.variables.selectors import read_selectors

    script = work.name if isinstance(work, Target) and work.kind == "script" else ""
    for selector in read_selectors(texts):
        if selector.line:
            _refuse_line(selector)
        elif script and not re.search(r"[*?\[\].]", selector.name):
            _refuse_name(selector, Path(script))


def refuse_unknown_kernels(names: Sequence[str], work: Work) -> None:
    """Reject names of kernels that a script cannot launch.

    Args:
        names: Names of kernels given with `--only`.
        work: The work of the command: a script, a launch or a record.

    Raises:
        UsageError: No function of the script has one of the names.
    """
    if not names or not isinstance(work, Target) or work.kind != "script":
        return
    tree = parsed(Path(work.name))
    if tree is None or not _is_self_contained(tree):
        return
    source = ast.unparse(tree)
    kernels = [kernel.name for kernel in kernels_of(tree)]
    if not kernels or _LOADING.search(source) or _STARTING.search(source):
        return
    # A call such as `triton.jit(function)` makes a kernel of any function.
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for name in names:
        if name not in functions:
            hint = did_you_mean(name, kernels) or f"; it has {', '.join(dict.fromkeys(kernels))}"
            raise UsageError(f"--only {name}: {work.name} has no kernel of this name{hint}")


def _refuse_line(selector: Selector) -> None:
    file = Path(selector.file)
    tree = parsed(file) if file.is_file() else None
    if tree is None:
        return
    # A call such as `triton.jit(function)` makes a kernel of any function.
    is_decorated = not re.search(r"(?<!@)\b(triton\.)?jit\(\w", file.read_text(errors="replace"))
    kernel_lines = sorted({line for kernel in kernels_of(tree) for line in _lines(kernel)})
    possible = kernel_lines if kernel_lines and is_decorated else set(_lines(tree))
    if possible and selector.line not in possible:
        kernels = f"; its kernels are at lines {_ranges(kernel_lines)}" if kernel_lines else ""
        raise UsageError(
            f"no variable is assigned at `{selector.text}`, which is outside of every kernel"
            f"{kernels}"
        )


def _lines(tree: ast.AST) -> Iterator[int]:
    """Yield the line numbers of each function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            yield from range(first, (node.end_lineno or node.lineno) + 1)


def _ranges(lines: Sequence[int]) -> str:
    """Format ranges of lines, such as `6 to 14, 20 to 31`."""
    parts: list[list[int]] = []
    for line in lines:
        if parts and line == parts[-1][1] + 1:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return ", ".join(f"{first} to {last}" for first, last in parts)


def _refuse_name(selector: Selector, file: Path) -> None:
    tree = parsed(file)
    if tree is None or not _is_self_contained(tree) or _LOADING.search(ast.unparse(tree)):
        return
    kernels = list(kernels_of(tree))
    names = {name for kernel in kernels for name in _names(kernel)}
    if kernels and selector.name not in set(_names(tree)):
        raise UsageError(
            f"there is no variable `{selector.text}` to watch in {file}"
            f"{did_you_mean(selector.name, names)}"
        )


def _is_self_contained(tree: ast.AST) -> bool:
    """Return whether a script imports only modules that cannot contain kernels of the user."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = ["." if node.level else node.module or ""]
        else:
            continue
        if any(module.partition(".")[0] not in _KERNELLESS for module in modules):
            return False
    return True


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
