"""Integer expressions: polynomials over symbols and over functions of polynomials.

The same type represents a tensor's extent in a script, an index in a kernel, and a term in a
formula for Z3. Python's operators build an expression from integers, symbols and other expressions.
It is stored in a canonical form: a sum of products with integer coefficients. A part that is not a
polynomial, such as a quotient, is an *atom*: a symbol whose `args` are the expressions of which it
is a function. Equal atoms are the same object. Integers are mathematical integers and never wrap.
For example, for symbols `n` and `m`, `(n + 1) * m - m` is the single product `n * m`, and
`floordiv(6 * n + m, 3)` is `2 * n + m // 3`, in which `m // 3` is an atom.

An expression prints as Python source. `Ranges` computes its bounds from those of its symbols.
`evaluate` computes its value from integers (also the symbolic integers of `ttools.prove`), NumPy
arrays or Z3 terms; for each of these there is a table of functions that compute atoms (`INTEGERS`,
`array_functions()`, `z3_functions()`).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, reduce
from typing import Any, Final, Protocol, TypeAlias

_orders = itertools.count()

#: Levels of symbols: where the value of a symbol is constant. A size is constant in a launch, a
#: program id in one program, a loop counter in one iteration, and a coordinate of a lane in that
#: lane only.
SIZE, HOST_ATOM, PROGRAM, LOOP, LANE = 0, 1, 2, 4, 6


class Symbol:
    """A variable of expressions, compared by identity.

    Attributes:
        name: Text in printed expressions.
        level: Where the value is constant: `SIZE`, `PROGRAM`, `LOOP`, `LANE`, or a larger number.
            The level of an atom is odd, for example `SIZE + 1` for a function of sizes.
        kind: `size`, `extent`, `program`, `lane`, `iteration` or `data`; for atoms, `floordiv`,
            `mod`, `min`, `max` or `power_of_2`.
        args: Arguments of an atom; empty for other symbols.
        tag: Distinguishes symbols with the same name, for example renamed copies.
        order: Position in sorted products; by default, symbols are in the order of their creation.
    """

    __slots__ = ("args", "kind", "level", "name", "order", "tag")

    def __init__(
        self,
        name: str,
        kind: str,
        level: int,
        args: tuple[Expr, ...] = (),
        tag: object = None,
        order: int | None = None,
    ) -> None:
        self.name, self.kind, self.level, self.args, self.tag = name, kind, level, args, tag
        self.order = next(_orders) if order is None else order

    def __repr__(self) -> str:
        return self.name


Monomial: TypeAlias = "tuple[Symbol, ...]"


class Expr:
    """An immutable integer expression.

    Attributes:
        terms: Coefficients by monomial, none of them 0. A monomial is a sorted tuple of symbols, in
            which the square of a symbol is two entries.
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
        return isinstance(other, Expr) and self.terms == other.terms

    def __add__(self, other: Expr | int) -> Expr:
        other = as_expr(other)
        if not other.terms:
            return self
        terms = dict(self.terms)
        for m, c in other.terms.items():
            terms[m] = terms.get(m, 0) + c
        return Expr(terms)

    __radd__ = __add__

    def __neg__(self) -> Expr:
        return Expr({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Expr | int) -> Expr:
        return self + (-as_expr(other))

    def __rsub__(self, other: int) -> Expr:
        return as_expr(other) - self

    def __mul__(self, other: Expr | int) -> Expr:
        if isinstance(other, int):
            return self if other == 1 else Expr({m: c * other for m, c in self.terms.items()})
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                both = _product(m, n)
                terms[both] = terms.get(both, 0) + c * d
        return Expr(terms)

    __rmul__ = __mul__

    @property
    def constant(self) -> int | None:
        """The value if no symbol occurs, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1:
            return self.terms.get(())
        return None

    def symbols(self) -> set[Symbol]:
        """Return the symbols of this expression, without those inside its atoms."""
        return {s for m in self.terms for s in m}

    def base_symbols(self) -> set[Symbol]:
        """Return the symbols on which the expression depends, directly or through its atoms."""
        symbols: set[Symbol] = set()
        for symbol in self.symbols():
            if symbol.args:
                symbols = symbols.union(*(a.base_symbols() for a in symbol.args))
            else:
                symbols.add(symbol)
        return symbols

    def atoms(self) -> Iterator[Symbol]:
        """Iterate over the atoms in the expression, including those nested in other atoms."""
        for symbol in self.symbols():
            if symbol.args:
                yield symbol
                for argument in symbol.args:
                    yield from argument.atoms()

    @property
    def names(self) -> frozenset[str]:
        """Names of the symbols that the expression depends on."""
        return frozenset(s.name for s in self.base_symbols())

    def at(self, values: Mapping[str, Any]) -> Any:
        """Return the value of the expression, given the values of symbols by name.

        Args:
            values: Maps names to values; it must contain all names in `names`.
        """
        return evaluate(self, {s: values[s.name] for s in self.base_symbols()})

    def linear_in(self, symbol: Symbol) -> tuple[Expr, Expr] | None:
        """Return `(a, b)` such that the expression is `a * symbol + b`, or None if nonlinear."""
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
        return Expr(a), Expr(b)

    def coefficients(self, belongs: Callable[[Symbol], bool]) -> dict[Monomial, Expr]:
        """Return the expression as a polynomial in the chosen symbols.

        Args:
            belongs: Returns whether a symbol is chosen; other symbols are part of coefficients.

        Returns:
            The coefficient of each monomial in the chosen symbols.
        """
        parts: dict[Monomial, dict[Monomial, int]] = {}
        for m, c in self.terms.items():
            key = tuple(s for s in m if belongs(s))
            parts.setdefault(key, {})[tuple(s for s in m if not belongs(s))] = c
        return {key: Expr(terms) for key, terms in parts.items()}

    def divided(self, divisor: Expr) -> tuple[Expr, Expr]:
        """Return `(quotient, rest)` such that the expression is `quotient * divisor + rest`.

        This is a polynomial division by the leading monomial of `divisor`, of at most 16 steps.
        """
        lead = divisor.leading()
        if lead is None:
            return ZERO, self
        monomial, coefficient = lead
        quotient, rest = ZERO, self
        for _ in range(16):
            for m, c in rest.terms.items():
                left = _quotient(m, monomial)
                if left is not None and c // coefficient and (monomial or c % coefficient == 0):
                    step = Expr({left: c // coefficient})
                    quotient, rest = quotient + step, rest - step * divisor
                    break
            else:
                break
        return quotient, rest

    def leading(self) -> tuple[Monomial, int] | None:
        """Return the monomial of the highest degree and its coefficient; None for zero."""
        if not self.terms:
            return None
        return max(self.terms.items(), key=lambda e: (len(e[0]), [s.order for s in e[0]]))

    def __repr__(self) -> str:
        """Return the expression as Python source."""
        text = ""
        for m, c in sorted(self.terms.items(), key=lambda e: (-len(e[0]), [s.order for s in e[0]])):
            factors = [_factor(s, alone=len(m) == 1 and c == 1) for s in m]
            factors += [str(abs(c))] if abs(c) != 1 or not m else []
            text += (" - " if c < 0 else " + ") + " * ".join(factors)
        text = text or " + 0"
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


ZERO: Final = Expr({})
ONE: Final = Expr({(): 1})


def as_expr(value: Expr | Symbol | int) -> Expr:
    """Return a number or a symbol as an expression."""
    if isinstance(value, Expr):
        return value
    return Expr({(value,): 1}) if isinstance(value, Symbol) else Expr({(): int(value)})


def product(factors: Iterable[Expr]) -> Expr:
    """Return the product of all factors."""
    return reduce(operator.mul, factors, ONE)


# ---- atoms
_atoms: dict[tuple[str, tuple[Expr, ...]], Symbol] = {}


def _atom(kind: str, *args: Expr) -> Expr:
    atom = _atoms.get((kind, args))
    if atom is None:
        level = max((s.level for a in args for s in a.symbols()), default=0) | 1
        atom = _atoms[kind, args] = Symbol(_source(kind, args), kind, level, args)
    return as_expr(atom)


def floordiv(p: Expr, d: Expr) -> Expr:
    """Return `p // d`, rounded down; the divisor must be positive."""
    n, m = p.constant, d.constant
    if n is not None and m is not None:
        return as_expr(n // m)
    if n is None and _falls(p) and not _falls(covering := d - 1 - p):
        return -floordiv(covering, d)  # p // d is -ceildiv(-p, d)
    if m is not None:
        # Terms that are multiples of the divisor are moved out of the quotient: (m * a + b) // m =
        # a + b // m.
        outer = Expr({k: c // m for k, c in p.terms.items() if c % m == 0})
        inner = Expr({k: c for k, c in p.terms.items() if c % m})
        if outer.terms:
            return outer + floordiv(inner, d)
        for symbol in p.symbols():
            if symbol.kind == "floordiv" and p == as_expr(symbol) and symbol.args[1].constant:
                return floordiv(symbol.args[0], d * symbol.args[1])
    elif p == d:
        return ONE
    return ZERO if n == 0 else _atom("floordiv", p, d)


def _falls(p: Expr) -> bool:
    return all(c < 0 for m, c in p.terms.items() if m)


def modulo(p: Expr, d: Expr) -> Expr:
    """Return `p % d`, at least 0; the divisor must be positive."""
    n, m = p.constant, d.constant
    if m is not None:
        if n is not None:
            return as_expr(n % m)
        rest = Expr({k: c for k, c in p.terms.items() if c % m})
        left = rest.constant
        return _atom("mod", rest, d) if left is None else as_expr(left % m)
    return ZERO if p == d or n == 0 else _atom("mod", p, d)


def ceildiv(p: Expr, d: Expr) -> Expr:
    """Return `p / d`, rounded up, as `triton.cdiv` does; the divisor must be positive."""
    return floordiv(p + d - 1, d)


def minimum(p: Expr, q: Expr) -> Expr:
    """Return the smaller of two expressions."""
    return _extreme("min", p, q, min)


def maximum(p: Expr, q: Expr) -> Expr:
    """Return the larger of two expressions."""
    return _extreme("max", p, q, max)


def _extreme(kind: str, p: Expr, q: Expr, choose: Callable[[int, int], int]) -> Expr:
    apart = (p - q).constant
    if apart is not None:
        return p if (apart <= 0) == (kind == "min") else q
    parts = dict.fromkeys((*_operands(kind, p), *_operands(kind, q)))
    numbers = [n for part in parts if (n := part.constant) is not None]
    others = [part for part in parts if part.constant is None]
    others += [as_expr(reduce(choose, numbers))] if numbers else []
    return reduce(lambda one, other: _atom(kind, one, other), others)


def _operands(kind: str, p: Expr) -> Iterator[Expr]:
    """Iterate over the operands of nested minima (or maxima)."""
    atom = next(iter(p.symbols()), None)
    if atom is not None and atom.kind == kind and p == as_expr(atom):
        for argument in atom.args:
            yield from _operands(kind, argument)
    else:
        yield p


def power_of_2(p: Expr) -> Expr:
    """Return the smallest power of two that is at least `p`."""
    n = p.constant
    return as_expr(next_power_of_2(n)) if n is not None else _atom("power_of_2", p)


def next_power_of_2(n: Any) -> Any:
    """Return the smallest power of two that is at least `n`; 0 for 0, as in Triton."""
    return 1 << (n - 1).bit_length() if n > 0 else 0


#: Functions that create atoms, by the kind of atom.
MAKERS: Final[Mapping[str, Callable[..., Expr]]] = {
    "floordiv": floordiv,
    "mod": modulo,
    "min": minimum,
    "max": maximum,
    "power_of_2": power_of_2,
}


# ---- source
def _source(kind: str, args: tuple[Expr, ...]) -> str:
    if kind == "floordiv":
        covered = args[0] + 1 - args[1]
        if covered.constant is None and len(covered.terms) < len(args[0].terms):
            return f"cdiv({covered}, {args[1]})"
    if kind in ("floordiv", "mod"):
        sign = "//" if kind == "floordiv" else "%"
        return f"{_operand(args[0])} {sign} {_operand(args[1])}"
    if kind in ("min", "max"):
        flat = [part for a in args for part in _operands(kind, a)]
        return f"{kind}({', '.join(map(repr, flat))})"
    return f"next_power_of_2({args[0]})"


def _operand(p: Expr) -> str:
    text = repr(p)
    return text if text.isidentifier() or text.isdecimal() or _is_call(p) else f"({text})"


def _factor(symbol: Symbol, alone: bool) -> str:
    is_open = symbol.kind in ("floordiv", "mod") and not symbol.name.startswith("cdiv(")
    return f"({symbol.name})" if is_open and not alone else symbol.name


def _is_call(p: Expr) -> bool:
    atom = next(iter(p.symbols()), None)
    if atom is None or not atom.args or p != as_expr(atom):
        return False
    return atom.kind not in ("floordiv", "mod") or atom.name.startswith("cdiv(")


# ---- values
Functions: TypeAlias = "Mapping[str, Callable[..., Any]]"
#: Functions that compute atoms from integers. Minima and maxima use the operators `<` and `>`, so
#: that they also work with the symbolic integers of `ttools.prove`.
INTEGERS: Final[Functions] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": lambda a, b: a if a < b else b,
    "max": lambda a, b: a if a > b else b,
    "power_of_2": next_power_of_2,
}


@cache
def array_functions() -> Functions:
    """Return functions that compute atoms from NumPy arrays of 64-bit integers."""
    import numpy as np

    powers = np.vectorize(lambda p: next_power_of_2(int(p)), otypes=[np.int64])
    return {**INTEGERS, "min": np.minimum, "max": np.maximum, "power_of_2": powers}


def z3_functions() -> Functions:
    """Return functions that compute atoms from Z3 terms; there is none for `power_of_2`."""
    import z3

    return {
        "floordiv": operator.truediv,  # Z3's integer division rounds down for positive divisors
        "mod": operator.mod,
        "min": lambda a, b: z3.If(a < b, a, b),
        "max": lambda a, b: z3.If(a > b, a, b),
    }


class Values(Protocol):
    """A mapping, or a similar object, that returns the value of a symbol."""

    def __getitem__(self, symbol: Symbol, /) -> Any: ...


def evaluate(expr: Expr, values: Values, functions: Functions | None = INTEGERS) -> Any:
    """Compute the value of an expression.

    Args:
        values: Values of all symbols that are not atoms.
        functions: Functions that compute atoms; None if `values` contains the values of atoms, too.
    """
    total: Any = 0
    for m, term in expr.terms.items():
        for symbol in m:
            if symbol.args and functions is not None:
                arguments = [evaluate(a, values, functions) for a in symbol.args]
                term = term * functions[symbol.kind](*arguments)
            else:
                term = term * values[symbol]
        total = total + term
    return total


def substitute(expr: Expr, new: Mapping[Symbol, Expr]) -> Expr:
    """Return the expression with symbols replaced, including those inside atoms."""
    if not new:
        return expr
    result = ZERO
    for m, c in expr.terms.items():
        term = Expr({(): c})
        for symbol in m:
            if symbol in new:
                term = term * new[symbol]
            elif symbol.args:
                args = [substitute(a, new) for a in symbol.args]
                same = all(a is b or a == b for a, b in zip(args, symbol.args, strict=True))
                term = term * (as_expr(symbol) if same else MAKERS[symbol.kind](*args))
            else:
                term = term * as_expr(symbol)
        result = result + term
    return result


def with_symbols(expr: Expr, symbols: Mapping[str, Symbol]) -> Expr:
    """Return the expression with each symbol replaced by the given symbol of the same name."""
    return substitute(expr, {s: as_expr(symbols[s.name]) for s in expr.base_symbols()})


# ---- bounds
#: Least and greatest value, both included; None for no bound.
Interval: TypeAlias = "tuple[int | None, int | None]"


class Ranges:
    """Bounds of symbols, and bounds of expressions by interval arithmetic.

    Args:
        box: Smallest and largest value of each size.
    """

    def __init__(self, box: Mapping[Symbol, tuple[int, int]]) -> None:
        self.box = dict(box)
        self._ranges: dict[Symbol, Interval] = dict(box)

    def declare(self, symbol: Symbol, low: int | None, high: int | None) -> None:
        """Set the bounds of a symbol."""
        self._ranges[symbol] = (low, high)

    def range_of(self, symbol: Symbol) -> Interval:
        """Return the bounds of a symbol."""
        interval = self._ranges.get(symbol)
        if interval is None:
            interval = self._ranges[symbol] = self._atom_range(symbol)
        return interval

    def range(self, expr: Expr) -> Interval:
        """Return an interval that contains all values of an expression."""
        low: int | None = 0
        high: int | None = 0
        for m, c in expr.terms.items():
            a: int | None = c
            b: int | None = c
            index = 0
            while index < len(m):
                symbol, power = m[index], 1
                while index + power < len(m) and m[index + power] is symbol:
                    power += 1
                a, b = _times((a, b), _power(self.range_of(symbol), power))
                index += power
            low = None if low is None or a is None else low + a
            high = None if high is None or b is None else high + b
            if low is None and high is None:
                break
        return low, high

    def within(self, expr: Expr, low: int, high: int) -> bool:
        """Return whether interval arithmetic is enough to prove `low <= expr <= high`."""
        a, b = self.range(expr)
        return a is not None and b is not None and low <= a and b <= high

    def _atom_range(self, symbol: Symbol) -> Interval:
        kind, args = symbol.kind, symbol.args
        if not args:
            return None, None
        ranges = [self.range(a) for a in args]
        (a, b) = ranges[0]
        if kind == "power_of_2":
            return next_power_of_2(max(a or 0, 0)), None if b is None else next_power_of_2(b)
        c, d = ranges[1]
        if kind == "min":
            low = None if a is None or c is None else min(a, c)
            return low, min((x for x in (b, d) if x is not None), default=None)
        if kind == "max":
            high = None if b is None or d is None else max(b, d)
            return max((x for x in (a, c) if x is not None), default=None), high
        # Quotients and remainders are created only after their divisor was proved to be at least 1.
        c, d = max(1, c or 1), None if d is None else max(1, d)
        if kind == "mod":
            high = None if d is None else d - 1
            if a is not None and a >= 0 and b is not None:
                high = b if high is None else min(high, b)
            return 0, high
        low = None if a is None else a // c if a < 0 else (0 if d is None else a // d)
        high = None if b is None else b // c if b >= 0 else (-1 if d is None else b // d)
        return low, high


def _times(x: Interval, y: Interval) -> Interval:
    (a, b), (c, d) = x, y
    if None not in (a, b, c, d):
        products = (a * c, a * d, b * c, b * d)  # type: ignore[operator]
        return min(products), max(products)
    if (a, b) == (0, 0) or (c, d) == (0, 0):
        return 0, 0
    if a is not None and c is not None and a >= 0 and c >= 0:
        return a * c, None if b is None or d is None else b * d
    if b is not None and c is not None and b <= 0 and c >= 0:
        low, high = _times((-b, None if a is None else -a), y)
        return None if high is None else -high, None if low is None else -low
    return None, None


def _power(x: Interval, power: int) -> Interval:
    if power == 1:
        return x
    a, b = x
    if power % 2 == 0 and (a is None or a < 0):
        if b is not None and b <= 0:
            return b**power, None if a is None else a**power
        return 0, None if a is None or b is None else max(a**power, b**power)
    return None if a is None else a**power, None if b is None else b**power
