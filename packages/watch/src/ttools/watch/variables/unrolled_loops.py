"""Search for assignments in unrolled loops whose value is used only by the next iteration.

For example, `acc += x` unrolled twice gives two additions with the same location. The first
addition looks like a part of the expression of the second, because the second is its only use, but
both are values of `acc`. The syntax tree of the statement resolves this: if the statement contains
only one operator that can have produced operations of this location and kind, each of these
operations is the complete value of an assignment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ttools.core.location import SourceLocation
from ttools.ir import Block, Module, Value
from ttools.ir.nesting import blocks_within
from ttools.watch.variables.source_names import Function, names_of_file

Chain = list[SourceLocation]
#: Identifies a value by its operation, result index, type and all locations; it is the same in all
#: iterations.
Kind = tuple[object, ...]


def kind_of(value: Value, index: int, chain: Chain, level: int) -> Kind:
    """Return a key that is the same for the values of one statement in all iterations of a loop.

    Args:
        index: Index of the value among the results of its operation.
        chain: The location of the operation, followed by the locations of its callers.
        level: Index of the statement's location in `chain`.
    """
    op = value.defining_op
    assert op is not None
    locations = tuple((at.file, at.line, at.column, at.name) for at in chain)
    return op.name, index, str(value.type), locations, level


def is_certain(chain: Chain, level: int, by_last: bool) -> bool:
    """Return whether each iteration has exactly one operation of this location and kind.

    Args:
        chain: The location of the operation, followed by the locations of its callers.
        level: Index of the statement's location in `chain`.
        by_last: Convention for locations, see `SourceNames`.
    """
    location = chain[0]
    if not names_of_file(location.file, by_last).is_single(location.line, location.column):
        return False
    return not any(_loops(inner) for inner in chain[:level])


def is_unrolled(chain: Iterable[SourceLocation]) -> bool:
    """Return whether a location, or a call that led to it, is in an unrolled loop."""
    return any(map(_unrolls, (loop for location in chain for loop in _loops(location))))


def _loops(location: SourceLocation) -> list[ast.For | ast.While]:
    function: Function | None = names_of_file(location.file, False).function_at(location.line)
    return [] if function is None else function.loops_around(location.line)


def _unrolls(loop: ast.For | ast.While) -> bool:
    if not isinstance(loop, ast.For):
        return False
    if not isinstance(loop.iter, ast.Call):
        return True  # the loop is over the items of a tuple
    named = any(word.arg == "loop_unroll_factor" for word in loop.iter.keywords)
    return named or ast.unparse(loop.iter.func).rpartition(".")[2] == "static_range"


def all_blocks(module: Module) -> Iterator[Block]:
    """Yield every block of a module in which variables are searched for."""
    for function in module.functions.values():
        yield from blocks_within(function.regions[0])
