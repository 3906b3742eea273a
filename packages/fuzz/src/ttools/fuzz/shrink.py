"""Reduction of a failing program to a small one that fails for the same reason.

Candidates are programs from which something was removed: a statement, a mask, programs of the grid,
half of a block. Expressions are replaced by one of their operands, variables by constants. A
predicate decides whether a candidate still fails.

A value is only replaced by one whose facts imply the original's, so that a candidate still has one
correct result. For example, `x + 1` with the interval [1, 9] may be replaced by `x` only if `x`
itself lies in [1, 9].
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from ttools.core import shrinking
from ttools.fuzz import oracle, text
from ttools.fuzz.elements import I32
from ttools.fuzz.facts import Fact
from ttools.fuzz.operations.table import OPERATIONS, full, number
from ttools.fuzz.program import (
    Assign,
    Expr,
    For,
    If,
    Program,
    Statement,
    Store,
    While,
    all_expressions,
    bodies,
    expressions,
    statements,
    with_bodies,
    with_expressions,
)
from ttools.fuzz.trial import Failure
from ttools.fuzz.workers import Examiner, Work

Fails = Callable[[Program], bool]
Block = tuple[Statement, ...]


def shrink(program: Program, fails: Fails, seconds: float = 60.0) -> Program:
    """Return the smallest program found that still fails.

    Args:
        program: The program that fails.
        fails: Returns whether a candidate fails for the same reason.
        seconds: Time limit in seconds.
    """

    def accepts(candidate: Program, best: Program) -> Program | None:
        tidy = without_unused(candidate)
        accepted = _weight(tidy) < _weight(best) and _is_defined(tidy) and fails(tidy)
        return tidy if accepted else None

    return shrinking.shrink(program, _STEPS, accepts, time.monotonic() + seconds)


def _is_defined(program: Program) -> bool:
    """Return whether the oracle can evaluate the program, which costs less than running it."""
    try:
        oracle.run(program)
    except Exception:  # noqa: BLE001 - the reduction produced an invalid program
        return False
    return True


def _weight(program: Program) -> tuple[int, ...]:
    """Return the quantities to minimise, lexicographically: grid, lines, text, memory, patterns."""
    source = text.definitions(program)
    memory = sum(buffer.size + buffer.margin for buffer in program.buffers)
    plain = sum(buffer.data not in ("ramp", "small") for buffer in program.buffers)
    return (
        math.prod(program.grid),
        source.count("\n") + 2 * len(program.buffers),
        len(source),
        memory,
        plain,
    )


# ---- removal of unused parts


def without_unused(program: Program) -> Program:
    """Return the program without unused variables, buffers, parameters and functions."""
    body = program.body
    while True:
        kept = _without_unread(body, _read(body))
        if _count(kept) == _count(body):
            break
        body = kept
    used = {e.type.buffer for e in all_expressions(body)} | {
        e.attrs["buffer"] for e in all_expressions(body) if e.op == "pointer"
    }
    names = {e.attrs["name"] for e in all_expressions(body) if "name" in e.attrs}
    helpers = tuple(helper for helper in program.helpers if helper.name in names)
    return replace(
        program,
        body=body,
        buffers=tuple(buffer for buffer in program.buffers if buffer.name in used),
        parameters=tuple(p for p in program.parameters if p.name in names),
        helpers=helpers,
    )


def _read(block: Block) -> set[str]:
    return {e.attrs["name"] for e in all_expressions(block) if e.op == "var"}


def _count(block: Block) -> int:
    return sum(1 for _ in statements(block))


def _without_unread(block: Block, read: set[str]) -> Block:
    kept: list[Statement] = []
    for statement in block:
        if isinstance(statement, Assign) and not read.intersection(statement.targets):
            if any(OPERATIONS[e.op].effect for e in statement.value.walk()):
                kept.append(statement)
            continue
        inner = [_without_unread(b, read) for b in bodies(statement)]
        if inner and not any(inner):
            continue
        kept.append(with_bodies(statement, inner) if inner else statement)
    return tuple(kept)


# ---- candidates


def _blocks(block: Block) -> Iterator[Block]:
    """Yield the block with one part removed, at the top or in nested blocks."""
    for count in (len(block) // 2, len(block) // 4, 1):
        if count < 1:
            continue
        for start in range(len(block) - count, -1, -count):
            yield (*block[:start], *block[start + count :])
    for i, statement in enumerate(block):
        before, after = block[:i], block[i + 1 :]
        for inner in bodies(statement):
            if not isinstance(statement, While):
                yield (*before, *_unrolled(statement, inner), *after)
        parts = bodies(statement)
        for j, inner in enumerate(parts):
            for less in _blocks(inner):
                changed = with_bodies(statement, [*parts[:j], less, *parts[j + 1 :]])
                yield (*before, changed, *after)


def _unrolled(statement: Statement, inner: Block) -> Block:
    """Return a loop's body with the values of its first iteration, or a branch's body unchanged."""
    if not isinstance(statement, For):
        return inner
    type_ = statement.bounds[0].type
    start = statement.bounds[0]
    if statement.static or start.op != "number":
        return inner
    return (Assign((statement.name,), full(start.attrs["value"], type_)), *inner)


def _fewer_statements(
    program: Program, defined: Collection[str] = frozenset()
) -> Iterator[Program]:
    for block in _blocks(program.body):
        if _defined(block, defined):
            yield replace(program, body=block)


def _defined(block: Block, defined: Collection[str]) -> bool:
    """Return whether every variable is assigned before it is read."""
    names = set(defined)
    for statement in block:
        for expression in expressions(statement):
            if not names.issuperset(expression.names()):
                return False
        inner_names = {*names, statement.name} if isinstance(statement, For) else names
        if not all(_defined(inner, inner_names) for inner in bodies(statement)):
            return False
        if isinstance(statement, Assign):
            names.update(statement.targets)
    return True


def _smaller_grid(program: Program) -> Iterator[Program]:
    grid = program.grid
    for axis, extent in enumerate(grid):
        if extent > 1:
            yield replace(program, grid=(*grid[:axis], 1, *grid[axis + 1 :]))
    if len(grid) > 1 and grid[-1] == 1:
        yield replace(program, grid=grid[:-1])


def _without_masks(program: Program) -> Iterator[Program]:
    def less(statement: Statement) -> Iterator[Statement]:
        if isinstance(statement, Store) and statement.mask is not None:
            yield replace(statement, mask=None)
        if isinstance(statement, Store) and statement.is_atomic:
            yield replace(statement, is_atomic=False)
        if isinstance(statement, If):
            yield replace(statement, orelse=())

    yield from _changed_statements(program, less)


def _changed_statements(
    program: Program, change: Callable[[Statement], Iterator[Statement]]
) -> Iterator[Program]:
    for body in _with_changes(program.body, change):
        yield replace(program, body=body)


def _with_changes(
    block: Block, change: Callable[[Statement], Iterator[Statement]]
) -> Iterator[Block]:
    for i, statement in enumerate(block):
        for changed in change(statement):
            yield (*block[:i], changed, *block[i + 1 :])
        parts = bodies(statement)
        for j, inner in enumerate(parts):
            for less in _with_changes(inner, change):
                whole = with_bodies(statement, [*parts[:j], less, *parts[j + 1 :]])
                yield (*block[:i], whole, *block[i + 1 :])


def _simpler_expressions(program: Program) -> Iterator[Program]:
    def change(statement: Statement) -> Iterator[Statement]:
        parts = list(expressions(statement))
        for i, expression in enumerate(parts):
            for simpler in _simpler(expression):
                yield with_expressions(statement, [*parts[:i], simpler, *parts[i + 1 :]])

    yield from _changed_statements(program, change)


def _simpler(expr: Expr) -> Iterator[Expr]:
    """Yield the expression with one operation replaced by an operand or a constant."""
    if not expr.more:
        yield from _replacements(expr)
    for i, arg in enumerate(expr.args):
        for simpler in _simpler(arg):
            yield replace(expr, args=(*expr.args[:i], simpler, *expr.args[i + 1 :]))


def _replacements(expr: Expr) -> Iterator[Expr]:
    if expr.op in ("number", "full", "pointer", "program_id"):
        return
    for arg in expr.args:
        if arg.op != "number" and arg.type == expr.type and arg.fact.implies(expr.fact):
            yield arg
    if expr.op == "load" and len(expr.args) > 1:
        yield replace(expr, args=expr.args[:1])
    if expr.op == "dot" and len(expr.args) > 2:
        yield replace(expr, args=expr.args[:2])
    if expr.op == "parameter":
        yield number(expr.fact.low, I32)
    elif expr.type.element.kind != "pointer" and expr.op != "arange":
        constant = _constant(expr.fact)
        if constant is not None:
            yield full(constant, expr.type)


def _constant(fact: Fact) -> int | None:
    for value in (0, 1):
        if fact.low <= value <= fact.high:
            return value
    return None


def _inlined(program: Program) -> Iterator[Program]:
    """Yield the program with one variable replaced by its value, if it is read once."""
    reads = [e.attrs["name"] for e in all_expressions(program.body) if e.op == "var"]
    for i, statement in enumerate(program.body):
        if not isinstance(statement, Assign) or len(statement.targets) != 1:
            continue
        name, value = statement.targets[0], statement.value
        if reads.count(name) > (2 if value.op in ("var", "program_id") else 1):
            continue
        if any(e.op in ("load", "atomic", "atomic_cas") for e in value.walk()):
            continue
        if any(
            name in s.targets
            for s in statements(program.body)
            if isinstance(s, Assign) and s is not statement
        ):
            continue
        substituted = tuple(_substituted(s, name, value) for s in program.body[i + 1 :])
        yield replace(program, body=(*program.body[:i], *substituted))


def _substituted(statement: Statement, name: str, value: Expr) -> Statement:
    parts = [_substitute(expression, name, value) for expression in expressions(statement)]
    inner = [tuple(_substituted(s, name, value) for s in block) for block in bodies(statement)]
    changed = with_expressions(statement, parts)
    return with_bodies(changed, inner) if inner else changed


def _substitute(expr: Expr, name: str, value: Expr) -> Expr:
    if expr.op == "var" and expr.attrs["name"] == name:
        return value
    args = tuple(_substitute(arg, name, value) for arg in expr.args)
    return replace(expr, args=args)


def _shorter_helpers(program: Program) -> Iterator[Program]:
    for i, helper in enumerate(program.helpers):
        before, after = program.helpers[:i], program.helpers[i + 1 :]
        alone = replace(program, body=helper.body)
        names = {name for name, _ in helper.parameters}
        for changed in itertools.chain(
            _fewer_statements(alone, names), _simpler_expressions(alone)
        ):
            shorter = replace(helper, body=changed.body)
            yield replace(program, helpers=(*before, shorter, *after))


def _plainer_buffers(program: Program) -> Iterator[Program]:
    for i, buffer in enumerate(program.buffers):
        before, after = program.buffers[:i], program.buffers[i + 1 :]
        for changed in (
            replace(buffer, margin=0),
            replace(buffer, size=max(1, buffer.size // 2)),
            replace(buffer, size=max(1, buffer.size - 1)),
            replace(buffer, seed=0),
        ):
            if changed != buffer:
                yield replace(program, buffers=(*before, changed, *after))


#: Reductions by kind; the more effective ones come first.
_STEPS: Sequence[Callable[[Program], Iterator[Program]]] = (
    _smaller_grid,
    _fewer_statements,
    _simpler_expressions,
    _without_masks,
    _inlined,
    _shorter_helpers,
    _plainer_buffers,
)


def reduce_failure(
    program: Program, failure: Failure, work: Work, seconds: float = 60.0
) -> tuple[Program, Failure]:
    """Return the smallest program found that fails like `program`, and its failure.

    Candidates run in a separate process, because some of them crash it.

    Args:
        program: The program that fails.
        failure: Failure of the program.
        work: Options of the worker process.
        seconds: Time limit in seconds.
    """
    latest = failure
    with Examiner(work) as examiner:

        def fails(candidate: Program) -> bool:
            nonlocal latest
            verdict = examiner.examine(candidate, failure.variant)
            alike = [f for f in verdict.failures if f.cause == failure.cause]
            if alike:
                latest = alike[0]
            return bool(alike)

        small = shrink(program, fails, seconds)
    return small, latest
