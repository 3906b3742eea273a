"""Numbers as functions of named sizes: which ones a number may come from.

Must not know launches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ttools.sanitizer.sizes.host.paths import cdiv
from ttools.sanitizer.sizes.script.notes import Note

_T = TypeVar("_T")


@dataclass(frozen=True)
class Formula:
    """A number as a function of sizes.

    Attributes:
        text: as a user would write it.
        value: computes it from sizes by name.
        names: the sizes that it depends on.
    """

    text: str
    value: Callable[[Mapping[str, Any]], Any]
    names: frozenset[str] = frozenset()

    @property
    def is_constant(self) -> bool:
        return not self.names


def constant(number: int) -> Formula:
    """Always that number."""
    return Formula(str(number), lambda _: number)


def size(name: str) -> Formula:
    """The size itself."""
    return Formula(name, lambda sizes: sizes[name], frozenset((name,)))


def product(factors: Iterable[Formula]) -> Formula:
    """All of them multiplied."""
    parts = [f for f in factors if f.text != "1"]
    if len(parts) < 2:
        return parts[0] if parts else constant(1)
    text = " * ".join(f.text for f in parts)
    names = frozenset().union(*(f.names for f in parts))
    return Formula(text, lambda sizes: math.prod(f.value(sizes) for f in parts), names)


def blocks(of: Formula, block: int) -> Formula:
    """How many blocks cover a number."""
    text = f"cdiv({of.text}, {block})"
    return Formula(text, lambda sizes: cdiv(of.value(sizes), block), of.names)


def formula_of(note: Note, named: Mapping[int, Formula]) -> Formula:
    """What a number comes from.

    Args:
        note: of the number.
        named: what extents of a length are; others stay as they are.
    """
    note = note.fixed_but(named)
    if not note.extents:
        return constant(note.value(int))
    names = frozenset().union(*(named[n].names for n in note.extents))
    text = note.text(lambda n: named[n].text)
    return Formula(text, lambda sizes: note.value(lambda n: named[n].value(sizes)), names)


class Origins:
    """The formulas that give numbers at one launch, the likeliest first.

    Args:
        sizes: by name.
        shapes: of the tensors, each extent a formula.
        block_sizes: constants that host code may have divided by.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        shapes: Sequence[Sequence[Formula]],
        block_sizes: Iterable[int],
    ) -> None:
        self._sizes = sizes
        self._known: dict[int, Formula] = {}
        plain = [size(name) for name in sizes]
        plain += [product(part) for shape in shapes for part in runs_of(shape)]
        counts = [blocks(f, b) for f in plain for b in dict.fromkeys(block_sizes) if b > 1]
        for formula in (*plain, *counts):
            self._add(formula)
        # Blocks of one size by those of another, or what blocks cover; else it is chance.
        several = [f for f in counts if f.value(sizes) > 1 and f.names]
        for one, other in itertools.product(several[:40], [*several, *plain][:40]):
            if other.names and not one.names & other.names:
                self._add(product((one, other)))
        for f, b in itertools.product(plain, dict.fromkeys(block_sizes)):
            if b > 1 and (count := blocks(f, b)).value(sizes) > 1:
                self._add(product((count, constant(b))))

    def _add(self, formula: Formula) -> None:
        number = formula.value(self._sizes)
        if number > 1 and formula.names:
            self._known.setdefault(number, formula)

    def of(self, number: int) -> Formula | None:
        """Where a number comes from; None if it is not seen."""
        return self._known.get(number)


def runs_of(shape: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """All axes of a tensor, its last ones, its first ones."""
    yield shape
    for n in range(1, len(shape)):
        yield shape[n:]
        yield shape[:n]
