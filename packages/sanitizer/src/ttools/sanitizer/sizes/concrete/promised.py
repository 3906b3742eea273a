"""What tables may hold at one size: the ends of what a user promises of them.

What data decide is left out of runs. Of a table of which bounds are promised, the least and the
greatest number may be in it, so a run in which it holds these shows what the promise allows. Which
numbers belong together no promise says: what such a run shows of two elements is no finding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ttools.interpreter.ir.expr import Expr, Symbol, as_expr, evaluate
from ttools.sanitizer.sizes.host.launches import Launch, Memory
from ttools.sanitizer.sizes.host.storage import INDEX

#: Tables whose ends are put together in all ways; of more, all are at the same end.
_MOST_APART = 2
#: What one element shows by itself.
KINDS = frozenset({"int_overflow", "oob_load", "oob_store", "oob_atomic", "view_oob"})


def at_ends(launch: Launch, sizes: Mapping[Symbol, int]) -> Iterator[tuple[Launch, str]]:
    """The launch with tables at the ends of what is promised, and what they hold, in words."""
    tables = {name: found for name, memory in _tables(launch) if (found := _ends(memory, sizes))}
    choices = [(0,) * len(tables), (1,) * len(tables)]
    if len(tables) <= _MOST_APART:
        choices = [*itertools.product((0, 1), repeat=len(tables))]
    for choice in choices if tables else ():
        chosen = {name: tables[name][end] for name, end in zip(tables, choice, strict=True)}
        arguments = tuple(
            replace(given, content=chosen[name][0])
            if name in chosen and isinstance(given, Memory)
            else given
            for name, given in zip(launch.names, launch.arguments, strict=True)
        )
        words = ", ".join(f"`{name}` holds {text}" for name, (_, text) in chosen.items())
        yield replace(launch, arguments=arguments), words


def _tables(launch: Launch) -> Iterator[tuple[str, Memory]]:
    """Tables with promised bounds that share their memory with no other argument."""
    numbers = [m.number for m in launch.arguments if isinstance(m, Memory)]
    for name, memory in zip(launch.names, launch.arguments, strict=True):
        if not isinstance(memory, Memory) or memory.within is None or memory.content is not None:
            continue
        if numbers.count(memory.number) == 1:
            yield name, memory


def _ends(memory: Memory, sizes: Mapping[Symbol, int]) -> list[tuple[Expr, str]]:
    """What the table may hold at either end; nothing if no table keeps the promise."""
    assert memory.within is not None
    low, high = (evaluate(end, sizes) for end in memory.within)
    count = 1
    for extent in memory.shape:
        count *= evaluate(extent, sizes)
    if low > high or not count:
        return []
    if not memory.distinct or count == 1:
        return [(as_expr(end), f"{end:,} everywhere") for end in (low, high)]
    is_row = len(memory.shape) == 1 and memory.strides[0].constant == 1
    if not is_row or high - low < count - 1:
        return []
    first = as_expr(INDEX) - evaluate(memory.offset, sizes)
    return [
        (first + begin, f"{begin:,} to {begin + count - 1:,}") for begin in (low, high - count + 1)
    ]
