"""Symbolic values of a kernel, for all programs, lanes, iterations and sizes at once.

A number is a list of cases. Each case has a polynomial, the facts under which it applies, and the
obligations under which machine integers agree with the polynomial. For example, a quotient of a
signed `n` by 4, which is rounded towards 0, has two cases: `floor(n / 4)` if `n >= 0`, and
`-floor(-n / 4)` if `-1 - n >= 0`. A sum `n + 1` of 32-bit integers has the obligation
`-2**31 <= n + 1 <= 2**31 - 1`. The classes and variables of this module call an obligation a
*need*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ttools.ir import Operation
from ttools.ir.expr import LANE, Expr, Symbol, as_expr, substitute

#: Maximum number of cases of a number; with more cases, it is an unknown number in a range.
MOST_CASES = 8
MOST_ALTERNATIVES = 12


@dataclass(frozen=True)
class Need:
    """An obligation: if `low <= expr <= high`, the result of an operation is exact.

    Attributes:
        op: The operation that has the obligation.
        expr: Expression that has to be in the interval.
        kind: `wrap` if machine integers wrap outside the interval; `model` if the result is merely
            unknown there.
    """

    op: Operation
    expr: Expr
    low: int
    high: int
    kind: Literal["wrap", "model"] = "wrap"

    @property
    def goals(self) -> tuple[Expr, Expr]:
        """Two expressions that are at least 0 if the obligation is met."""
        return self.expr - self.low, self.high - self.expr


Needs: TypeAlias = "frozenset[Need]"
NO_NEEDS: Needs = frozenset()


@dataclass(frozen=True)
class Fact:
    """An inequality `expr >= 0` that holds if its obligations are met."""

    expr: Expr
    needs: Needs = NO_NEEDS


Facts: TypeAlias = "tuple[Fact, ...]"


@dataclass(frozen=True)
class Case:
    """One case of a number.

    Attributes:
        value: Polynomial for the value; for a pointer, its distance from `base` in elements.
        when: Facts under which the case applies.
        needs: Obligations under which machine integers agree with the polynomial.
        base: Index of the parameter that a pointer is derived from; -1 if it is unknown, None if
            the value is an integer.
    """

    value: Expr
    when: Facts = ()
    needs: Needs = NO_NEEDS
    base: int | None = None


@dataclass(frozen=True)
class Number:
    """An integer, a pointer, or a tile of them."""

    cases: tuple[Case, ...]

    @property
    def single(self) -> Expr | None:
        """The polynomial of the only case, if this case always applies; else None."""
        (case,) = self.cases if len(self.cases) == 1 else (None,)
        return case.value if case is not None and not case.when else None


@dataclass(frozen=True)
class Opaque:
    """A value that is unknown.

    Attributes:
        uniform: True if all programs and lanes have the same value.
    """

    uniform: bool = False


@dataclass(frozen=True)
class Comparison:
    """`left >= right` or `left == right` of signed integers."""

    relation: Literal["ge", "eq"]
    left: Number
    right: Number


@dataclass(frozen=True)
class Logic:
    """A condition: a comparison, `and`/`or`/`not` of conditions, `true`, or `unknown`."""

    kind: Literal["compare", "and", "or", "not", "true", "unknown"]
    parts: tuple[Logic, ...] = ()
    comparison: Comparison | None = None


AnyValue: TypeAlias = "Number | Logic | Opaque"
TRUE, UNKNOWN = Logic("true"), Logic("unknown")


def number(value: Expr | int, needs: Needs = NO_NEEDS) -> Number:
    """Return a number with one case."""
    return Number((Case(as_expr(value), (), needs),))


def compare(relation: Literal["ge", "eq"], left: Number, right: Number) -> Logic:
    """Return a comparison as a condition."""
    return Logic("compare", (), Comparison(relation, left, right))


def negated(condition: Logic) -> Logic:
    """Return the negation of a condition."""
    return condition.parts[0] if condition.kind == "not" else Logic("not", (condition,))


def alternatives(condition: Logic | None, negate: bool = False) -> list[Facts]:
    """Return the disjuncts of a condition: if it holds, all facts of at least one disjunct hold.

    An empty list means that the condition never holds. Facts may be left out to limit their number,
    so the disjuncts may hold in more cases than the condition, but never in fewer. For example, `a
    and b` has one disjunct with the facts of both, `a or b` has two disjuncts, and `x != 0` has the
    two disjuncts `x - 1 >= 0` and `-x - 1 >= 0`.

    Args:
        condition: A condition; None for one that is always true.
        negate: If True, return the disjuncts of the negated condition.
    """
    if condition is None:
        return [] if negate else [()]
    kind = condition.kind
    if kind == "true":
        return [] if negate else [()]
    if kind == "unknown":
        return [()]
    if kind == "not":
        return alternatives(condition.parts[0], not negate)
    if kind == "compare":
        assert condition.comparison is not None
        return _comparison(condition.comparison, negate)
    parts = [alternatives(part, negate) for part in condition.parts]
    if (kind == "and") == negate:
        disjuncts = [facts for part in parts for facts in part]
        return disjuncts if len(disjuncts) <= MOST_ALTERNATIVES else [()]
    disjuncts = [()]
    for part in parts:
        if len(disjuncts) * len(part) > MOST_ALTERNATIVES:
            continue  # leaving out the facts of this part only weakens the disjuncts
        disjuncts = [(*one, *other) for one in disjuncts for other in part]
    return disjuncts


def _comparison(comparison: Comparison, negate: bool) -> list[Facts]:
    disjuncts: list[Facts] = []
    for left in comparison.left.cases:
        for right in comparison.right.cases:
            needs = left.needs | right.needs
            apart, when = left.value - right.value, (*left.when, *right.when)
            if comparison.relation == "ge":
                ways = [(-apart - 1,)] if negate else [(apart,)]
            elif negate:
                ways = [(apart - 1,), (-apart - 1,)]
            else:
                ways = [(apart, -apart)]  # type: ignore[list-item]
            for way in ways:
                if all((c := p.constant) is None or c >= 0 or needs for p in way):
                    disjuncts.append((*when, *(Fact(p, needs) for p in way)))
    return disjuncts if len(disjuncts) <= MOST_ALTERNATIVES else [()]


def joined(*numbers: Number) -> tuple[tuple[Case, ...], ...] | None:
    """Return all combinations of the cases of some numbers; None if there are too many."""
    combinations: list[tuple[Case, ...]] = [()]
    for operand in numbers:
        combinations = [(*before, case) for before in combinations for case in operand.cases]
        if len(combinations) > MOST_CASES:
            return None
    return tuple(combinations)


def facts_of(cases: Iterable[Case]) -> Facts:
    """Return the distinct facts under which all of the cases apply."""
    return tuple(dict.fromkeys(f for case in cases for f in case.when))


def needs_of(cases: Iterable[Case]) -> Needs:
    """Return the obligations of some cases."""
    return frozenset().union(*(case.needs for case in cases))


def all_needs(value: Number) -> Needs:
    """Return the obligations of all cases of a number, including those of their facts."""
    needs = needs_of(value.cases)
    return needs.union(*(f.needs for c in value.cases for f in c.when))


# ---- symbols for moved lanes
Renaming: TypeAlias = "Callable[[Symbol], Symbol | None]"


class Renamer:
    """Replaces symbols in values consistently: equal symbols get equal replacements.

    Args:
        new: Returns the replacement of a symbol; None if the symbol stays.
    """

    def __init__(self, new: Renaming) -> None:
        self._new = new
        self.replaced: dict[Symbol, Expr] = {}
        self._renamed: dict[Expr, Expr] = {}

    def expr(self, expr: Expr) -> Expr:
        renamed = self._renamed.get(expr)
        if renamed is None:
            for symbol in expr.base_symbols():
                if symbol not in self.replaced:
                    new = self._new(symbol)
                    if new is not None:
                        self.replaced[symbol] = as_expr(new)
            renamed = self._renamed[expr] = substitute(expr, self.replaced)
        return renamed

    def need(self, need: Need) -> Need:
        return Need(need.op, self.expr(need.expr), need.low, need.high, need.kind)

    def needs(self, needs: Needs) -> Needs:
        return frozenset(self.need(n) for n in needs) if needs else needs

    def facts(self, facts: Facts) -> Facts:
        return tuple(Fact(self.expr(f.expr), self.needs(f.needs)) for f in facts)

    def number(self, value: Number) -> Number:
        return Number(
            tuple(
                Case(self.expr(c.value), self.facts(c.when), self.needs(c.needs), c.base)
                for c in value.cases
            )
        )

    def logic(self, value: Logic) -> Logic:
        inner = value.comparison
        if inner is not None:
            left, right = self.number(inner.left), self.number(inner.right)
            return Logic("compare", (), Comparison(inner.relation, left, right))
        return Logic(value.kind, tuple(map(self.logic, value.parts)))

    def value(self, value: AnyValue) -> AnyValue:
        if isinstance(value, Number):
            return self.number(value)
        return self.logic(value) if isinstance(value, Logic) else value


_lanes: dict[tuple[int, int], Symbol] = {}


def lane(axis: int, extent: int) -> Symbol:
    """Return the symbol of the lane index along an axis of a tile.

    Args:
        axis: Number of the axis, from 0.
        extent: Extent of the tile along the axis.
    """
    if (axis, extent) not in _lanes:
        name = f"lane{axis}" if axis else "lane"
        _lanes[axis, extent] = Symbol(name, "lane", LANE, (), (axis, extent))
    return _lanes[axis, extent]


_moved: dict[tuple[Symbol, object], Symbol] = {}


def moved_copy(symbol: Symbol, how: object) -> Symbol:
    """Return a copy of a symbol, for its value in other lanes or in another program.

    Args:
        how: Identifies the other lanes or the other program; equal keys give the same copy.
    """
    copy = _moved.get((symbol, how))
    if copy is None:
        copy = Symbol(symbol.name + "'", symbol.kind, symbol.level, (), (symbol, how))
        _moved[symbol, how] = copy
    return copy


#: Returns True if it is proved that an expression is at least 0, given other expressions that are
#: at least 0.
Shows: TypeAlias = "Callable[[Expr, Sequence[Expr]], bool]"


def discharged(
    facts: Iterable[Fact], needs: Iterable[Need], shows: Shows, known: Sequence[Expr] = ()
) -> tuple[list[Expr], list[Need]]:
    """Return the facts that may be used, and the obligations that are not proved.

    A fact may be used once all of its obligations are proved from facts that may already be used.
    This order excludes circular proofs.

    Args:
        facts: Facts with their obligations.
        needs: Obligations to prove, in addition to those of the facts.
        shows: Tries to prove that an expression is at least 0, given other expressions that are at
            least 0.
        known: Expressions that are at least 0 without obligations.
    """
    waiting = list(dict.fromkeys(facts))
    usable = [*known]
    met: set[Need] = set()
    missing = list(dict.fromkeys(needs))
    progress = True
    while progress:
        progress = False
        for fact in [*waiting]:
            if all(n in met for n in fact.needs):
                waiting.remove(fact)
                usable.append(fact.expr)
                progress = True
        pending = dict.fromkeys([*missing, *(n for f in waiting for n in f.needs)])
        for need in pending:
            if need not in met and all(shows(goal, usable) for goal in need.goals):
                met.add(need)
                progress = True
        missing = [n for n in missing if n not in met]
        if not waiting and not missing:
            break
    return usable, missing
