"""The state from which rules generate a kernel: random choices, scope, buffers, parameters.

A rule is a function that takes a `Context`. It adds statements to the current block, or nothing if
no variable in scope fits. Rules see only the variables in scope, with the facts about their
elements.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from ttools.fuzz.elements import (
    BF16,
    F16,
    F32,
    F64,
    FP8E4NV,
    FP8E5,
    I1,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Element,
)
from ttools.fuzz.facts import Fact
from ttools.fuzz.operations.table import number, parameter, var
from ttools.fuzz.program import (
    Assign,
    Buffer,
    Expr,
    Helper,
    Parameter,
    Role,
    Shape,
    Statement,
)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Features:
    """Features that generated kernels may use.

    Attributes:
        gpu: If True, use only what Triton 3.6 compiles for an NVIDIA GPU, and what is defined
            there.
        in_order_cat: If True, use `tl.cat` along an axis, which Triton 3.7 added.
        atomic_loads: If True, use `tl.atomic_load` and related functions, which Triton 3.9 added.
        most_elements: Maximum number of elements of a tile.
    """

    gpu: bool = False
    in_order_cat: bool = False
    atomic_loads: bool = False
    most_elements: int = 512


#: Element types and their relative frequencies among tiles.
_WEIGHTS: dict[Element, int] = {
    F32: 6, F16: 4, BF16: 4, F64: 2, FP8E5: 2, FP8E4NV: 2,
    I32: 6, I64: 3, I16: 3, I8: 4, U8: 3, U16: 2, U32: 2, U64: 2, I1: 2,
}  # fmt: skip


class Context:
    """A kernel under construction."""

    def __init__(self, rng: random.Random, features: Features) -> None:
        self.rng = rng
        self.features = features
        self.grid: Shape = (1,)
        self.buffers: list[Buffer] = []
        self.parameters: list[Parameter] = []
        self.helpers: list[Helper] = []
        self.block: list[Statement] = []
        self.scope: list[Expr] = []
        self.program: Expr | None = None
        self.depth = 0
        self._names: dict[str, int] = {}

    # ---- chance

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def choose(self, items: Sequence[T]) -> T:
        return items[self.rng.randrange(len(items))]

    def weighted(self, items: dict[T, int]) -> T:
        return self.rng.choices(list(items), list(items.values()))[0]

    def element(self, *, arithmetic: bool = False) -> Element:
        while True:
            element = self.weighted(_WEIGHTS)
            if not (arithmetic and (element is I1 or (element.is_float and element.bits == 8))):
                return element

    def shape(self, *, rank: int | None = None) -> Shape:
        """Return a shape whose extents are powers of two."""
        if rank is None:
            rank = self.weighted({1: 10, 2: 10, 3: 4, 4: 2, 5: 1})
        most = self.weighted({2: 1, 16: 3, 64: 6, 256: 4, self.features.most_elements: 1})
        extents = []
        left = most
        for _ in range(rank):
            extent = 2 ** self.rng.randint(0, max(0, left.bit_length() - 1))
            if rank > 1 and extent > 8 and self.chance(0.5):
                extent = 8
            extents.append(extent)
            left //= extent
        if rank == 1 and extents[0] < 8 and self.chance(0.6):
            extents[0] = self.choose((16, 32, 64))
        self.rng.shuffle(extents)
        return tuple(extents)

    # ---- names, statements, variables

    def fresh(self, prefix: str = "v") -> str:
        """Return a name that is not used yet."""
        count = self._names[prefix] = self._names.get(prefix, 0) + 1
        return f"{prefix}{count}"

    def add(self, statement: Statement) -> None:
        self.block.append(statement)

    def bind(self, value: Expr, *, visible: bool = True) -> list[Expr]:
        """Assign a value, or all results of an expression with several, to new variables."""
        results = [(value.type, value.fact), *value.more]
        made = [var(self.fresh(), type_, fact) for type_, fact in results]
        self.add(Assign(tuple(v.attrs["name"] for v in made), value))
        if visible:
            self.scope += made
        return made

    def pick(self, accepts: Callable[[Expr], bool] = lambda _: True) -> Expr | None:
        """Return a random variable in scope that `accepts` allows; later ones are more likely."""
        accepted = [v for v in self.scope if v.type.element.kind != "pointer" and accepts(v)]
        if not accepted:
            return None
        place = max(self.rng.randrange(len(accepted)), self.rng.randrange(len(accepted)))
        return accepted[place]

    @contextmanager
    def nested(self, hidden: Sequence[Expr] = ()) -> Iterator[list[Statement]]:
        """Open a nested block, whose variables are removed from the scope at the end."""
        block, scope = self.block, self.scope
        self.block, self.depth = [], self.depth + 1
        self.scope = [v for v in scope if v not in hidden]
        try:
            yield self.block
        finally:
            self.block, self.scope, self.depth = block, scope, self.depth - 1

    # ---- parameters of the kernel

    def buffer(
        self, element: Element, size: int, role: Role, data: str, fact: Fact | None = None
    ) -> Buffer:
        name = self.fresh({"in": "in", "out": "out", "both": "io"}[role])
        # Triton specialises on addresses divisible by 16.
        margin = self.weighted({64: 8, 16: 2, 3: 2})
        made = Buffer(name, element, max(size, 1), role, data, self.rng.randrange(97), margin)
        if fact is not None:
            made = replace(made, ulps=fact.ulps, signless=fact.signless)
        self.buffers.append(made)
        return made

    def bound(self, value: int) -> Expr:
        """Return a number as a literal, a compile-time constant or a run-time argument."""
        form = self.weighted({"number": 4, "constexpr": 2, "argument": 4})
        if form == "number" or len(self.parameters) >= 5 or self.depth > 8:
            return number(value, I32)
        for existing in self.parameters:
            if existing.value == value and self.chance(0.7):
                return parameter(existing.name, value)
        name = self.fresh("N" if form == "constexpr" else "n")
        self.parameters.append(Parameter(name, value, form == "constexpr"))
        return parameter(name, value)


Rule: TypeAlias = Callable[[Context], None]


class _NothingFitsError(Exception):
    """No variable in scope fits a rule."""


def needed(value: T | None) -> T:
    """Return the value; if it is None, end the rule with an exception."""
    if value is None:
        raise _NothingFitsError
    return value


def fill(context: Context, count: int, rules: dict[Rule, int]) -> None:
    """Apply `count` rules, chosen by weight."""
    for _ in range(count):
        with suppress(_NothingFitsError):
            context.weighted(rules)(context)


def same_shape(a: Expr) -> Callable[[Expr], bool]:
    """Return a predicate that accepts variables with the shape of `a`."""
    return lambda v: v.type.shape == a.type.shape
