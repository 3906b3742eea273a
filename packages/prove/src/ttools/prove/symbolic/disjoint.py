"""Proofs for all sizes of a box that the programs of a launch touch different elements.

There are two rules. Either what two programs touch is distinguished by the digits of the index, as
by its row and its column (`EqualityInference`), or one is always behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ttools.ir import shape_of
from ttools.ir.expr import (
    PROGRAM,
    ZERO,
    Expr,
    Symbol,
    as_expr,
    floordiv,
    modulo,
    substitute,
)
from ttools.prove.algebra.proofs import Space
from ttools.prove.algebra.solver import Solver
from ttools.prove.host.launches import Memory
from ttools.prove.symbolic.evaluator import Access
from ttools.prove.symbolic.tables import order_facts
from ttools.prove.symbolic.values import Renamer, lane, moved_copy

_DEPTH = 6
_ROUNDS = 24


class EqualityInference:
    """What follows from two elements being the same one.

    Of `s * high + low` with `0 <= low < s` equal sums have equal `high` and equal `low`, as they
    have with `-s < low <= 0`. Equal
    elements of a table that has no two equal ones are at one position.

    Args:
        space: the sizes and symbols.
        facts: of the first element.
        others: of the second one, whose symbols are renamed.
        renamer: has renamed them.
        known: symbols that are the same in both.
    """

    def __init__(
        self,
        space: Space,
        facts: list[Expr],
        others: list[Expr],
        renamer: Renamer,
        known: frozenset[Symbol] = frozenset(),
    ) -> None:
        self._space, self._facts, self._others = space, facts, others
        self._renamer = renamer
        self._known: set[Symbol] = set(known)
        self._leaves: list[tuple[Expr, Expr]] = []

    def determined(self, expr: Expr) -> bool:
        """Whether it is the same for both."""
        return all(self._is_known(s) for s in expr.symbols())

    def pinned(self, program: Expr) -> bool:
        """Whether facts leave a program id one value, the same for both, as the last one's."""
        ends: list[Expr] = []
        (symbol,) = program.symbols()
        for fact in [*self._space.facts_of(symbol), *self._facts]:
            a, b = fact.linear_in(symbol) or (ZERO, ZERO)
            if a.constant in (1, -1) and all(s.level < PROGRAM for s in b.symbols()):
                ends.append(-b * (a.constant or 1))
        theirs = self._renamed(program)
        return any(
            self._is(program, end, self._facts) and self._is(theirs, end, self._others)
            for end in dict.fromkeys(ends)
        )

    def _is(self, p: Expr, q: Expr, facts: list[Expr]) -> bool:
        return self._space.nonneg(p - q, facts) and self._space.nonneg(q - p, facts)

    def _is_known(self, symbol: Symbol) -> bool:
        if symbol in self._known or symbol.level < PROGRAM:
            return True
        element = self._space.elements.get(symbol)
        if element is not None and self.determined(element.position):
            return True
        return bool(symbol.args) and all(self.determined(a) for a in symbol.args)

    def equal(self, p: Expr, q: Expr) -> None:
        """Notes what follows from `p == q`."""
        self._split(p, q, _DEPTH)
        for _ in range(_ROUNDS):
            news = [self._use(*leaf) for leaf in [*self._leaves]]
            if True not in news:
                break

    def _split(self, p: Expr, q: Expr, depth: int) -> None:
        one, other = _parts(p), _parts(q)
        if one.get((), ZERO) == other.get((), ZERO):
            p, q = p - one.pop((), ZERO), q - other.pop((), ZERO)
        scales = {-c if (c.constant or 0) < 0 else c for m, c in one.items() if m}
        order = sorted(scales, key=lambda c: self._space.range(c)[1] or 0, reverse=True)
        for scale in order if depth > 0 else ():
            if scale.constant in (1, -1):
                continue
            (high, low), (high2, low2) = _by_scale(p, scale), _by_scale(q, scale)
            if not low.terms and not low2.terms and self._is_positive(scale):
                self._split(high, high2, depth - 1)
                return
            # That there is a digit says that the scale is above 0.
            if any(
                self._is_digit(sign * low, scale, self._facts)
                and self._is_digit(sign * low2, scale, self._others)
                for sign in (1, -1)
            ):
                self._split(high, high2, depth - 1)
                self._split(low, low2, depth - 1)
                return
        self._leaves.append((p, q))

    def _is_positive(self, expr: Expr) -> bool:
        low = self._space.range(expr)[0]
        return (low is not None and low > 0) or self._space.nonneg(expr - 1, self._facts)

    def _is_digit(self, low: Expr, scale: Expr, facts: list[Expr]) -> bool:
        return self._space.nonneg(low, facts) and self._space.nonneg(scale - 1 - low, facts)

    def _use(self, p: Expr, q: Expr) -> bool:
        """Takes what is new from an equation; whether there is anything."""
        if self._renamed(p) != q:
            return False
        for each in p.symbols():
            if not self._is_known(each) and self._is_zero(each):
                self._known.add(each)
        unknown = [s for s in p.symbols() if not self._is_known(s)]
        if len(unknown) != 1:
            return False
        (symbol,) = unknown
        parts = p.linear_in(symbol)
        if parts is None or not self.determined(parts[0]):
            return False
        if not (self._is_positive(parts[0]) or self._is_positive(-parts[0])):
            return False
        self._known.add(symbol)
        element = self._space.elements.get(symbol)
        if element is not None and element.distinct:
            self._split(element.position, self._renamed(element.position), _DEPTH)
        if symbol.kind in ("floordiv", "mod"):
            for rest in [s for s in self._known if s.kind == "mod"]:
                p, d = rest.args
                if self.determined(d) and not self.determined(p):
                    if any(self.determined(quotient) for quotient in _quotients(p, d)):
                        self._split(p, self._renamed(p), _DEPTH)
                    else:
                        self._use_rotated(p, d)
        return True

    def _use_rotated(self, p: Expr, d: Expr) -> None:
        """Takes what follows from `r // d` and `p % d` of one `d`, where `r` is `p % w`.

        If `p // w` is the same too, `r` differs by as much as `p`: by a multiple of `d`, that is,
        and as `r // d` is the same, by less than `d`. So programs are grouped.
        """
        for quotient in [s for s in self._known if s.kind == "floordiv" and s.args[0] == p]:
            width = quotient.args[1]
            if self.determined(width) and self.determined(floordiv(modulo(p, width), d)):
                self._split(p, self._renamed(p), _DEPTH)
                return

    def _is_zero(self, symbol: Symbol) -> bool:
        """Whether a symbol can only be 0, in both."""
        if symbol.args or self._space.range_of(symbol)[0] != 0:
            return False
        mine = self._space.nonneg(-as_expr(symbol), self._facts)
        return mine and self._space.nonneg(-self._renamed(as_expr(symbol)), self._others)

    def _renamed(self, p: Expr) -> Expr:
        return substitute(p, self._renamer.replaced)


