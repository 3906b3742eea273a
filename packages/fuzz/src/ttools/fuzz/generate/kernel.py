"""A whole kernel: a grid, loads, a number of rules, and stores of all that was made."""

from __future__ import annotations

import random

from ttools.fuzz.elements import I32
from ttools.fuzz.facts import within
from ttools.fuzz.generate import calls, combinations, control, loads, moves, values
from ttools.fuzz.generate.context import Context, Features, Rule, fill
from ttools.fuzz.operations.elementwise import binary
from ttools.fuzz.operations.table import number, program_id, var
from ttools.fuzz.program import Assign, Expr, Program, all_expressions

_RULES: dict[Rule, int] = {
    **values.RULES,
    **combinations.RULES,
    **moves.RULES,
    **loads.RULES,
    **control.RULES,
    **calls.RULES,
}
_GRIDS = ((1,), (2,), (3,), (5,), (2, 2), (1, 3), (2, 1, 3), (2, 2, 2))
_MOST_STORES = 10


def generate(seed: int, features: Features | None = None) -> Program:
    """The kernel of a seed; the same for the same seed and features."""
    rng = random.Random(f"ttools-fuzz-{seed}")
    context = Context(rng, features or Features())
    context.grid = (1,) if context.chance(0.45) else context.choose(_GRIDS)
    _number_programs(context)
    for _ in range(context.choose((1, 2, 2, 3))):
        loads.load(context)
    fill(context, context.rng.randint(2, 12), _RULES)
    _store_all(context)
    return Program(
        seed,
        context.grid,
        tuple(context.buffers),
        tuple(context.parameters),
        tuple(context.block),
        tuple(context.helpers),
    )


def _number_programs(context: Context) -> None:
    total, expr = 1, None
    for axis, extent in enumerate(context.grid):
        if extent > 1:
            part: Expr = program_id(axis, extent)
            part = part if total == 1 else binary("mul", part, number(total, I32))
            expr = part if expr is None else binary("add", expr, part)
        total *= extent
    if expr is not None:
        context.add(Assign(("pid",), expr))
        context.program = var("pid", expr.type, within(0, total - 1))
        context.scope.append(context.program)


def _store_all(context: Context) -> None:
    """Stores what nothing reads, then some of the rest."""
    read = {e.attrs["name"] for e in all_expressions(context.block) if e.op == "var"}
    unread = [v for v in context.scope if v.attrs["name"] not in read]
    rest = [v for v in context.scope if v.attrs["name"] in read]
    context.rng.shuffle(rest)
    chosen = [*unread, *rest[: context.choose((0, 1, 2))]][:_MOST_STORES]
    for value in chosen or rest[:1]:
        if value.type.element.kind != "pointer":
            loads.store(context, value)
