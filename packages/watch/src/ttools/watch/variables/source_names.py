"""Analysis of Python source: where names are assigned, and which expressions are assigned."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ttools.core.location import source_lines
from ttools.core.syntax_trees import functions_in, syntax_tree

Suite = Sequence[ast.stmt]
_COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try)


@dataclass(frozen=True, eq=False)
class Binding:
    """A name that a statement assigns.

    Attributes:
        name: The name that is assigned.
        statement: The statement that assigns it.
        source: The expression whose value is assigned; None if it is not a single expression.
        item: `(index, count)` if only one of `count` items of the expression's value is assigned,
            as in `a, b = f()`; None if the whole value is assigned.
    """

    name: str
    statement: ast.stmt
    source: ast.expr | None = None
    item: tuple[int, int] | None = None

    @property
    def lines(self) -> range:
        """Return the lines of the statement; for a loop, return the lines of its header."""
        return lines_of(self.statement)


@dataclass(frozen=True, eq=False)
class Carried:
    """A name whose value, at the place where it is read, comes from a loop's previous iteration."""

    name: str
    loop: ast.For


def lines_of(statement: ast.stmt) -> range:
    """Return the lines of a statement without those of the statements nested in it."""
    last = statement.end_lineno or statement.lineno
    if isinstance(statement, (ast.For, ast.While, ast.If, ast.With)):
        last = statement.body[0].lineno - 1
    return range(statement.lineno, max(last, statement.lineno) + 1)


class Function:
    """The statements of a function, and the names that they assign."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.tree = tree
        arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        self.parameters = frozenset(argument.arg for argument in arguments)
        self._positions: dict[ast.stmt, tuple[ast.stmt | None, Suite, int]] = {}
        self.statements = list(self._enter(tree.body, None))
        self.bindings = [b for statement in self.statements for b in _bindings(statement)]

    def _enter(self, suite: Suite, parent: ast.stmt | None) -> Iterator[ast.stmt]:
        for index, statement in enumerate(suite):
            self._positions[statement] = parent, suite, index
            yield statement
            for inner in _suites(statement):
                yield from self._enter(inner, statement)

    def loops_around(self, line: int) -> list[ast.For | ast.While]:
        """Return the loops around the innermost statement at a line."""
        at = [s for s in self.statements if line in lines_of(s)]
        loops: list[ast.For | ast.While] = []
        parent = self._positions[at[-1]][0] if at else None
        while parent is not None:
            if isinstance(parent, (ast.For, ast.While)):
                loops.append(parent)
            parent = self._positions[parent][0]
        return loops

    def returned(self) -> ast.Return | None:
        """Return the function's only `return` statement if it is at the end, else None."""
        ways = [s for s in self.statements if isinstance(s, ast.Return)]
        return ways[0] if len(ways) == 1 and ways[0] is self.tree.body[-1] else None

    def reaching(self, statement: ast.stmt, name: str) -> Binding | Carried | str | None:
        """Find the assignment that gives a name its value at the place where a statement reads it.

        Returns:
            The assignment; `Carried` if the assignment may be in the previous iteration of a loop;
            the name itself if it is a parameter; None if the assignment depends on branches or is
            unknown.
        """
        parent, suite, index = self._positions[statement]
        for before in reversed(suite[:index]):
            own = [b for b in _bindings(before) if b.name == name]
            if own and not isinstance(before, _COMPOUND):
                return own[0] if len(own) == 1 else None
            if any(b.name == name for b in _all_bindings(before)):
                return None
        if parent is None:
            return name if name in self.parameters else None
        if not isinstance(parent, ast.For):
            return None  # it is unknown whether this branch was taken
        if isinstance(parent.target, ast.Name) and parent.target.id == name:
            return Binding(name, parent)
        if any(b.name == name for inner in parent.body for b in _all_bindings(inner)):
            return Carried(name, parent)
        return self.reaching(parent, name)


def _suites(statement: ast.stmt) -> list[Suite]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return []
    suites = [getattr(statement, field, None) for field in ("body", "orelse", "finalbody")]
    return [suite for suite in suites if isinstance(suite, list)]


def _all_bindings(statement: ast.stmt) -> Iterator[Binding]:
    yield from _bindings(statement)
    for suite in _suites(statement):
        for inner in suite:
            yield from _all_bindings(inner)


