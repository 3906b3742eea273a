"""What is known of the values of a kernel, for all programs, lanes, iterations and sizes at once.

A value is a polynomial in each of a few cases. A case says when it applies (facts) and what it
takes that machine integers agree with the polynomial (needs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ttools.ir import Operation
from ttools.ir.expr import LANE, Expr, Symbol, as_expr, substitute

#: More cases than this become one of which only a range is known.
MOST_CASES = 8
MOST_ALTERNATIVES = 12


@dataclass(frozen=True)
class Need:
    """`low <= expr <= high`, so that an operation has the exact result.

    Attributes:
        kind: `wrap` where machine integers differ from the polynomial otherwise, `model` where
            only nothing is known otherwise.
    """

    op: Operation
    expr: Expr
    low: int
    high: int
    kind: Literal["wrap", "model"] = "wrap"

    @property
    def goals(self) -> tuple[Expr, Expr]:
        return self.expr - self.low, self.high - self.expr


Needs: TypeAlias = "frozenset[Need]"
NO_NEEDS: Needs = frozenset()


@dataclass(frozen=True)
class Fact:
    """`expr >= 0`, where the needs are met."""

    expr: Expr
    needs: Needs = NO_NEEDS


Facts: TypeAlias = "tuple[Fact, ...]"


@dataclass(frozen=True)
class Case:
    """A polynomial, when it is the value, and what it takes to be it.

    Attributes:
        base: of a pointer, the parameter that it derives from, the polynomial counts elements; None
            of an integer; -1 of a pointer that is not known.
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
        """Its polynomial if that holds always."""
        (case,) = self.cases if len(self.cases) == 1 else (None,)
        return case.value if case is not None and not case.when else None


@dataclass(frozen=True)
class Opaque:
    """A value of which nothing is known but whether all programs and lanes have the same."""

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
    """A number with one case."""
    return Number((Case(as_expr(value), (), needs),))


def compare(relation: Literal["ge", "eq"], left: Number, right: Number) -> Logic:
    """The comparison as a condition."""
    return Logic("compare", (), Comparison(relation, left, right))


def negated(condition: Logic) -> Logic:
    """The opposite condition."""
    return condition.parts[0] if condition.kind == "not" else Logic("not", (condition,))


def alternatives(condition: Logic | None, negate: bool = False) -> list[Facts]:
    """The ways in which a condition holds (or does not): where it does, one of them is true.

    An empty list: it never does. Facts may be left out, so that the ways together may be wider than
    the condition, never narrower.
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
        found = [facts for part in parts for facts in part]
        return found if len(found) <= MOST_ALTERNATIVES else [()]
    found = [()]
    for part in parts:
        if len(found) * len(part) > MOST_ALTERNATIVES:
            continue  # without this part more is covered
        found = [(*one, *other) for one in found for other in part]
    return found


def _comparison(comparison: Comparison, negate: bool) -> list[Facts]:
    found: list[Facts] = []
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
                    found.append((*when, *(Fact(p, needs) for p in way)))
    return found if len(found) <= MOST_ALTERNATIVES else [()]


def joined(*numbers: Number) -> tuple[tuple[Case, ...], ...] | None:
    """All combinations of their cases; None if there are too many."""
    found: list[tuple[Case, ...]] = [()]
    for each in numbers:
        found = [(*before, case) for before in found for case in each.cases]
        if len(found) > MOST_CASES:
            return None
    return tuple(found)


def facts_of(cases: Iterable[Case]) -> Facts:
    """When all of them apply, each fact once."""
    return tuple(dict.fromkeys(f for case in cases for f in case.when))


def needs_of(cases: Iterable[Case]) -> Needs:
    """What all of them take."""
    return frozenset().union(*(case.needs for case in cases))


def all_needs(value: Number) -> Needs:
    """What any of its cases takes."""
    found = needs_of(value.cases)
    return found.union(*(f.needs for c in value.cases for f in c.when))


# ---- lanes move
Renaming: TypeAlias = "Callable[[Symbol], Symbol | None]"


class Renamer:
    """Replaces symbols in values, the same ones by the same ones.

    Args:
        new: the replacement of a symbol; None where it stays.
    """

    def __init__(self, new: Renaming) -> None:
        self._new = new
        self.replaced: dict[Symbol, Expr] = {}
        self._known: dict[Expr, Expr] = {}

    def expr(self, expr: Expr) -> Expr:
        known = self._known.get(expr)
        if known is None:
            for symbol in expr.base_symbols():
                if symbol not in self.replaced:
                    new = self._new(symbol)
                    if new is not None:
                        self.replaced[symbol] = as_expr(new)
            known = self._known[expr] = substitute(expr, self.replaced)
        return known

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
    """The index along an axis of a tile, counted from its first axis."""
    if (axis, extent) not in _lanes:
        name = f"lane{axis}" if axis else "lane"
        _lanes[axis, extent] = Symbol(name, "lane", LANE, (), (axis, extent))
    return _lanes[axis, extent]


_moved: dict[tuple[Symbol, object], Symbol] = {}


def moved_copy(symbol: Symbol, how: object) -> Symbol:
    """The symbol of the same data in lanes that have moved, or in another program."""
    found = _moved.get((symbol, how))
    if found is None:
        found = Symbol(symbol.name + "'", symbol.kind, symbol.level, (), (symbol, how))
        _moved[symbol, how] = found
    return found


#: Whether a polynomial is shown to be at least 0 where others are.
Shows: TypeAlias = "Callable[[Expr, Sequence[Expr]], bool]"


def discharged(
    facts: Iterable[Fact], needs: Iterable[Need], shows: Shows, known: Sequence[Expr] = ()
) -> tuple[list[Expr], list[Need]]:
    """The facts that may be used, and the needs that are not shown to be met.

    A fact may be used once all that it needs is shown, by facts that may be used before it.

    Args:
        facts: what may hold.
        needs: what is asked for.
        shows: whether facts show a goal.
        known: what is at least 0 in any case.
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
