"""Changes to a kernel's source that must not change its results in any bit.

A mutator receives a kernel's text and a random generator. It changes one place, and returns whether
the text had such a place.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator
from typing import TypeVar

from ttools.core.syntax_trees import assigned_names
from ttools.fuzz.mutation.source import (
    HELPER,
    KernelText,
    Statements,
    calls,
    has_effect,
)

Mutator = Callable[[KernelText, random.Random], bool]
Node = TypeVar("Node", bound=ast.AST)

MUTATORS: dict[str, Mutator] = {}
#: Expressions that evaluate their parts conditionally, or in a scope of their own.
_CLOSED = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.JoinedStr)


def _mutator(name: str) -> Callable[[Mutator], Mutator]:
    def register(mutator: Mutator) -> Mutator:
        MUTATORS[name] = mutator
        return mutator

    return register


@_mutator("rename")
def _rename(text: KernelText, rng: random.Random) -> bool:
    """Rename a local variable."""
    names = sorted(text.locals() - set(text.parameters))
    if not names:
        return False
    old, new = rng.choice(names), text.new_name("renamed_")
    for node in ast.walk(text.kernel):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new
    return True


@_mutator("helper")
def _helper(text: KernelText, rng: random.Random) -> bool:
    """Move an expression into a new function."""
    place = _expression(text, rng)
    if place is None:
        return False
    statement, old = place
    local_names = text.locals()
    names = sorted({n.id for n in ast.walk(old) if isinstance(n, ast.Name)} & local_names)
    name = text.new_name(HELPER)
    arguments: list[ast.expr] = [ast.Name(argument, ast.Load()) for argument in names]
    called = ast.Call(ast.Name(name, ast.Load()), arguments, [])
    _replace(statement, old, called)
    parameters = ast.arguments(
        [], [ast.arg(argument) for argument in names], None, [], [], None, []
    )
    function = ast.parse(f"def {name}(): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.args, function.body = parameters, [ast.Return(copy.deepcopy(old))]
    text.module.body.insert(0, function)
    return True


@_mutator("variable")
def _variable(text: KernelText, rng: random.Random) -> bool:
    """Move an expression of a statement into a new variable that is assigned before it."""
    place = _expression(text, rng)
    if place is None:
        return False
    statement, old = place
    name = text.new_name("part_")
    _replace(statement, old, ast.Name(name, ast.Load()))
    block = next(b for b in text.statement_lists() if any(s is statement for s in b))
    index = next(n for n, s in enumerate(block) if s is statement)
    block.insert(index, ast.Assign([ast.Name(name, ast.Store())], old))
    return True


@_mutator("if true")
def _if_true(text: KernelText, rng: random.Random) -> bool:
    """Move a statement under a condition that is always true."""
    return _wrap(text, rng, lambda s: ast.If(ast.Constant(value=True), [s], []), _is_simple)


@_mutator("once")
def _once(text: KernelText, rng: random.Random) -> bool:
    """Move a store into a loop with one iteration."""

    def loop(statement: ast.stmt) -> ast.stmt:
        name = ast.Name(text.new_name("once_"), ast.Store())
        bounds = ast.Call(ast.Name("range", ast.Load()), [ast.Constant(1)], [])
        return ast.For(name, bounds, [statement], [])

    return _wrap(text, rng, loop, _is_plain_store)


@_mutator("dead code")
def _dead_code(text: KernelText, rng: random.Random) -> bool:
    """Insert a computation whose result is not used."""
    place = _expression(text, rng)
    if place is None:
        return False
    statement, value = place
    block = next(b for b in text.statement_lists() if any(s is statement for s in b))
    index = next(n for n, s in enumerate(block) if s is statement)
    name = ast.Name(text.new_name("dead_"), ast.Store())
    block.insert(index, ast.Assign([name], copy.deepcopy(value)))
    return True


@_mutator("twice")
def _twice(text: KernelText, rng: random.Random) -> bool:
    """Repeat an idempotent statement."""
    places = [
        (block, index)
        for block in text.statement_lists()
        for index, statement in enumerate(block)
        if _is_idempotent(statement)
    ]
    if not places:
        return False
    block, index = rng.choice(places)
    block.insert(index, copy.deepcopy(block[index]))
    return True


@_mutator("hoist")
def _hoist(text: KernelText, rng: random.Random) -> bool:
    """Move an assignment before statements that do not depend on it."""
    places = [
        (block, index)
        for block in text.statement_lists()
        for index in range(1, len(block))
        if _are_independent(block[index - 1], block[index])
    ]
    if not places:
        return False
    block, index = rng.choice(places)
    while index and _are_independent(block[index - 1], block[index]):
        block[index - 1], block[index] = block[index], block[index - 1]
        index -= 1
    return True


@_mutator("associate")
def _associate(text: KernelText, rng: random.Random) -> bool:
    """Reassociate a sum of integers: write (a + b) + c as a + (b + c)."""

    def fits(node: ast.BinOp) -> bool:
        left = node.left
        if not (isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add)):
            return False
        is_first_whole = text.is_integer(left.left) or text.is_pointer(left.left)
        return is_first_whole and all(map(text.is_integer, (left.right, node.right)))

    sums = [n for n in _sums(text) if fits(n)]
    if not sums:
        return False
    node = rng.choice(sums)
    left = node.left
    assert isinstance(left, ast.BinOp)
    node.left, node.right = left.left, ast.BinOp(left.right, ast.Add(), node.right)
    return True


@_mutator("commute")
def _commute(text: KernelText, rng: random.Random) -> bool:
    """Swap the operands of a sum of integers."""
    sums = [n for n in _sums(text) if text.is_integer(n.left) and text.is_integer(n.right)]
    if not sums:
        return False
    node = rng.choice(sums)
    node.left, node.right = node.right, node.left
    return True


@_mutator("assignment")
def _assignment(text: KernelText, rng: random.Random) -> bool:
    """Write `x += y` as `x = x + y`."""
    places = [
        (block, index)
        for block in text.statement_lists()
        for index, statement in enumerate(block)
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name)
    ]
    if not places:
        return False
    block, index = rng.choice(places)
    old = block[index]
    assert isinstance(old, ast.AugAssign)
    assert isinstance(old.target, ast.Name)
    name = old.target.id
    total = ast.BinOp(ast.Name(name, ast.Load()), old.op, old.value)
    block[index] = ast.Assign([ast.Name(name, ast.Store())], total)
    return True


# ---- places


def _sums(text: KernelText) -> Iterator[ast.BinOp]:
    for node in ast.walk(text.kernel):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield node


def _expression(text: KernelText, rng: random.Random) -> tuple[ast.stmt, ast.expr] | None:
    """Return a statement and a random computation in it that depends on run-time values."""
    places = [
        (statement, node)
        for block in text.statement_lists()
        for statement in block
        if isinstance(statement, (ast.Assign, ast.AugAssign)) or _is_call(statement)
        for node in _open_expressions(statement)
        if isinstance(node, (ast.BinOp, ast.Compare))
        and text.is_dynamic(node)
        and not has_effect(node)
    ]
    return rng.choice(places) if places else None


def _open_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions that a statement always evaluates, in the kernel's own scope."""
    value = getattr(statement, "value", None)
    pending = [value] if isinstance(value, ast.expr) else []
    while pending:
        node = pending.pop()
        if isinstance(node, _CLOSED):
            continue
        yield node
        pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        if isinstance(node, ast.Call):
            pending += [keyword.value for keyword in node.keywords]


