"""Evaluation of a launch at one size, for the programs that are most likely to fail.

Evaluation leaves out lanes and programs that depend on unknown data. If a table has assumed bounds,
the launch is evaluated two more times: with a table full of the smallest permitted number, and with
a table full of the largest one. This shows defects that concern single elements. Findings about two
elements, such as races, are ignored in these evaluations, because no assumption says which numbers
occur together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ttools.ir import Module, Operation, shape_of
from ttools.ir.expr import Expr, Symbol, as_expr, evaluate
from ttools.prove.concrete.run import ConcreteRun
from ttools.prove.concrete.state import Event, Outcome
from ttools.prove.grids import REFUSED, refused_axes
from ttools.prove.host.launches import Memory, SymbolicCall
from ttools.prove.host.tensors import INDEX
from ttools.prove.symbolic.conditions import Key

#: Up to this number of tables, all combinations of their smallest and largest numbers are
#: evaluated. If there are more tables, the launch is evaluated once with the smallest number in all
#: tables, and once with the largest number in all tables.
_MOST_APART = 2
#: Kinds of findings about a single element.
KINDS = frozenset({"int_overflow", "oob_load", "oob_store", "oob_atomic", "view_oob"})


def at_ends(
    launch: SymbolicCall, sizes: Mapping[Symbol, int]
) -> Iterator[tuple[SymbolicCall, str]]:
    """Yield the launch with tables at the assumed bounds, and a phrase that describes them."""
    tables = {name: ends for name, memory in _tables(launch) if (ends := _ends(memory, sizes))}
    choices = [(0,) * len(tables), (1,) * len(tables)]
    if len(tables) <= _MOST_APART:
        choices = [*itertools.product((0, 1), repeat=len(tables))]
    for choice in choices if tables else ():
        chosen = {name: tables[name][end] for name, end in zip(tables, choice, strict=True)}
        arguments = tuple(
            replace(argument, content=chosen[name][0])
            if name in chosen and isinstance(argument, Memory)
            else argument
            for name, argument in zip(launch.names, launch.arguments, strict=True)
        )
        words = ", ".join(f"`{name}` contains {text}" for name, (_, text) in chosen.items())
        yield replace(launch, arguments=arguments), words


def _tables(launch: SymbolicCall) -> Iterator[tuple[str, Memory]]:
    """Yield the tables with assumed bounds that share no memory with other arguments."""
    numbers = [m.number for m in launch.arguments if isinstance(m, Memory)]
    for name, memory in zip(launch.names, launch.arguments, strict=True):
        if not isinstance(memory, Memory) or memory.within is None or memory.content is not None:
            continue
        if numbers.count(memory.number) == 1:
            yield name, memory


def _ends(memory: Memory, sizes: Mapping[Symbol, int]) -> list[tuple[Expr, str]]:
    """Return the contents of a table at the lower and at the upper bound, with descriptions.

    The result is empty if no table can satisfy the assumption.
    """
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


#: Maximum number of lanes, over all programs, that are evaluated at a size.
_BUDGET = 1 << 19
_MOST_PROGRAMS = 8192
#: With tables at an assumed bound, this number of programs is evaluated at each end of the list of
#: programs.
_MOST_AT_ENDS = 512
#: `look_further` evaluates the remaining programs if they form at most this number of parts.
_MOST_PARTS = 24

Programs: TypeAlias = list[tuple[int, int, int]]


class Trial:
    """A launch at one size.

    Args:
        sizes: Values of the sizes.
        written: Numbers of the storages that the kernel writes to.

    Attributes:
        uncertain: Operations whose addresses or masks depend on unknown data.
        is_whole: True if all programs were evaluated and nothing was unknown.
    """

    def __init__(
        self,
        launch: SymbolicCall,
        module: Module,
        sizes: Mapping[Symbol, int],
        written: frozenset[int],
    ) -> None:
        self.launch = launch
        self._module, self._sizes, self._written = module, sizes, written
        grid = [max(0, evaluate(e, sizes)) for e in launch.grid]
        lanes = max((_lanes(op) for op in module.kernel.walk() if not op.regions), default=1)
        wanted = max(4, min(_MOST_PROGRAMS, _BUDGET // lanes))
        total = grid[0] * grid[1] * grid[2]
        chosen = _programs(grid, wanted)
        left = total - len(chosen)
        self._left = _others(grid, chosen, wanted) if 0 < left <= _MOST_PARTS * wanted else iter(())
        outcome = self._run(chosen)
        self.events: list[Event] = list(outcome.events.values())
        self.events += [
            Event(REFUSED, op, (0, 0, 0), refused=said) for op, said in refused_axes(module, grid)
        ]
        self.uncertain: list[Operation] = outcome.uncertain
        self.is_whole = outcome.whole and len(chosen) == total

    def _run(self, programs: Programs) -> Outcome:
        outcome = self._computed(self.launch, programs)
        if outcome.uncertain:
            # All elements of such a table are usually equal, so programs in the middle rarely
            # behave differently.
            some = dict.fromkeys([*programs[:_MOST_AT_ENDS], *programs[-_MOST_AT_ENDS:]])
            for launch, words in at_ends(self.launch, self._sizes):
                for key, event in self._computed(launch, [*some]).events.items():
                    if event.kind in KINDS:
                        outcome.events.setdefault(key, replace(event, promise=words))
        return outcome

    def _computed(self, launch: SymbolicCall, programs: Programs) -> Outcome:
        return ConcreteRun(launch, self._module, self._sizes, programs, self._written).run()

    def look_further(self, key: Key, is_late: Callable[[], bool]) -> bool:
        """Evaluate the remaining programs in parts until a defect is found; return whether it was.

        Conflicts between programs of different parts are not found.

        Args:
            key: Key of the defect.
            is_late: Returns whether the time limit has passed.
        """
        while not self.has(key) and not is_late():
            programs = next(self._left, None)
            if programs is None:
                return False
            self.events += self._run(programs).events.values()
        return self.has(key)

    def key(self, event: Event) -> Key:
        """Return the key of the problem that an event confirms."""
        return event.kind, self.launch.kernel, str(event.op.location)

    def has(self, key: Key) -> bool:
        return any(self.key(event) == key for event in self.events)


def _lanes(op: Operation) -> int:
    most = 1
    for value in op.results:
        count = 1
        for extent in shape_of(value.type):
            count *= extent
        most = max(most, count)
    return most


def _others(grid: list[int], chosen: Programs, wanted: int) -> Iterator[Programs]:
    """Yield parts of the programs that were not chosen, each of at most `wanted` programs."""
    excluded = set(chosen)
    every = itertools.product(*(range(extent) for extent in reversed(grid)))
    others = ((x, y, z) for z, y, x in every if (x, y, z) not in excluded)
    while part := list(itertools.islice(others, wanted)):
        yield part


def _programs(grid: list[int], wanted: int) -> Programs:
    """Return all programs if there are few, otherwise those at the ends of each axis."""
    if grid[0] * grid[1] * grid[2] <= wanted:
        return [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    long = sum(extent > 1 for extent in grid)
    share = max(2, int(wanted ** (1 / max(1, long))))
    axes = []
    for extent in grid:
        if extent <= share:
            axes.append(list(range(extent)))
            continue
        half = max(1, (share - 1) // 2)
        ends = [*range(half), *range(extent - half, extent), extent // 2]
        axes.append(sorted(set(ends)))
    return [(x, y, z) for z, y, x in itertools.product(*reversed(axes))]
