"""Proofs that an expression is at least 0 if other expressions are, for all sizes in a box.

A box contains an interval for each size, such as `128 <= n <= 4096`. A proof replaces symbols by
their bounds to eliminate them, and divides the box into smaller boxes. Every rule is an implication
between integers; docs/design/all_sizes.md explains why each is sound. For example, `n - 1 - i >= 0`
follows from `i <= 127` on the box `n >= 128`: replacing `i` by its bound leaves `n - 128 >= 0`,
which holds on the box.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ttools.ir.expr import (
    HOST_ATOM,
    ONE,
    SIZE,
    Expr,
    Ranges,
    Symbol,
    as_expr,
    floordiv,
    substitute,
)

_STEPS = 400
#: Maximum number of consecutive eliminations of a symbol, for the first and for the last attempt at
#: a proof. Short proofs are tried first, because long attempts that fail could use up all steps.
_DEPTHS = (3, 10)
_HALVINGS = 40


#: Factor by which the elapsed time of an analysis may exceed its CPU time on a busy machine.
STRETCH = 4.0


class Limit:
    """A limit on both the CPU time of the current thread and the elapsed time.

    The CPU time is limited, and not only the elapsed time, so that other load on the machine has
    little influence on what is proved.

    Args:
        seconds: CPU time in seconds; unlimited by default.
        stretch: Factor by which the elapsed time may exceed `seconds`.
    """

    def __init__(self, seconds: float = math.inf, stretch: float = STRETCH) -> None:
        self._computing = time.thread_time() + seconds
        self._clock = time.monotonic() + stretch * seconds

    @property
    def left(self) -> float:
        """The remaining time in seconds; negative if the limit has passed."""
        return min(self._computing - time.thread_time(), self._clock - time.monotonic())


@dataclass(frozen=True)
class Element:
    """An element of a table, which is a tensor of integers that the kernel reads and never writes.

    Attributes:
        table: Object that identifies the table.
        position: Position of the element in the table.
        ends: First and last position of the table; None if the table has gaps.
        distinct: True if no two elements inside the table are equal.
        ascending: True if the elements of the table never decrease.
    """

    table: object
    position: Expr
    ends: tuple[Expr, Expr] | None
    distinct: bool
    ascending: bool


class Space(Ranges):
    """The values that symbols may have, and proofs about them.

    Args:
        box: First and last value of each size.

    Attributes:
        limit: Time limit; once it has passed, every attempt at a proof fails.
        assumed: Expressions that are at least 0 for all sizes that are considered.
        elements: The element of a table that a symbol stands for, by symbol.
    """

    def __init__(self, box: Mapping[Symbol, tuple[int, int]]) -> None:
        super().__init__(box)
        self.limit = Limit()
        self._facts: dict[Symbol, list[Expr]] = {}
        self.assumed: list[Expr] = []
        self.elements: dict[Symbol, Element] = {}

    def relate(self, symbol: Symbol, *facts: Expr) -> None:
        """Declare expressions that are at least 0 for all values of a symbol."""
        self._facts.setdefault(symbol, []).extend(facts)

    def copy_declarations(self, renamed: Mapping[Symbol, Expr]) -> None:
        """Copy ranges and facts of symbols to their renamed copies."""
        for symbol, new in renamed.items():
            (other,) = new.symbols()
            self._ranges[other] = self.range_of(symbol)
            self._facts[other] = [substitute(f, renamed) for f in self._facts.get(symbol, [])]
            element = self.elements.get(symbol)
            if element is not None:
                position = substitute(element.position, renamed)
                self.elements[other] = replace(element, position=position)

    def facts_of(self, symbol: Symbol) -> list[Expr]:
        """Return expressions that are at least 0 for all values of a symbol, including its bounds.

        For example, the bound `i <= 127` is the expression `127 - i`.
        """
        facts = self._facts.get(symbol)
        if symbol.args:
            if facts is None:
                self._facts[symbol] = []  # proofs of these facts must not use the facts themselves
                facts = self._facts[symbol] = list(self._atom_facts(symbol))
        elif facts is None:
            facts = self._facts[symbol] = []
        low, high = self.range_of(symbol)
        own = [] if low is None else [as_expr(symbol) - low]
        return own + ([] if high is None else [high - as_expr(symbol)]) + facts

    def _atom_facts(self, symbol: Symbol) -> Iterable[Expr]:
        kind, args, s = symbol.kind, symbol.args, as_expr(symbol)
        if kind in ("min", "max"):
            sign = 1 if kind == "min" else -1
            yield from (sign * (argument - s) for argument in args)
            return
        if kind not in ("floordiv", "mod"):
            return
        p, d = args
        yield d - 1  # proved when the atom was created
        quotient, rest = p.divided(d)
        if kind == "mod":
            yield from (s, d - 1 - s)
            q = floordiv(p, d)
            yield p - d * q - s
            yield s - (p - d * q)
            return
        yield p - d * s
        yield d * s + d - 1 - p
        if d.constant is None and quotient.terms:
            # Bounds of `rest` in p = d * quotient + rest give tighter bounds of p // d than the
            # products above.
            if self.nonneg(d - 1 - rest):
                yield quotient - s
            if self.nonneg(rest):
                yield s - quotient
            elif self.nonneg(rest + d):
                yield s - quotient + 1
            if self.nonneg(-1 - rest):
                yield quotient - 1 - s

    # ---- proofs
    def nonneg(self, goal: Expr, facts: Iterable[Expr] = ()) -> bool:
        """Return whether it is proved that `goal >= 0` follows if all facts are at least 0."""
        premises = [*facts, *self.assumed]
        short, long = _DEPTHS
        proof = _Proof(self, premises)
        if proof.shows(goal, short):
            return True
        if any(s.level > HOST_ATOM for s in goal.symbols()) and proof.again().shows_apart(goal):
            return True
        return proof.again().shows(goal, long)


class _Proof:
    """A proof attempt with a limited number of steps."""

    def __init__(self, space: Space, facts: Iterable[Expr]) -> None:
        self._space = space
        self._facts = [f for f in dict.fromkeys(facts) if f.constant is None]
        for fact in [*self._facts]:
            for symbol in fact.symbols():
                if symbol.args:
                    self._facts += [f for f in space.facts_of(symbol) if f not in self._facts]
        self.again()
        self._tops: dict[Symbol, list[Expr]] = {}

    def again(self) -> _Proof:
        """Reset the number of steps for another attempt, and return `self`."""
        self._steps = _STEPS
        self._failed: set[Expr] = set()
        return self

    def shows(self, goal: Expr, depth: int) -> bool:
        goal = _reduced(goal)
        low, high = self._space.range(goal)
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0 and not self._facts:
            return False
        if goal in self._failed or depth <= 0 or self._steps <= 0:
            return False
        if self._space.limit.left < 0:
            return False
        self._steps -= 1
        symbols = sorted(goal.symbols(), key=lambda s: (-s.level, -s.order))
        if symbols and symbols[0].level == SIZE:
            if self._on_box(goal) or self._by_facts(goal, symbols, depth):
                return True
        elif self._by_facts(goal, symbols, depth):
            return True
        self._failed.add(goal)
        return False

    def shows_apart(self, goal: Expr) -> bool:
        """Return whether the goal is proved by replacing its symbols, one by one, by their bounds.

        Only bounds that are expressions over sizes are used.
        """
        symbols = [s for s in goal.symbols() if s.level > HOST_ATOM]
        if not symbols:
            return self.shows(goal, _DEPTHS[0])
        symbol = max(symbols, key=lambda s: (s.level, s.order))
        parts = goal.linear_in(symbol)
        sign = 0 if parts is None else self._sign(parts[0], 0)
        if parts is None or not sign:
            return False
        for beta in self._ends(symbol, sign):
            self._steps -= 1
            if self._steps > 0 and self.shows_apart(parts[1] - sign * parts[0] * beta):
                return True
        return False

    def _ends(self, symbol: Symbol, sign: int) -> list[Expr]:
        """Return bounds of a symbol that depend on no symbols other than sizes.

        The list contains at most one bound with sizes, followed by at most one constant, which is
        the tightest of the constant bounds. With sign -1, they are upper bounds: `symbol <= bound`.
        With sign 1, they are lower bounds: `-symbol <= bound`.
        """
        ends = self._tops_of(symbol) if sign < 0 else []
        ends = [*ends, *(beta for size, beta in self._bounds(symbol, sign) if size == ONE)]
        numbers = [n for end in ends if (n := end.constant) is not None]
        others = [e for e in ends if e.symbols() and all(s.level <= HOST_ATOM for s in e.symbols())]
        return others[:1] + [as_expr(min(numbers)) for _ in numbers[:1]]

    def _by_facts(self, goal: Expr, symbols: list[Symbol], depth: int) -> bool:
        for symbol in symbols[:3]:
            parts = goal.linear_in(symbol)
            if symbol.kind in ("min", "max") and self._by_cases(goal, symbol, depth):
                return True
            if parts is None:
                continue
            a, b = parts
            sign = self._sign(a, depth)
            if not sign:
                continue
            for size, beta in self._bounds(symbol, sign):
                # size * goal >= rest, because sign * size * symbol + beta >= 0 and `a` has the same
                # sign. The goal is an integer, so it is at least 0 if size * goal exceeds -size.
                rest = b * size - sign * a * beta
                if self.shows(rest + size - 1, depth - 1):
                    return True
        return False

    def _by_cases(self, goal: Expr, symbol: Symbol, depth: int) -> bool:
        return all(self.shows(substitute(goal, {symbol: a}), depth - 1) for a in symbol.args)

    def _sign(self, a: Expr, depth: int) -> int:
        low, high = self._space.range(a)
        if low is not None and low >= 0:
            return 1
        if high is not None and high <= 0:
            return -1
        if a.constant is None and depth > 4:
            if self.shows(a, 3):
                return 1
            if self.shows(-a, 3):
                return -1
        return 0

    def _bounds(self, symbol: Symbol, sign: int) -> list[tuple[Expr, Expr]]:
        """Return pairs `(size, beta)` for which `sign * size * symbol + beta >= 0` is a fact.

        The pairs give lower bounds of the symbol for sign 1, and upper bounds for sign -1.
        """
        bounds: list[tuple[tuple[bool, int, bool], Expr, Expr]] = []
        for fact in [*self._facts, *self._space.facts_of(symbol)]:
            parts = fact.linear_in(symbol)
            if parts is None or not parts[0].terms:
                continue
            alpha, beta = parts
            size = alpha if sign > 0 else -alpha
            if (self._space.range(size)[0] or 0) < 1:
                continue
            higher = sum(s.level > symbol.level for s in beta.symbols())
            plain = len(beta.terms) == 0 or beta.constant is not None
            bounds.append(((alpha.constant is None, higher, plain), size, beta))
        bounds.sort(key=lambda entry: entry[0])
        return [(size, beta) for _, size, beta in dict.fromkeys(bounds)]

    def _tops_of(self, symbol: Symbol) -> list[Expr]:
        """Return upper bounds of a quotient as expressions over sizes.

        They are derived from bounds of the dividend: if `p <= d * top + rest` and `rest < d`, then
        `top` is an upper bound of `p // d`. Because `top` is rounded down, it is tighter than the
        fact multiplied by a divisor.
        """
        if symbol.kind != "floordiv":
            return []
        cached = self._tops.get(symbol)
        if cached is not None:
            return cached
        self._tops[symbol] = tops = []
        p, d = symbol.args
        above = [f + p for f in self._facts if f.terms.keys() >= p.terms.keys()]
        inner = next(iter(p.symbols()), None)
        if inner is not None and p == as_expr(inner):
            above += self._ends(inner, -1)
        for top in dict.fromkeys(above):
            if any(s.level > HOST_ATOM for s in top.symbols()):
                continue
            if d.constant is not None:
                tops.append(floordiv(top, d))
                continue
            quotient, rest = top.divided(d)
            if self._on_box(-1 - rest):
                tops.append(quotient - 1)
            elif self._on_box(d - 1 - rest):
                tops.append(quotient)
        return tops

    def _on_box(self, goal: Expr) -> bool:
        """Return whether an expression over sizes only is at least 0 on the whole box."""
        symbols = goal.symbols()
        if not symbols:
            return (goal.constant or 0) >= 0
        if any(s.level != SIZE for s in symbols):
            return False
        pending = [{s: self._space.box[s] for s in symbols}]
        for _ in range(_HALVINGS):
            if not pending:
                return True
            box = pending.pop()
            if _shifted_nonneg(goal, box):
                continue
            widest = max(box, key=lambda s: box[s][1] - box[s][0])
            low, high = box[widest]
            if low == high:
                return False
            middle = (low + high) // 2
            pending += [{**box, widest: (low, middle)}, {**box, widest: (middle + 1, high)}]
        return not pending


def _reduced(goal: Expr) -> Expr:
    """Return `h + c // g` for `g * h + c`; each is at least 0 if and only if the other is."""
    divisor = math.gcd(*(c for m, c in goal.terms.items() if m))
    if divisor <= 1:
        return goal
    return Expr({m: c // divisor for m, c in goal.terms.items()})


def _shifted_nonneg(goal: Expr, box: Mapping[Symbol, tuple[int, int]]) -> bool:
    """Return whether interval arithmetic proves the goal.

    Each size is written as its distance from an end of its interval: either every size is replaced
    by `low + d`, or every size is replaced by `high - d`.
    """
    for end in (0, 1):
        new = {}
        ranges: dict[Symbol, tuple[int, int]] = {}
        for symbol, (low, high) in box.items():
            shift = _shift_symbol(symbol)
            ranges[shift] = (0, high - low)
            new[symbol] = as_expr(shift) + low if end == 0 else high - as_expr(shift)
        low_end, _ = Ranges(ranges).range(substitute(goal, new))
        if low_end is not None and low_end >= 0:
            return True
    return False


_shifts: dict[Symbol, Symbol] = {}


def _shift_symbol(symbol: Symbol) -> Symbol:
    if symbol not in _shifts:
        _shifts[symbol] = Symbol(f"{symbol.name}'", "size", SIZE)
    return _shifts[symbol]