def _bindings(statement: ast.stmt) -> Iterator[Binding]:
    """Yield the bindings of a statement itself, without the bindings of nested statements."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _targets(target, statement, statement.value)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _targets(statement.target, statement, statement.value)
    elif isinstance(statement, (ast.AugAssign, ast.For)):
        yield from _targets(statement.target, statement, None)


def _targets(target: ast.expr, statement: ast.stmt, source: ast.expr | None) -> Iterator[Binding]:
    if isinstance(target, ast.Name):
        yield Binding(target.id, statement, source)
    elif isinstance(target, (ast.Tuple, ast.List)):
        several = len(target.elts)
        starred = any(isinstance(element, ast.Starred) for element in target.elts)
        own = source.elts if isinstance(source, (ast.Tuple, ast.List)) else None
        for index, element in enumerate(target.elts):
            if not isinstance(element, ast.Name):
                yield from _targets(element, statement, None)
            elif starred or source is None or (own is not None and len(own) != several):
                yield Binding(element.id, statement)
            elif own is not None:
                yield Binding(element.id, statement, own[index])
            else:
                yield Binding(element.id, statement, source, (index, several))
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value, statement, None)


class SourceNames:
    """The functions of a file, and the expressions at its locations.

    In Triton 3.8 and later, the location of an operation is the start of its expression. In earlier
    versions, it is the start of the expression's last operand, with a column relative to the
    function's indentation.

    Args:
        by_last: If True, locations follow the convention of the earlier versions.
    """

    def __init__(self, source: str, by_last: bool = False) -> None:
        self._by_last = by_last
        tree = syntax_tree(source) or ast.Module([], [])
        self._trees = sorted(functions_in(source), key=lambda node: node.lineno)
        self._functions: dict[int, Function] = {}
        self._starting: dict[tuple[int, int], list[ast.AST]] = {}
        for node in ast.walk(tree):
            if isinstance(node, (ast.expr, ast.AugAssign)):
                self._starting.setdefault(self.position_of(node), []).append(node)

    def function_at(self, line: int) -> Function | None:
        """Return the innermost function around a line."""
        around = [t for t in self._trees if t.lineno <= line <= (t.end_lineno or t.lineno)]
        if not around:
            return None
        function = self._functions.get(around[-1].lineno)
        if function is None:
            function = self._functions[around[-1].lineno] = Function(around[-1])
        return function

    def is_single(self, line: int, column: int) -> bool:
        """Return whether a call or operators start at a location, but at most one of each kind.

        Args:
            line: Line number, from 1.
            column: Column as in locations, from 1.
        """
        kinds = [
            kind
            for node in self._starting.get((line, column), [])
            if (kind := _kind(node)) is not None
        ]
        return bool(kinds) and len(kinds) == len(set(kinds))

    def position_of(self, node: ast.expr | ast.AugAssign) -> tuple[int, int]:
        """Return the line and column of the location that Triton gives to an expression."""
        at = _last_operand(node) if self._by_last else node
        return at.lineno, at.col_offset + 1 - self._indent(at.lineno)

    def is_within(self, node: ast.expr, line: int, column: int) -> bool:
        """Return whether a location belongs to an expression or a part of it."""
        indent = self._indent(line)
        start = node.lineno, node.col_offset
        end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return start <= (line, column - 1 + indent) < end

    def _indent(self, line: int) -> int:
        if not self._by_last:
            return 0
        around = [t for t in self._trees if t.lineno <= line <= (t.end_lineno or t.lineno)]
        return around[-1].col_offset if around else 0


def _last_operand(node: ast.expr | ast.AugAssign) -> ast.expr | ast.keyword | ast.AugAssign:
    """Return the part of an expression that Triton's compiler visits last."""
    if isinstance(node, ast.BinOp):
        return node.right
    if isinstance(node, ast.AugAssign):
        return node.value
    if isinstance(node, ast.Compare):
        return node.comparators[0]
    if isinstance(node, ast.UnaryOp):
        return node.operand
    if isinstance(node, ast.BoolOp):
        return node.values[-1]
    if isinstance(node, ast.Call):
        parts: list[ast.expr | ast.keyword] = [node.func, *node.keywords, *node.args]
        return parts[-1].value if isinstance(parts[-1], ast.Starred) else parts[-1]
    return node


def _kind(node: ast.AST) -> str | None:
    if isinstance(node, (ast.BinOp, ast.AugAssign, ast.UnaryOp, ast.BoolOp)):
        return type(node.op).__name__
    return type(node).__name__ if isinstance(node, (ast.Call, ast.Compare)) else None


_names = lru_cache(maxsize=64)(SourceNames)


def names_of_file(file: str, by_last: bool) -> SourceNames:
    """Return the names of a file; empty if it cannot be read.

    Args:
        by_last: Convention of locations, see `SourceNames`.
    """
    return _names("".join(source_lines(file)), by_last)
