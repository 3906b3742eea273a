"""Assignments of unrolled loops whose value only the next iteration of the same statement uses.

In such a loop one iteration's value looks as if it were part of the next one's. Operations of one
location in the source, and of one kind, are distinguished from parts of a statement by its syntax
tree: where only one operator can have made them, each is what the last one is, the whole of an
assignment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ttools.core.location import SourceLocation
from ttools.ir import Block, Module, Value
from ttools.ir.nesting import blocks_within
from ttools.watch.variables.source_names import Function, names_of_file

Chain = list[SourceLocation]
#: Operation, result, type, and all locations that led there: equal for the iterations of a loop.
Kind = tuple[object, ...]


def kind_of(value: Value, index: int, chain: Chain, level: int) -> Kind:
    """What the values of one statement in several iterations have in common."""
    op = value.defining_op
    assert op is not None
    locations = tuple((at.file, at.line, at.column, at.name) for at in chain)
    return op.name, index, str(value.type), locations, level


def is_certain(chain: Chain, level: int, by_last: bool) -> bool:
    """Whether a statement has one operation of a location and kind per iteration.

    Args:
        chain: the location of the operation and those of its callers.
        level: of the statement in question.
        by_last: how locations are written, see `SourceNames`.
    """
    location = chain[0]
    if not names_of_file(location.file, by_last).is_single(location.line, location.column):
        return False
    return not any(_loops(inner) for inner in chain[:level])


def is_unrolled(chain: Iterable[SourceLocation]) -> bool:
    """Whether a location, or a call that led there, stands in a loop that is unrolled."""
    return any(map(_unrolls, (loop for location in chain for loop in _loops(location))))


def _loops(location: SourceLocation) -> list[ast.For | ast.While]:
    function: Function | None = names_of_file(location.file, False).function_at(location.line)
    return [] if function is None else function.loops_around(location.line)


def _unrolls(loop: ast.For | ast.While) -> bool:
    if not isinstance(loop, ast.For):
        return False
    if not isinstance(loop.iter, ast.Call):
        return True  # over the items of a tuple
    named = any(word.arg == "loop_unroll_factor" for word in loop.iter.keywords)
    return named or ast.unparse(loop.iter.func).rpartition(".")[2] == "static_range"


def all_blocks(module: Module) -> Iterator[Block]:
    """Every block of a module that variables are looked for in."""
    for function in module.functions.values():
        yield from blocks_within(function.regions[0])
