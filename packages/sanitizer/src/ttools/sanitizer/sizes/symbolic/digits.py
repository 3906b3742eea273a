"""What two equal elements say of the symbols in them, as two equal numbers have equal digits.

Must not know what the elements are for.
"""

from __future__ import annotations

from collections.abc import Iterator

from ttools.interpreter.ir.expr import (
    PROGRAM,
    ZERO,
    Expr,
    Symbol,
    as_expr,
    floordiv,
    modulo,
    substitute,
)
from ttools.sanitizer.sizes.algebra.proofs import Space
from ttools.sanitizer.sizes.symbolic.values import Renamer

_DEPTH = 6
_ROUNDS = 24


class Digits:
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
