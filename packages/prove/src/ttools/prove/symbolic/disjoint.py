"""Proofs for all sizes of a box that the programs of a launch access different elements.

There are two rules. `EqualityInference` shows that equal addresses imply equal programs: for
example, an address `row * stride + column` with `0 <= column < stride` determines the row and the
column. The other rule shows that, of any two programs along an axis, the later program always
accesses later elements, or always accesses earlier ones.
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
    """Infers which symbols are equal if two addresses are equal.

    If two sums `s * high + low` with `0 <= low < s`, or with `-s < low <= 0`, are equal, both have
    the same `high` and the same `low`. For example, programs `p` and `q` that both store to `128 *
    p + lane` with a lane below 128 are the same program. If two elements of a table with distinct
    elements are equal, they are at the same position.

    Args:
        space: The sizes and symbols.
        facts: Facts about the first access.
        others: Facts about the second access, with renamed symbols.
        renamer: The renaming of the second access.
        equal: Symbols that have the same value in both accesses.
    """

    def __init__(
        self,
        space: Space,
        facts: list[Expr],
        others: list[Expr],
        renamer: Renamer,
        equal: frozenset[Symbol] = frozenset(),
    ) -> None:
        self._space, self._facts, self._others = space, facts, others
        self._renamer = renamer
        self._known: set[Symbol] = set(equal)
        self._leaves: list[tuple[Expr, Expr]] = []

    def determined(self, expr: Expr) -> bool:
        """Return whether an expression is the same in both accesses."""
        return all(self._is_known(s) for s in expr.symbols())

    def pinned(self, program: Expr) -> bool:
        """Return whether facts fix a program id to a value that is the same in both accesses."""
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
        """Infer equal symbols from `p == q`."""
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
            # 0 <= low < scale implies that the scale is positive.
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
        """Infer equal symbols from the equation `p == q`; return whether a new one was found."""
        if self._renamed(p) != q:
            return False
        for symbol_of_p in p.symbols():
            if not self._is_known(symbol_of_p) and self._is_zero(symbol_of_p):
                self._known.add(symbol_of_p)
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
        """Infer that `p` is the same in both accesses if `p // w`, `p % d` and `r // d` are.

        Here, `r` is `p % w`. As `p // w` is the same in both accesses, `r` differs between them by
        as much as `p`. The difference is a multiple of `d`, because `p % d` is the same. It is also
        less than `d`, because `r // d` is the same. Therefore it is 0. Kernels that group programs
        compute such indices.
        """
        for quotient in [s for s in self._known if s.kind == "floordiv" and s.args[0] == p]:
            width = quotient.args[1]
            if self.determined(width) and self.determined(floordiv(modulo(p, width), d)):
                self._split(p, self._renamed(p), _DEPTH)
                return

    def _is_zero(self, symbol: Symbol) -> bool:
        """Return whether a symbol can only be 0, in both accesses."""
        if symbol.args or self._space.range_of(symbol)[0] != 0:
            return False
        mine = self._space.nonneg(-as_expr(symbol), self._facts)
        return mine and self._space.nonneg(-self._renamed(as_expr(symbol)), self._others)

    def _renamed(self, p: Expr) -> Expr:
        return substitute(p, self._renamer.replaced)


def _quotients(p: Expr, d: Expr) -> Iterator[Expr]:
    """Yield `p // d` and, if `p` is itself a quotient, the same value in terms of its dividend."""
    yield floordiv(p, d)
    for symbol in p.symbols():
        if symbol.kind == "floordiv" and p == as_expr(symbol):
            yield floordiv(symbol.args[0], symbol.args[1] * d)


def _parts(expr: Expr) -> dict[tuple[Symbol, ...], Expr]:
    return expr.coefficients(lambda s: s.level >= PROGRAM)


def _by_scale(expr: Expr, scale: Expr) -> tuple[Expr, Expr]:
    """Return `(high, low)` of `scale * high + low`; `high` has all terms that `scale` divides."""
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
    """One case of an access.

    Attributes:
        memory: The memory that is accessed.
        at: Index of the element in the storage.
        facts: Expressions that are at least 0 in this case.
    """

    access: Access
    memory: Memory
    at: Expr
    facts: tuple[Expr, ...]


@dataclass(frozen=True)
class Conflict:
    """Two accesses that are not proved to access different elements.

    Attributes:
        kind: Kind of finding that the conflict may turn out to be.
        first: An access that writes.
        in_program: True if the accesses are made by two lanes of one program.
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
    """Yield the pairs of accesses that are not proved to access different elements.

    Args:
        space: The sizes and symbols.
        instances: All accesses of the launch.
        programs: Program ids along the axes with several programs.
        is_asked: Called with a kind of conflict and its first access; returns whether such
            conflicts are of interest.
        solver: Z3, which is used where no other proof is found; None if it is not to be used.
    """
    for n, one in enumerate(instances):
        if one.access.kind == "load":
            continue
        alone = one.access.kind == "store" and not one.access.uniform
        if alone and is_asked("overlapping_store", one.access):
            # The two lanes may be in different cases of the store's address or mask.
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
                continue  # all write the same value
            kind = "overlapping_store" if kinds == {"store"} else "race"
            # A conflict is reported at its first access. As in the evaluation at one size, the
            # later one of two stores counts as the first access, and in a conflict between a store
            # and an atomic operation, the store does.
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
    while len(done) < len(renamer.replaced):  # bounds may contain further symbols
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
    """Return whether it is proved that different programs access different elements."""
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
        # The ids of two programs that access the same element are shown to be equal along one axis
        # after another, because equal ids along some axes may imply equal ids along others.
        digits = EqualityInference(space, list(one.facts), facts, renamer, _mine(same, renamer))
        digits.equal(one.at, at)
        new = [p for p in left if digits.determined(p) or digits.pinned(p)]
        if not new:
            behind = substitute(at, same)
            premises = [substitute(fact, same) for fact in every]
            new = [
                p for p in left if _ordered(space, one.at, behind, premises, p, renamer.expr(p))
            ][:1]
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
    """Return the symbols of the first access that are the same in the second one."""
    return frozenset(s for s, other in renamer.replaced.items() if _only(other) in same)


