"""Syntax trees of Python source, and the functions in it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache


@lru_cache(maxsize=16)
def syntax_tree(source: str) -> ast.Module | None:
    """Return the syntax tree of source text, or None if invalid; callers must not change it."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=16)
def functions_in(source: str) -> tuple[ast.FunctionDef, ...]:
    """Return all functions of a source, outer ones before inner ones."""
    tree = syntax_tree(source)
    every = () if tree is None else ast.walk(tree)
    return tuple(node for node in every if isinstance(node, ast.FunctionDef))


def functions_around(source: str, line: int) -> list[ast.FunctionDef]:
    """Return the functions around a line, outermost first."""
    return [f for f in functions_in(source) if f.lineno <= line <= (f.end_lineno or f.lineno)]


def function_at(source: str, first: int) -> ast.FunctionDef | None:
    """Return the function that begins at a line, with or without its decorators."""
    starts = ((f, (f.lineno, lines_of(f).start)) for f in functions_in(source))
    return next((f for f, lines in starts if first in lines), None)


def assigned_names(*nodes: ast.AST) -> set[str]:
    """Return the names that statements or other nodes assign to."""
    return _names(nodes, ast.Store)


def assigned_name(source: str, line: int, column: int) -> str:
    """Return the variable to which a statement assigns the value of a call; empty if there is none.

    The call may be converted by a method, as in `slot = tl.load(slot_ptr).to(tl.int64)`, but must
    not be a part of another expression.

    Args:
        source: Text of a Python file.
        line: Line of the call.
        column: Column of the call, from 1.
    """
    around = functions_around(source, line)
    for node in ast.walk(around[-1]) if around else ():
        if isinstance(node, ast.Assign):
            for target, value in _assignments(node.targets[0], node.value):
                place = value.lineno, value.col_offset + 1
                is_call = isinstance(value, ast.Call) and place == (line, column)
                if is_call and isinstance(target, ast.Name):
                    return target.id
    return ""


def _assignments(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the individual assignments in a statement such as `a, b = x, y`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, own in zip(target.elts, value.elts, strict=False):
            yield from _assignments(one, own)
    else:
        yield target, value


def index_text(source: str, line: int, column: int) -> str:
    """Return what an access adds to its pointer, as text; empty if it is unknown.

    Products of variables are left out, because they usually select a row of the tensor. An example
    is `first + i` for `tl.load(x_ptr + row * stride + first + i)`.

    Args:
        source: Text of a Python file.
        line: Line of the call that accesses memory.
        column: Column of the call, from 1.
    """
    around = functions_around(source, line)
    for node in ast.walk(around[-1]) if around else ():
        if isinstance(node, ast.Call) and (node.lineno, node.col_offset + 1) == (line, column):
            _, *terms = _signed_terms(node.args[0]) if node.args else [("", node)]
            kept = [(sign, ast.unparse(term)) for sign, term in terms if not _is_product(term)]
            text = " ".join(f"{sign} {text}" for sign, text in kept)
            return text.removeprefix("+ ").replace("- ", "-", text.startswith("-"))
    return ""


def _signed_terms(node: ast.expr, sign: str = "+") -> Iterator[tuple[str, ast.expr]]:
    """Yield the terms of sums and differences, each with `+` or `-`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _signed_terms(node.left, sign)
        subtracts = isinstance(node.op, ast.Sub)
        yield from _signed_terms(node.right, "+-"[subtracts != (sign == "-")])
    else:
        yield sign, node


def _is_product(node: ast.expr) -> bool:
    """Return whether an expression is a product of two terms with variables."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    return bool(read_names(node.left) and read_names(node.right))


def read_names(node: ast.AST) -> set[str]:
    """Return the names that are read anywhere inside a node."""
    return _names((node,), ast.Load)


def _names(nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> set[str]:
    """Return the names that occur in a context anywhere inside the given nodes."""
    # `ast.walk` would take four times as long, which would be noticeable in compilations.
    names: set[str] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, context):
                names.add(node.id)
            continue
        for field in node._fields:
            child = getattr(node, field, None)
            if isinstance(child, ast.AST):
                pending.append(child)
            elif isinstance(child, list):
                pending += [item for item in child if isinstance(item, ast.AST)]
    return names


def lines_of(definition: ast.FunctionDef | ast.ClassDef) -> range:
    """Return the lines of a definition, decorators included."""
    first = min([definition.lineno, *(d.lineno for d in definition.decorator_list)])
    return range(first, (definition.end_lineno or definition.lineno) + 1)


#: Last parts of the names of Triton's decorators for kernels.
_KERNEL_DECORATORS = frozenset(("jit", "autotune", "heuristics"))


def defined_names(source: str) -> set[str] | None:
    """Return the names that a module binds at its top level; None if these are not known.

    They are unknown if the source is not Python or imports `*`.
    """
    tree = syntax_tree(source)
    if tree is None:
        return None
    names: set[str] = set()
    for node in _top_level(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        else:
            names |= assigned_names(node)
    return None if "*" in names else names


def host_functions(source: str) -> list[str]:
    """Return the names of the public functions at the top level that are not Triton kernels."""
    tree = syntax_tree(source)
    return [
        node.name
        for node in _top_level(tree.body if tree else [])
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and not any(
            _last_name(decorator) in _KERNEL_DECORATORS for decorator in node.decorator_list
        )
    ]


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, including those inside `if`, `try` and `with`."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _top_level(
                [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
            )
            for handler in getattr(node, "handlers", ()):
                yield from _top_level(handler.body)


def _last_name(decorator: ast.expr) -> str:
    """Return the last part of the name of a decorator, such as `jit` for `@triton.jit()`."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