class _Replacement(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().generic_visit(node)


def _replace(statement: ast.stmt, old: ast.AST, new: ast.AST) -> None:
    _Replacement(old, new).generic_visit(statement)


def _wrap(
    text: KernelText,
    rng: random.Random,
    make: Callable[[ast.stmt], ast.stmt],
    fits: Callable[[ast.stmt], bool],
) -> bool:
    places: list[tuple[Statements, int]] = [
        (block, index)
        for block in text.statement_lists()
        for index, statement in enumerate(block)
        if fits(statement)
    ]
    if not places:
        return False
    block, index = rng.choice(places)
    block[index] = make(block[index])
    return True


# ---- statements


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _is_simple(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Assign, ast.AugAssign)) or _is_call(statement)


def _is_plain_store(statement: ast.stmt) -> bool:
    """Return whether a statement stores, and reads no memory."""
    return _is_call(statement) and "store" in calls(statement) and "load" not in calls(statement)


def _is_idempotent(statement: ast.stmt) -> bool:
    if _is_plain_store(statement):
        return not any("atomic" in name for name in calls(statement))
    return _is_pure(statement) and not (assigned_names(statement) & _read(statement))


def _is_pure(statement: ast.stmt) -> bool:
    named = isinstance(statement, ast.Assign) and all(
        isinstance(t, (ast.Name, ast.Tuple)) for t in statement.targets
    )
    return named and not has_effect(statement)


def _are_independent(first: ast.stmt, second: ast.stmt) -> bool:
    """Return whether two adjacent statements may be swapped."""
    if not (_is_pure(first) and _is_pure(second)):
        return False
    one, other = assigned_names(first), assigned_names(second)
    return not (one & other or one & _read(second) or other & _read(first))


def _read(statement: ast.stmt) -> set[str]:
    nodes = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
    return {n.id for n in nodes if isinstance(n.ctx, ast.Load)}
