"""Relations between elements of a table that follow from assumptions about order and distinctness.

If a mask leaves a lane out, the position of the lane may be outside the table. An ascending table
can be extended by copies of its first number in front of it and of its last number behind it
without changing its bounds and order. The order may therefore be used for any two positions.
Distinctness is used only for positions inside the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ttools.ir.expr import LANE, Expr, Symbol, as_expr
from ttools.prove.algebra.proofs import Element, Space
from ttools.prove.host.launches import Memory


def note_element(space: Space, loaded: Symbol, memory: Memory, at: Expr) -> None:
    """Record which element of a table a symbol stands for.

    Args:
        memory: The view that is loaded from.
        at: Index of the element in the storage, counted from the first element of the view.
    """
    table = memory.number, memory.dtype, memory.offset, memory.shape, memory.strides
    ends = None
    if len(memory.shape) == 1 and memory.strides[0].constant == 1:
        ends = memory.offset, memory.offset + memory.shape[0] - 1
    element = Element(table, memory.offset + at, ends, memory.distinct, memory.ascending)
    if memory.ascending and loaded.level < LANE:
        # For elements in tiles, `order_facts` derives the order when it is needed, because views
        # may move the lanes before that.
        for symbol, other in space.elements.items():
            if other.table == table and symbol.level < LANE:
                for fact in _in_order(space, (symbol, other), (loaded, element), ()):
                    space.relate(symbol, fact)
                    space.relate(loaded, fact)
    space.elements[loaded] = element


def order_facts(space: Space, facts: Sequence[Expr], exprs: Iterable[Expr]) -> list[Expr]:
    """Return inequalities between the elements of ascending tables that occur in expressions.

    Args:
        facts: Expressions that are at least 0; elements are searched in these, too.
        exprs: Further expressions in which elements are searched.

    Returns:
        Expressions that are at least 0 because of the order of the elements.
    """
    if not any(element.ascending for element in space.elements.values()):
        return []
    inside: set[Symbol] = set().union(*(p.base_symbols() for p in (*exprs, *facts)))
    elements = [(s, e) for s in inside if (e := space.elements.get(s)) is not None and e.ascending]
    elements.sort(key=lambda entry: entry[0].order)
    relations: list[Expr] = []
    for n, one in enumerate(elements):
        for other in elements[n + 1 :]:
            if one[1].table == other[1].table:
                relations += _in_order(space, one, other, [*facts, *relations])
    return relations


def is_loose(space: Space, at: Expr, facts: Iterable[Expr]) -> bool:
    """Return whether an address depends on data without bounds, so that no proof can exist."""
    free = {s for s in at.symbols() if s.kind == "data" and s not in space.elements}
    return bool(free) and not free <= set().union(*(fact.base_symbols() for fact in facts))


def _in_order(
    space: Space,
    one: tuple[Symbol, Element],
    other: tuple[Symbol, Element],
    facts: Sequence[Expr],
) -> list[Expr]:
    """Return expressions that are at least 0 because one element comes after the other.

    The result is empty if it is unknown which element comes first.
    """
    apart = other[1].position - one[1].position
    rises = []
    for (first, before), (last, behind), distance in ((one, other, apart), (other, one, -apart)):
        if not space.nonneg(distance, facts):
            continue
        rise = as_expr(last) - as_expr(first)
        if facts and before.distinct and before.ends is not None:
            low, high = before.ends
            inside = (before.position - low, high - behind.position)
            if all(space.nonneg(goal, facts) for goal in inside):
                rise = rise - distance
        rises.append(rise)
    return rises
