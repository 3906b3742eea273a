"""Polynomials with integer coefficients over symbols: sizes, program ids, lanes, quotients.

Owns exact arithmetic on mathematical integers, which never wrap. A symbol is a base one (a size, a
program id, a lane) or an atom: a function of polynomials that is none itself, as a quotient. Atoms
are interned, so equal ones are one object. Must not know machine integers, nor what is proved.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

_orders = itertools.count()

#: How deep in a kernel a symbol lives; those above are eliminated first in proofs.
SIZE, HOST_ATOM, PROGRAM, LOOP, LANE = 0, 1, 2, 4, 6


class Symbol:
    """A variable of polynomials, compared by identity.

    Attributes:
        name: as shown.
        level: see `SIZE` and the like; atoms of what is at an even level are one above it.
        kind: `size`, `program`, `lane`, `iteration`, `data`, or of atoms `floordiv`, `mod`, `min`,
            `max`, `power_of_2`.
        args: of an atom, its polynomials.
        tag: tells apart base symbols that are made anew, as renamed copies.
    """

    __slots__ = ("args", "kind", "level", "name", "order", "tag")

    def __init__(
        self, name: str, kind: str, level: int, args: tuple[Poly, ...] = (), tag: object = None
    ) -> None:
        self.name, self.kind, self.level, self.args, self.tag = name, kind, level, args, tag
        self.order = next(_orders)

    def __repr__(self) -> str:
        return self.name


Monomial: TypeAlias = "tuple[Symbol, ...]"


class Poly:
    """An immutable polynomial.

    Attributes:
        terms: coefficient by monomial, none of them 0; a monomial is sorted and repeats powers.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: Final = {m: c for m, c in terms.items() if c}
        self._hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __add__(self, other: Poly | int) -> Poly:
        other = as_poly(other)
        if not other.terms:
            return self
        terms = dict(self.terms)
        for m, c in other.terms.items():
            terms[m] = terms.get(m, 0) + c
        return Poly(terms)

    __radd__ = __add__

    def __neg__(self) -> Poly:
        return Poly({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Poly | int) -> Poly:
        return self + (-as_poly(other))

    def __rsub__(self, other: int) -> Poly:
        return as_poly(other) - self

    def __mul__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            return self if other == 1 else Poly({m: c * other for m, c in self.terms.items()})
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                both = _product(m, n)
                terms[both] = terms.get(both, 0) + c * d
        return Poly(terms)

    __rmul__ = __mul__

    @property
    def constant(self) -> int | None:
        """Its value if it has no symbol."""
        if not self.terms:
            return 0
        if len(self.terms) == 1:
            return self.terms.get(())
        return None

    def symbols(self) -> set[Symbol]:
        """The symbols that occur in it, not those inside of atoms."""
        return {s for m in self.terms for s in m}

    def base_symbols(self) -> set[Symbol]:
        """The symbols that it depends on, through atoms too."""
        found: set[Symbol] = set()
        for symbol in self.symbols():
            found |= {symbol} if not symbol.args else set().union(*map(_base, symbol.args))
        return found

    def linear_in(self, symbol: Symbol) -> tuple[Poly, Poly] | None:
        """`(a, b)` of `a * symbol + b`; None where a power of the symbol occurs."""
        a: dict[Monomial, int] = {}
        b: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            count = m.count(symbol)
            if count > 1:
                return None
            if count:
                a[tuple(s for s in m if s is not symbol)] = c
            else:
                b[m] = c
        return Poly(a), Poly(b)

    def coefficients(self, belongs: Callable[[Symbol], bool]) -> dict[Monomial, Poly]:
        """The polynomial by the monomials of the symbols chosen; coefficients of the others."""
        parts: dict[Monomial, dict[Monomial, int]] = {}
        for m, c in self.terms.items():
            key = tuple(s for s in m if belongs(s))
            parts.setdefault(key, {})[tuple(s for s in m if not belongs(s))] = c
        return {key: Poly(terms) for key, terms in parts.items()}

    def divided(self, divisor: Poly) -> tuple[Poly, Poly]:
        """`(quotient, rest)`: terms that a divisor's leading monomial divides, and what is left."""
        lead = divisor.leading()
        if lead is None:
            return ZERO, self
        monomial, coefficient = lead
        quotient, rest = ZERO, self
        for _ in range(16):
            for m, c in rest.terms.items():
                left = _quotient(m, monomial)
                if left is not None and c // coefficient and (monomial or c % coefficient == 0):
                    step = Poly({left: c // coefficient})
                    quotient, rest = quotient + step, rest - step * divisor
                    break
            else:
                break
        return quotient, rest

    def leading(self) -> tuple[Monomial, int] | None:
        """The monomial of the highest degree and its coefficient; None for 0."""
        if not self.terms:
            return None
        return max(self.terms.items(), key=lambda e: (len(e[0]), [s.order for s in e[0]]))

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for m, c in sorted(self.terms.items(), key=lambda e: (-len(e[0]), e[0] and e[0][0].order)):
            sign = " - " if c < 0 else " + "
            factors = [str(abs(c))] if abs(c) != 1 or not m else []
            text += sign + "*".join(factors + [s.name for s in m])
        return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _product(m: Monomial, n: Monomial) -> Monomial:
    if not m:
        return n
    if not n:
        return m
    return tuple(sorted(m + n, key=lambda s: s.order))


def _quotient(m: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(m)
    for symbol in divisor:
        if symbol not in left:
            return None
        left.remove(symbol)
    return tuple(left)


def _base(poly: Poly) -> set[Symbol]:
    return poly.base_symbols()


ZERO: Final = Poly({})
ONE: Final = Poly({(): 1})


def as_poly(value: Poly | Symbol | int) -> Poly:
    """A polynomial of a number or a symbol."""
    if isinstance(value, Poly):
        return value
    return Poly({(value,): 1}) if isinstance(value, Symbol) else Poly({(): int(value)})


_atoms: dict[tuple[str, tuple[Poly, ...]], Symbol] = {}


def _atom(kind: str, *args: Poly) -> Poly:
    found = _atoms.get((kind, args))
    if found is None:
        level = max((s.level for a in args for s in a.symbols()), default=0) | 1
        found = Symbol(f"{kind}({', '.join(map(repr, args))})", kind, level, args)
        _atoms[kind, args] = found
    return as_poly(found)


def floordiv(p: Poly, d: Poly) -> Poly:
    """`p // d`, rounded down, of a positive divisor."""
    n, m = p.constant, d.constant
    if m is not None:
        if n is not None:
            return as_poly(n // m)
        # What the divisor divides comes out: (m * a + b) // m = a + b // m.
        outer = Poly({k: c // m for k, c in p.terms.items() if c % m == 0})
        inner = Poly({k: c for k, c in p.terms.items() if c % m})
        if outer.terms:
            return outer + floordiv(inner, d)
        for symbol in p.symbols():
            if symbol.kind == "floordiv" and p == as_poly(symbol) and symbol.args[1].constant:
                return floordiv(symbol.args[0], d * symbol.args[1])
    elif p == d:
        return ONE
    return ZERO if n == 0 else _atom("floordiv", p, d)


def modulo(p: Poly, d: Poly) -> Poly:
    """`p % d`, at least 0, of a positive divisor."""
    n, m = p.constant, d.constant
    if m is not None:
        if n is not None:
            return as_poly(n % m)
        rest = Poly({k: c for k, c in p.terms.items() if c % m})
        left = rest.constant
        return _atom("mod", rest, d) if left is None else as_poly(left % m)
    return ZERO if p == d or n == 0 else _atom("mod", p, d)


def minimum(p: Poly, q: Poly) -> Poly:
    """The smaller one."""
    return _extreme("min", p, q, min)


def maximum(p: Poly, q: Poly) -> Poly:
    """The larger one."""
    return _extreme("max", p, q, max)


def _extreme(kind: str, p: Poly, q: Poly, function: Callable[[int, int], int]) -> Poly:
    apart = (p - q).constant
    if apart is not None:
        return p if (apart <= 0) == (kind == "min") else q
    return _atom(kind, p, q)


def power_of_2(p: Poly) -> Poly:
    """The smallest power of two that is not below it."""
    n = p.constant
    return as_poly(next_power_of_2(n)) if n is not None else _atom("power_of_2", p)


def next_power_of_2(n: int) -> int:
    """As Triton has it: 0 of 0."""
    return 1 << (n - 1).bit_length() if n > 0 else 0


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "floordiv": lambda p, d: p // d,
    "mod": lambda p, d: p % d,
    "min": min,
    "max": max,
    "power_of_2": next_power_of_2,
}
_MAKERS: dict[str, Callable[..., Poly]] = {
    "floordiv": floordiv,
    "mod": modulo,
    "min": minimum,
    "max": maximum,
    "power_of_2": power_of_2,
}


def evaluate(poly: Poly, values: Mapping[Symbol, int]) -> int:
    """The value of a polynomial.

    Args:
        values: of all base symbols.
    """
    total = 0
    for m, c in poly.terms.items():
        for symbol in m:
            if symbol.args:
                c *= _FUNCTIONS[symbol.kind](*(evaluate(a, values) for a in symbol.args))
            else:
                c *= values[symbol]
        total += c
    return total


def substitute(poly: Poly, new: Mapping[Symbol, Poly]) -> Poly:
    """The polynomial with symbols replaced, inside of atoms too."""
    if not new:
        return poly
    result = ZERO
    for m, c in poly.terms.items():
        term = Poly({(): c})
        for symbol in m:
            if symbol in new:
                term = term * new[symbol]
            elif symbol.args:
                args = [substitute(a, new) for a in symbol.args]
                same = all(a is b or a == b for a, b in zip(args, symbol.args, strict=True))
                term = term * (as_poly(symbol) if same else _MAKERS[symbol.kind](*args))
            else:
                term = term * as_poly(symbol)
        result = result + term
    return result


def atoms_of(poly: Poly) -> Iterator[Symbol]:
    """The atoms in it, those inside of others too."""
    for symbol in poly.symbols():
        if symbol.args:
            yield symbol
            for argument in symbol.args:
                yield from atoms_of(argument)