def _quotients(p: Expr, d: Expr) -> Iterator[Expr]:
    """`p // d`, and of a `p` that is a quotient itself that of what is divided there."""
    yield floordiv(p, d)
    for symbol in p.symbols():
        if symbol.kind == "floordiv" and p == as_expr(symbol):
            yield floordiv(symbol.args[0], symbol.args[1] * d)


def _parts(expr: Expr) -> dict[tuple[Symbol, ...], Expr]:
    return expr.coefficients(lambda s: s.level >= PROGRAM)


def _by_scale(expr: Expr, scale: Expr) -> tuple[Expr, Expr]:
    """`(high, low)` of `scale * high + low`, where high has all terms that it divides."""
    high, low = ZERO, ZERO
    for monomial, coefficient in _parts(expr).items():
        term = Expr({monomial: 1})
        quotient, rest = _divided(coefficient, scale)
        high, low = high + quotient * term, low + rest * term
    return high, low


def _divided(coefficient: Expr, scale: Expr) -> tuple[Expr, Expr]:
    number = scale.constant
    if number is not None:
        quotient = Expr({m: c // number for m, c in coefficient.terms.items() if c % number == 0})
        return quotient, coefficient - quotient * number
    return coefficient.divided(scale)


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
        digits = EqualityInference(space, list(one.facts), facts, renamer, _mine(same, renamer))
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
    digits = EqualityInference(space, list(one.facts), facts, renamer, keeps)
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