def _unified(space: Space, renamer: Renamer, same: dict[Symbol, Expr]) -> dict[Symbol, Expr]:
    """Return `same`, extended by elements of tables that are equal because their positions are."""
    unified = dict(same)
    for symbol, other in renamer.replaced.items():
        element = space.elements.get(symbol)
        if element is not None and _only(other) not in unified:
            theirs = space.elements[_only(other)].position
            if substitute(theirs, unified) == element.position:
                unified[_only(other)] = as_expr(symbol)
    return unified


def _ordered(
    space: Space, at: Expr, other: Expr, facts: list[Expr], mine: Expr, theirs: Expr
) -> bool:
    """Return whether later programs along an axis always access later, or always earlier, elements.

    For example, program `p` stores to `p * BLOCK + lane` with `lane < BLOCK`. If `q >= p + 1`, the
    element of program `q` is at least `p * BLOCK + BLOCK`, which is above all elements of `p`.

    Args:
        at: Index of the element that the first program accesses.
        other: Index of the element that the second program accesses.
        facts: Expressions that are at least 0.
        mine: Id of the first program along the axis.
        theirs: Id of the second program along the axis.
    """
    for later in (theirs - mine - 1, mine - theirs - 1):
        premises = [*facts, later]
        premises += order_facts(space, premises, (at, other))
        behind = space.nonneg(other - at - 1, premises)
        if not behind and not space.nonneg(at - other - 1, premises):
            return False
    return True


def _lanes_apart(space: Space, one: Instance, other: Instance, solver: Solver | None) -> bool:
    """Return whether it is proved that the lanes of a store write different elements.

    Args:
        one: The case of the first lane.
        other: The case of the second lane.
    """
    shape = shape_of(one.access.op.address.type)
    lanes = [lane(axis, extent) for axis, extent in enumerate(shape) if extent > 1]
    if not lanes:
        return True
    exprs = (one.at, other.at, *one.facts, *other.facts)
    inside = set().union(*(expr.base_symbols() for expr in exprs))
    apart = (e for s in inside if (e := space.elements.get(s)) is not None and e.distinct)
    inside = inside.union(*(element.position.base_symbols() for element in apart))
    # Symbols of lanes, and of data in tiles, may have different values in the two lanes, so they
    # are renamed.
    keeps = frozenset(s for s in inside if s.level < min(symbol.level for symbol in lanes))
    renamer = _renamer(space, other, keeps)
    for symbol in lanes:
        if symbol not in inside:
            return False  # all of these lanes write one element
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
