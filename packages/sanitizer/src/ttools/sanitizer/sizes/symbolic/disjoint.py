"""Whether the programs of a launch touch different elements, proved for all sizes of a box.

Two rules: the elements are distinguished by digits, as row and column of an index are, or one is
always behind the other. Must not know what the accesses are for beyond loads and stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ttools.interpreter.ir import shape_of
from ttools.interpreter.ir.expr import (
    PROGRAM,
    Expr,
    Symbol,
    as_expr,
    substitute,
)
from ttools.sanitizer.sizes.algebra.proofs import Space
from ttools.sanitizer.sizes.algebra.solver import Solver
from ttools.sanitizer.sizes.host.launches import Memory
from ttools.sanitizer.sizes.symbolic.accesses import Access
from ttools.sanitizer.sizes.symbolic.digits import Digits
from ttools.sanitizer.sizes.symbolic.tables import order_facts
from ttools.sanitizer.sizes.symbolic.values import Renamer, lane, moved_copy


@dataclass(frozen=True)
class Instance:
    """One way in which an access reaches memory.

    Attributes:
        memory: what it reaches.
        at: the element of the storage.
        facts: what is at least 0 then.
    """

    access: Access
    memory: Memory
    at: Expr
    facts: tuple[Expr, ...]


@dataclass(frozen=True)
class Conflict:
    """Two accesses that are not shown to be apart; the first one stores.

    Attributes:
        in_program: whether two lanes of one program are meant.
    """

    kind: str
    first: Instance
    second: Instance
    in_program: bool = False


def conflicts(
    space: Space,
    instances: Sequence[Instance],
    programs: Sequence[Expr],
    is_asked: Callable[[str, Access], bool],
    solver: Solver | None = None,
) -> Iterator[Conflict]:
    """The pairs of accesses that are not shown to be apart.

    Args:
        space: the sizes and symbols.
        instances: all accesses of the launch.
        programs: the program ids along the axes where there are several.
        is_asked: whether a conflict of that kind, of which that access is the first, matters.
        solver: is asked where nothing else shows it.
    """
    for n, one in enumerate(instances):
        if one.access.kind == "load":
            continue
        alone = one.access.kind == "store" and not one.access.uniform
        if alone and is_asked("overlapping_store", one.access):
            # Two lanes may go different ways to their address, or through a mask.
            for other in instances[n:]:
                if other.access is one.access and not _lanes_apart(space, one, other, solver):
                    yield Conflict("overlapping_store", one, other, in_program=True)
        if not programs:
            continue
        for m, other in enumerate(instances):
            writes_too = other.access.kind != "load"
            if other.memory.number != one.memory.number or (writes_too and m < n):
                continue
            kinds = {one.access.kind, other.access.kind}
            if kinds == {"atomic"}:
                continue
            if kinds == {"store"} and one.access.op is other.access.op and one.access.uniform:
                continue  # all write the same
            kind = "overlapping_store" if kinds == {"store"} else "race"
            # As runs name them: of two stores the later one, of a store and an atomic the store.
            turned = kinds == {"store"} or (one.access.kind == "atomic" and "store" in kinds)
            first, second = (other, one) if turned else (one, other)
            if is_asked(kind, first.access) and not _apart(space, one, other, programs, solver):
                yield Conflict(kind, first, second)


def _renamer(space: Space, instance: Instance, keeps: frozenset[Symbol]) -> Renamer:
    renamer = Renamer(
        lambda s: moved_copy(s, "other") if s.level >= PROGRAM and s not in keeps else None
    )
    for expr in (instance.at, *instance.facts):
        renamer.expr(expr)
    done: set[Symbol] = set()
    while len(done) < len(renamer.replaced):  # bounds may name further symbols
        for symbol in [s for s in renamer.replaced if s not in done]:
            done.add(symbol)
            for fact in space.facts_of(symbol):
                renamer.expr(fact)
            if symbol in space.elements:
                renamer.expr(space.elements[symbol].position)
    space.copy_declarations(renamer.replaced)
    return renamer


def _apart(
    space: Space,
    one: Instance,
    other: Instance,
    programs: Sequence[Expr],
    solver: Solver | None,
) -> bool:
    """Whether no two different programs touch one element by these accesses."""
    renamer = _renamer(space, other, frozenset())
    for program in programs:
        renamer.expr(program)
    space.copy_declarations(renamer.replaced)
    at = renamer.expr(other.at)
    facts = [renamer.expr(f) for f in other.facts]
    every = [*one.facts, *facts]
    same: dict[Symbol, Expr] = {}
    left = list(programs)
    while left:
        # What touches one element is one program along some axes, and so perhaps along others.
        digits = Digits(space, list(one.facts), facts, renamer, _mine(same, renamer))
        digits.equal(one.at, at)
        new = [p for p in left if digits.determined(p) or digits.pinned(p)]
        if not new:
            behind = substitute(at, same)
            given = [substitute(fact, same) for fact in every]
            new = [p for p in left if _ordered(space, one.at, behind, given, p, renamer.expr(p))][
                :1
            ]
        if not new:
            break
        left = [p for p in left if p not in new]
        same = _unified(space, renamer, {**same, **{_only(renamer.expr(p)): p for p in new}})
    if not left:
        return True
    return solver is not None and solver.refutes(
        space,
        [*every, one.at - at, at - one.at],
        [(program, renamer.expr(program)) for program in programs],
    )


def _only(expr: Expr) -> Symbol:
    (symbol,) = expr.symbols()
    return symbol


def _mine(same: Mapping[Symbol, Expr], renamer: Renamer) -> frozenset[Symbol]:
    """The symbols of the first access that are the same in the second one."""
    return frozenset(s for s, other in renamer.replaced.items() if _only(other) in same)


def _unified(space: Space, renamer: Renamer, same: dict[Symbol, Expr]) -> dict[Symbol, Expr]:
    """What is the same for both, with the elements at positions that are."""
    found = dict(same)
    for symbol, other in renamer.replaced.items():
        element = space.elements.get(symbol)
        if element is not None and _only(other) not in found:
            theirs = space.elements[_only(other)].position
            if substitute(theirs, found) == element.position:
                found[_only(other)] = as_expr(symbol)
    return found


def _ordered(
    space: Space, at: Expr, other: Expr, facts: list[Expr], mine: Expr, theirs: Expr
) -> bool:
    """Whether a later program along one axis always touches what lies behind, or before."""
    for later in (theirs - mine - 1, mine - theirs - 1):
        given = [*facts, later]
        given += order_facts(space, given, (at, other))
        behind = space.nonneg(other - at - 1, given)
        if not behind and not space.nonneg(at - other - 1, given):
            return False
    return True


def _lanes_apart(space: Space, one: Instance, other: Instance, solver: Solver | None) -> bool:
    """Whether lanes of a store that go these two ways write different elements."""
    shape = shape_of(one.access.op.address.type)
    lanes = [lane(axis, extent) for axis, extent in enumerate(shape) if extent > 1]
    if not lanes:
        return True
    exprs = (one.at, other.at, *one.facts, *other.facts)
    inside = set().union(*(expr.base_symbols() for expr in exprs))
    apart = (e for s in inside if (e := space.elements.get(s)) is not None and e.distinct)
    inside = inside.union(*(element.position.base_symbols() for element in apart))
    # What differs by lane is renamed: the lanes themselves and data in tiles.
    keeps = frozenset(s for s in inside if s.level < min(each.level for each in lanes))
    renamer = _renamer(space, other, keeps)
    for symbol in lanes:
        if symbol not in inside:
            return False  # all of them write one element
        renamer.expr(as_expr(symbol))
    space.copy_declarations(renamer.replaced)
    facts = [renamer.expr(f) for f in other.facts]
    digits = Digits(space, list(one.facts), facts, renamer, keeps)
    at = renamer.expr(other.at)
    digits.equal(one.at, at)
    if all(digits.determined(as_expr(symbol)) for symbol in lanes):
        return True
    every = [*one.facts, *facts]
    if one is not other:
        goals = (one.at - at - 1, at - one.at - 1, *(-1 - fact for fact in facts))
        if any(space.nonneg(goal, [f for f in every if -1 - f != goal]) for goal in goals):
            return True
    return solver is not None and solver.refutes(
        space,
        [*every, one.at - at, at - one.at],
        [(as_expr(symbol), renamer.expr(as_expr(symbol))) for symbol in lanes],
    )
