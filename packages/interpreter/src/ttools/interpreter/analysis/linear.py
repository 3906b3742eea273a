"""Linear expressions over bounded unknowns, and their upper bounds under linear conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ttools.ir import Value
from ttools.ir.domains.intervals import Interval

#: The key of an unknown number.
Atom: TypeAlias = "tuple[object, ...]"

#: The largest number of conditions that are combined for one bound, and the largest number of
#: combinations that are tried.
_MOST_COMBINED, _MOST_TRIED = 5, 300


_NO_TERMS: Mapping[Atom, int] = {}


class Linear(NamedTuple):
    """An expression `constant + Σ factor * atom`; no factor is 0."""

    constant: int
    terms: Mapping[Atom, int] = _NO_TERMS

    def plus(self, other: Linear, times: int = 1) -> Linear:
        """Return the sum of this and a multiple of another expression."""
        if not times:
            return self
        if not other.terms:
            return Linear(self.constant + times * other.constant, self.terms)
        terms = dict(self.terms)
        for atom, factor in other.terms.items():
            total = terms.get(atom, 0) + times * factor
            if total:
                terms[atom] = total
            else:
                del terms[atom]
        return Linear(self.constant + times * other.constant, terms)

    def times(self, number: int) -> Linear:
        """Return a multiple of this expression."""
        if not number:
            return Linear(0)
        scaled = {atom: factor * number for atom, factor in self.terms.items()}
        return Linear(self.constant * number, scaled)


class Bounds:
    """The unknowns of an analysis, with their intervals and conditions that always hold.

    Attributes:
        intervals: The interval of each atom.
        rules: Expressions that are never positive, by atom.
    """

    def __init__(self) -> None:
        self.intervals: dict[Atom, Interval] = {}
        self.rules: dict[Atom, list[Linear]] = {}
        self._tried = 0

    def unknown(self, value: Value, number: int, interval: Interval) -> Linear:
        """Return a new unknown, or a constant if its interval has one element.

        Args:
            value: The value to which the unknown belongs.
            number: Distinguishes the unknowns of one value.
            interval: The smallest and the largest number that the unknown may be.
        """
        if interval[0] == interval[1]:
            return Linear(interval[0])
        atom: Atom = ("lane" if value.is_tensor else "scalar", value, number)
        self.intervals[atom] = interval
        return Linear(0, {atom: 1})

    def interval(self, expression: Linear) -> Interval:
        """Return the interval of an expression, from the intervals of its atoms."""
        low = high = expression.constant
        for atom, factor in expression.terms.items():
            least, most = self.intervals[atom]
            low += factor * (least if factor > 0 else most)
            high += factor * (most if factor > 0 else least)
        return low, high

    def at_most(self, expression: Linear, limit: int, conditions: Sequence[Linear]) -> bool:
        """Return whether an expression provably does not exceed a limit.

        Multiples of conditions are subtracted from the expression so that unknowns cancel. For
        example, subtracting four times the condition `i - n + 1 <= 0` from `4*i` leaves `4*n - 4`,
        which is an upper bound of `4*i` wherever the condition holds.

        Args:
            conditions: Expressions that are not positive where the bound is used.
        """
        self._tried = 0
        return self._at_most(expression, limit, [*conditions, *self._rules(expression)], 0)

    def _at_most(
        self, expression: Linear, limit: int, conditions: Sequence[Linear], depth: int
    ) -> bool:
        if self.interval(expression)[1] <= limit:
            return True
        self._tried += 1
        if depth == _MOST_COMBINED or self._tried > _MOST_TRIED:
            return False
        tried: set[tuple[int, int]] = set()
        for number, condition in enumerate(conditions):
            for atom, factor in condition.terms.items():
                own = expression.terms.get(atom, 0)
                times = own // factor if own % factor == 0 else 0
                if times <= 0 or (number, times) in tried:
                    continue
                tried.add((number, times))
                rest = expression.plus(condition, -times)
                others = [c for n, c in enumerate(conditions) if n != number]
                present = {id(c) for c in conditions}
                others += [c for c in self._rules(rest) if id(c) not in present]
                if self._at_most(rest, limit, others, depth + 1):
                    return True
        return False

    def _rules(self, expression: Linear) -> list[Linear]:
        return [rule for atom in expression.terms for rule in self.rules.get(atom, ())]
