"""Guesses which expression over sizes a number of a launch is, by equality."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ttools.ir.expr import Expr, as_expr, ceildiv, product

_T = TypeVar("_T")


class Origins:
    """The expressions that give numbers at one launch, the likeliest first.

    Args:
        sizes: Values of the sizes, by name.
        named: Expressions of the sizes, in the order of `sizes`.
        shapes: Expressions of the tensors' extents.
        block_sizes: Constants that host code may have divided by.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        named: Iterable[Expr],
        shapes: Sequence[Sequence[Expr]],
        block_sizes: Iterable[int],
    ) -> None:
        self._sizes = sizes
        self._known: dict[int, Expr] = {}
        lengths = [b for b in dict.fromkeys(block_sizes) if b > 1]
        plain = [*named, *(product(part) for shape in shapes for part in runs_of(shape))]
        counts = [ceildiv(f, as_expr(b)) for f in plain for b in lengths]
        for formula in (*plain, *counts):
            self._add(formula)
        # Blocks of one size by those of another, or what blocks cover; else it is chance.
        several = [f for f in counts if f.names and f.at(sizes) > 1]
        for one, other in itertools.product(several[:40], [*several, *plain][:40]):
            if other.names and not one.names & other.names:
                self._add(one * other)
        for f, b in itertools.product(plain, lengths):
            if (count := ceildiv(f, as_expr(b))).at(sizes) > 1:
                self._add(count * b)

    def _add(self, formula: Expr) -> None:
        if formula.constant is None and (number := formula.at(self._sizes)) > 1:
            self._known.setdefault(number, formula)

    def of(self, number: int) -> Expr | None:
        """Return where a number may come from; None if nothing gives it."""
        return self._known.get(number)


def runs_of(shape: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Iterate over all axes of a tensor, its last ones, its first ones."""
    yield shape
    for n in range(1, len(shape)):
        yield shape[n:]
        yield shape[:n]
