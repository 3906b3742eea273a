"""Kernels as data: expressions, statements, buffers and launches.

Printed by `text`, evaluated by `oracle`, cut down by `shrink`. An expression names its operation;
what the operation means and how it is written are `operations`'.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ttools.fuzz.elements import Element
from ttools.fuzz.facts import Fact

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Type:
    """An expression's type.

    Attributes:
        shape: extents; none for a scalar.
        buffer: what a pointer points into.
    """

    element: Element
    shape: Shape = ()
    buffer: str = ""

    def of(self, element: Element) -> Type:
        """The type of the same shape with other elements."""
        return Type(element, self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Expr:
    """An operation on operands.

    Attributes:
        op: its name in `operations.OPERATIONS`.
        type: of the result; of the first if there are several.
        attrs: everything else.
        more: types and facts of further results.
    """

    op: str
    type: Type
    args: tuple[Expr, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    fact: Fact = Fact()  # noqa: RUF009 - frozen
    more: tuple[tuple[Type, Fact], ...] = ()

    def walk(self) -> Iterator[Expr]:
        yield self
        for arg in self.args:
            yield from arg.walk()

    def names(self) -> Iterator[str]:
        """The variables it reads."""
        return (e.attrs["name"] for e in self.walk() if e.op == "var")


@dataclass(frozen=True, eq=False)
class Assign:
    """`targets = value`."""

    targets: tuple[str, ...]
    value: Expr


@dataclass(frozen=True, eq=False)
class Store:
    """`tl.store(pointer, value, mask)`, or `tl.atomic_store`."""

    pointer: Expr
    value: Expr
    mask: Expr | None = None
    is_atomic: bool = False


@dataclass(frozen=True, eq=False)
class DescriptorStore:
    """`descriptor.store(offsets, value)` through `tl.make_tensor_descriptor`.

    Attributes:
        base: first element of the tensor, a scalar pointer.
        shape: the tensor's.
        strides: in elements, the last 1.
        offsets: where the block starts; lanes outside the shape are not stored.
        value: the block.
    """

    base: Expr
    shape: Shape
    strides: Shape
    offsets: Shape
    value: Expr


@dataclass(frozen=True, eq=False)
class For:
    """`for name in range(start, stop, step)`.

    Attributes:
        bounds: start, stop, step.
        static: `tl.static_range`.
    """

    name: str
    bounds: tuple[Expr, Expr, Expr]
    body: tuple[Statement, ...]
    static: bool = False


@dataclass(frozen=True, eq=False)
class While:
    """`while condition`; the body ends by what makes the condition false at last."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class If:
    """A branch on a scalar."""

    condition: Expr
    then: tuple[Statement, ...]
    orelse: tuple[Statement, ...] = ()


Statement: TypeAlias = Assign | Store | DescriptorStore | For | While | If
Role = Literal["in", "out", "both"]


@dataclass(frozen=True)
class Buffer:
    """An argument's memory.

    Attributes:
        size: how many elements programs may touch.
        role: `in` buffers must be unchanged.
        data: a name in `memory.PATTERNS`: what it holds.
        seed: of the pattern.
        margin: elements before and after, which no program may touch.
        ulps: how far the results may be off, in units in the last place of the type.
        signless: zeros of both signs count as equal.
    """

    name: str
    element: Element
    size: int
    role: Role
    data: str
    seed: int
    margin: int = 64
    ulps: int = 0
    signless: bool = False


@dataclass(frozen=True)
class Parameter:
    """A number that the kernel takes.

    Attributes:
        constexpr: whether it is a compile-time constant.
    """

    name: str
    value: int
    constexpr: bool = False


@dataclass(frozen=True)
class Helper:
    """A function that the kernel calls.

    Attributes:
        parameters: names, types and facts.
        noinline: whether it stays a function.
    """

    name: str
    parameters: tuple[tuple[str, Type], ...]
    body: tuple[Statement, ...]
    results: tuple[Expr, ...]
    noinline: bool = False


@dataclass(frozen=True)
class Program:
    """A kernel and its launch.

    Attributes:
        seed: what it was made from.
        parameters: numbers.
    """

    seed: int
    grid: Shape
    buffers: tuple[Buffer, ...]
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    helpers: tuple[Helper, ...] = ()

    def buffer(self, name: str) -> Buffer:
        return next(buffer for buffer in self.buffers if buffer.name == name)


# ---- looking and changing


def expressions(statement: Statement) -> tuple[Expr, ...]:
    """A statement's own expressions, outermost only."""
    match statement:
        case Assign():
            return (statement.value,)
        case Store():
            mask = () if statement.mask is None else (statement.mask,)
            return (statement.pointer, statement.value, *mask)
        case DescriptorStore():
            return (statement.base, statement.value)
        case For():
            return statement.bounds
        case While() | If():
            return (statement.condition,)


def bodies(statement: Statement) -> tuple[tuple[Statement, ...], ...]:
    """The blocks inside a statement."""
    match statement:
        case For() | While():
            return (statement.body,)
        case If():
            return (statement.then, statement.orelse)
        case _:
            return ()


def with_expressions(statement: Statement, exprs: Sequence[Expr]) -> Statement:
    """The statement with other expressions, in the order of `expressions`."""
    match statement:
        case Assign():
            return replace(statement, value=exprs[0])
        case Store():
            mask = exprs[2] if len(exprs) > 2 else None
            return replace(statement, pointer=exprs[0], value=exprs[1], mask=mask)
        case DescriptorStore():
            return replace(statement, base=exprs[0], value=exprs[1])
        case For():
            return replace(statement, bounds=(exprs[0], exprs[1], exprs[2]))
        case While() | If():
            return replace(statement, condition=exprs[0])


def with_bodies(statement: Statement, blocks: Sequence[tuple[Statement, ...]]) -> Statement:
    """The statement with other blocks, in the order of `bodies`."""
    match statement:
        case For() | While():
            return replace(statement, body=blocks[0])
        case If():
            return replace(statement, then=blocks[0], orelse=blocks[1])
        case _:
            return statement


def statements(block: Sequence[Statement]) -> Iterator[Statement]:
    """All statements of a block, inner ones too."""
    for statement in block:
        yield statement
        for inner in bodies(statement):
            yield from statements(inner)


def all_expressions(block: Sequence[Statement]) -> Iterator[Expr]:
    """All expressions of a block, inner ones too."""
    for statement in statements(block):
        for expression in expressions(statement):
            yield from expression.walk()
