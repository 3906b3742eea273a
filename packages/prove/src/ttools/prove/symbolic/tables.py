"""What promises say of several elements of one table: equal positions, ascending numbers.

An element that a mask leaves out may lie outside of its table. Think of a table that ascends as
going on for ever, with its first number before it and its last one behind: that keeps its bounds
and the order, so what follows from the order may be used of any two positions. That no two are
equal is used only inside of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ttools.ir.expr import LANE, Expr, Symbol, as_expr
from ttools.prove.algebra.proofs import Element, Space
from ttools.prove.host.launches import Memory


def note_element(space: Space, loaded: Symbol, memory: Memory, at: Expr) -> None:
    """Notes which element of what memory a symbol is.

    Args:
        space: gets it.
        loaded: the symbol.
        memory: what was loaded from.
        at: how far from its first element.
    """
    table = memory.number, memory.dtype, memory.offset, memory.shape, memory.strides
    ends = None
    if len(memory.shape) == 1 and memory.strides[0].constant == 1:
        ends = memory.offset, memory.offset + memory.shape[0] - 1
    element = Element(table, memory.offset + at, ends, memory.distinct, memory.ascending)
    if memory.ascending and loaded.level < LANE:
        # Of tiles this is said where it is used, as their lanes may move before.
        for symbol, other in space.elements.items():
            if other.table == table and symbol.level < LANE:
                for fact in _in_order(space, (symbol, other), (loaded, element), ()):
                    space.relate(symbol, fact)
                    space.relate(loaded, fact)
    space.elements[loaded] = element


def order_facts(space: Space, facts: Sequence[Expr], exprs: Iterable[Expr]) -> list[Expr]:
    """What the order of tables says of the elements in polynomials, wherever facts hold."""
    if not any(element.ascending for element in space.elements.values()):
        return []
    inside: set[Symbol] = set().union(*(p.base_symbols() for p in (*exprs, *facts)))
    known = [(s, e) for s in inside if (e := space.elements.get(s)) is not None and e.ascending]
    known.sort(key=lambda each: each[0].order)
    found: list[Expr] = []
    for n, one in enumerate(known):
        for other in known[n + 1 :]:
            if one[1].table == other[1].table:
                found += _in_order(space, one, other, [*facts, *found])
    return found


def is_loose(space: Space, at: Expr, facts: Iterable[Expr]) -> bool:
    """Whether data decide about an element of which nothing is known: no proof can be found."""
    free = {s for s in at.symbols() if s.kind == "data" and s not in space.elements}
    return bool(free) and not free <= set().union(*(fact.base_symbols() for fact in facts))


def _in_order(
    space: Space,
    one: tuple[Symbol, Element],
    other: tuple[Symbol, Element],
    facts: Sequence[Expr],
) -> list[Expr]:
    """By how much the element behind is not below the one before, where that is seen."""
    apart = other[1].position - one[1].position
    found = []
    for (first, before), (last, behind), distance in ((one, other, apart), (other, one, -apart)):
        if not space.nonneg(distance, facts):
            continue
        rise = as_expr(last) - as_expr(first)
        if facts and before.distinct and before.ends is not None:
            low, high = before.ends
            inside = (before.position - low, high - behind.position)
            if all(space.nonneg(goal, facts) for goal in inside):
                rise = rise - distance
        found.append(rise)
    return found
