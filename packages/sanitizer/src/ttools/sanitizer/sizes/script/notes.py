"""Where a number comes from: expressions over the extents of tensors.

An extent stands for all of its length, as which of them are one size is asked later. Must not know
who computes with numbers, nor launches.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from ttools.sanitizer.sizes.host.paths import HostInt, cdiv, next_power

#: Larger expressions are given up: what a loop adds up is no formula that a user would read.
_MOST_PARTS = 24


def _power(n: Any) -> Any:
    """`triton.next_power_of_2`."""
    if type(n) is HostInt:
        return next_power(n)
    return 1 << (n - 1).bit_length() if n > 0 else 0


def _least(a: Any, b: Any) -> Any:
    return a if a < b else b


def _greatest(a: Any, b: Any) -> Any:
    return a if a > b else b


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": lambda *parts: reduce(operator.add, parts),
    "*": lambda *parts: reduce(operator.mul, parts),
    "//": operator.floordiv,
    "%": operator.mod,
    "cdiv": cdiv,
    "min": lambda *parts: reduce(_least, parts),
    "max": lambda *parts: reduce(_greatest, parts),
    "next_power_of_2": _power,
}
_SIGNS = frozenset(("+", "*", "//", "%"))


@dataclass(frozen=True)
class Note:
    """An extent, a number, or an operation on some.

    Attributes:
        kind: `extent`, `number`, or the operation.
        parts: the length of the extent, the number, or the operands.
    """

    kind: str
    parts: tuple[Any, ...]

    @cached_property
    def extents(self) -> frozenset[int]:
        """Lengths of the extents in it."""
        if self.kind == "extent":
            return frozenset(self.parts)
        if self.kind == "number":
            return frozenset()
        return frozenset().union(*(part.extents for part in self.parts))

    @cached_property
    def size(self) -> int:
        """How many extents and numbers it has."""
        return 1 if self.kind in _LEAVES else sum(part.size for part in self.parts)

    @cached_property
    def may_be_negative(self) -> bool:
        """Whether something is taken away."""
        if self.kind in _LEAVES:
            return self.kind == "number" and bool(self.parts[0] < 0)
        return any(part.may_be_negative for part in self.parts)

    @cached_property
    def follows(self) -> bool:
        """Whether it changes with each of its extents, as sums and products do."""
        return self.kind in _LEAVES or (
            self.kind in ("+", "*") and all(part.follows for part in self.parts)
        )

    @cached_property
    def rounded(self) -> frozenset[int]:
        """Lengths of the extents that it rounds up to powers of 2."""
        if self.kind in _LEAVES:
            return frozenset()
        if self.kind == "next_power_of_2":
            return self.extents
        return frozenset().union(*(part.rounded for part in self.parts))

    def fixed_but(self, free: Container[int]) -> Note:
        """The same with numbers for all extents but those of some lengths."""
        if self.kind == "number" or not self.extents:
            return self
        if self.kind == "extent":
            return self if self.parts[0] in free else number(self.parts[0])
        return combined(self.kind, *(part.fixed_but(free) for part in self.parts)) or self

    def value(self, of: Callable[[int], Any]) -> Any:
        """Computes it.

        Args:
            of: what extents of a length are.
        """
        if self.kind == "number":
            return self.parts[0]
        if self.kind == "extent":
            return of(self.parts[0])
        return _FUNCTIONS[self.kind](*(part.value(of) for part in self.parts))

    def text(self, of: Callable[[int], str], inner: bool = False) -> str:
        """As a user would write it.

        Args:
            of: how extents of a length are called.
            inner: whether it is an operand.
        """
        if self.kind == "number":
            return str(self.parts[0])
        if self.kind == "extent":
            return of(self.parts[0])
        if self.kind not in _SIGNS:
            return f"{self.kind}({', '.join(part.text(of) for part in self.parts)})"
        texts = [part.text(of, inner=True) for part in self.parts]
        if self.kind == "+":
            # Multiples of -1, each in brackets, are taken away.
            less = [text.endswith(" * -1)") for text in texts]
            added = [t for t, minus in zip(texts, less, strict=True) if not minus]
            taken = [t[1:-6] for t, minus in zip(texts, less, strict=True) if minus]
            text = " - ".join((" + ".join(added).replace("+ -", "- "), *taken))
        else:
            text = f" {self.kind} ".join(texts)
        return f"({text})" if inner else text


_LEAVES = frozenset(("extent", "number"))


def number(value: int) -> Note:
    """A number that comes from no extent."""
    return Note("number", (int(value),))


def extent(length: int) -> Note:
    """The extents of tensors that have that length; of one element there is none to follow."""
    return Note("extent", (length,)) if length > 1 else number(length)


def combined(kind: str, *given: Note | None) -> Note | None:
    """An operation on notes; None if one is unknown, or if it is too large or not defined."""
    parts = tuple(part for part in given if part is not None)
    if len(parts) < len(given):
        return None
    if all(part.kind == "number" for part in parts):
        values = [part.parts[0] for part in parts]
        if kind in ("//", "%", "cdiv") and values[1] == 0:
            return None
        return number(_FUNCTIONS[kind](*values))
    if kind == "cdiv" and parts[1].may_be_negative:
        return None
    if kind in ("+", "*"):
        made = _sorted(kind, parts)
    elif kind == "//" and parts[1] == number(1):
        made = parts[0]
    elif kind in ("//", "cdiv"):
        made = _quotient(kind, *parts)
    elif kind in ("min", "max"):
        made = _extremum(kind, parts)
    else:
        made = Note(kind, parts)
    return made if made.size <= _MOST_PARTS else None


def product(parts: Iterable[Note | None]) -> Note | None:
    """All of them multiplied."""
    return combined("*", number(1), *parts)


def _order(note: Note) -> tuple[bool, str]:
    return note.kind == "number", repr(note)


def _sorted(kind: str, parts: tuple[Note, ...]) -> Note:
    """A sum or product with its numbers taken together."""
    neutral = 0 if kind == "+" else 1
    flat = [each for part in parts for each in (part.parts if part.kind == kind else (part,))]
    numbers = [each.parts[0] for each in flat if each.kind == "number"]
    others = sorted((each for each in flat if each.kind != "number"), key=_order)
    total = _FUNCTIONS[kind](neutral, *numbers)
    if kind == "*" and total == 0:
        return number(0)
    if kind == "*" and total == -1 and len(others) == 1:
        # -(-x // y) is how many y cover x.
        (only,) = others
        opposite = _negated(only.parts[0]) if only.kind == "//" else None
        if opposite is not None and not only.parts[1].may_be_negative:
            return Note("cdiv", (opposite, only.parts[1]))
    if total != neutral or not others:
        others.append(number(total))
    return others[0] if len(others) == 1 else Note(kind, tuple(others))


def _extremum(kind: str, parts: tuple[Note, ...]) -> Note:
    """A minimum or maximum with its numbers taken together."""
    flat = {each for part in parts for each in (part.parts if part.kind == kind else (part,))}
    numbers = [each.parts[0] for each in flat if each.kind == "number"]
    others = sorted((each for each in flat if each.kind != "number"), key=_order)
    if numbers:
        others.append(number(_FUNCTIONS[kind](*numbers)))
    return others[0] if len(others) == 1 else Note(kind, tuple(others))


def _negated(note: Note) -> Note | None:
    """`x` of `-x`."""
    if note.kind == "*" and note.parts[-1] == number(-1):
        rest = note.parts[:-1]
        return rest[0] if len(rest) == 1 else Note("*", rest)
    return None


def _quotient(kind: str, p: Note, d: Note) -> Note:
    """A quotient; `(x + d - 1) // d` is rounded up."""
    if kind == "//" and p.kind == "+" and not d.may_be_negative:
        if d.kind == "number" and p.parts[-1] == number(d.parts[0] - 1):
            return Note("cdiv", (_sorted("+", p.parts[:-1]), d))
        if d in p.parts and p.parts[-1] == number(-1):
            rest = list(p.parts[:-1])
            rest.remove(d)
            return Note("cdiv", (_sorted("+", tuple(rest)), d))
    return Note(kind, (p, d))
