"""Kernels as data: expressions, statements, buffers and launches.

`text` prints programs, `oracle` evaluates them, and `shrink` reduces them. An expression contains
the name of its operation; `operations` defines the meaning and the syntax of each operation.
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
    """The type of an expression.

    Attributes:
        shape: Extents; empty for a scalar.
        buffer: Name of the buffer that a pointer points into.
    """

    element: Element
    shape: Shape = ()
    buffer: str = ""

    def of(self, element: Element) -> Type:
        """Return the type with the same shape and other elements."""
        return Type(element, self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Expr:
    """An operation on operands.

    Attributes:
        op: Name of the operation in `operations.OPERATIONS`.
        type: Type of the result; if there are several results, of the first.
        attrs: Properties that are not operands, such as an axis.
        fact: Facts about the result.
        more: Types and facts of further results.
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
        """Return the names of the variables that the expression reads."""
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
        base: Scalar pointer to the first element of the tensor.
        shape: Shape of the tensor.
        strides: Strides in elements; the last one is 1.
        offsets: Start of the block; lanes outside the shape are not stored.
        value: The block to store.
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
        bounds: Start, stop and step.
        static: If True, the loop is a `tl.static_range`.
    """

    name: str
    bounds: tuple[Expr, Expr, Expr]
    body: tuple[Statement, ...]
    static: bool = False


@dataclass(frozen=True, eq=False)
class While:
    """`while condition`; the end of the body makes the condition false eventually."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class If:
    """A branch on a scalar condition."""

    condition: Expr
    then: tuple[Statement, ...]
    orelse: tuple[Statement, ...] = ()


Statement: TypeAlias = Assign | Store | DescriptorStore | For | While | If
Role = Literal["in", "out", "both"]


@dataclass(frozen=True)
class Buffer:
    """The memory of an argument.

    Attributes:
        size: Number of elements that programs may access.
        role: Use by the kernel; `in` buffers must be unchanged afterwards.
        data: Name in `memory.PATTERNS` of the initial contents.
        seed: Seed of the pattern.
        margin: Number of further elements on each side, which no program may access.
        ulps: Error bound of the results, in units in the last place of the type.
        signless: If True, +0 and -0 compare as equal.
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
    """A scalar parameter of the kernel.

    Attributes:
        constexpr: If True, it is a compile-time constant.
    """

    name: str
    value: int
    constexpr: bool = False


@dataclass(frozen=True)
class Helper:
    """A function that the kernel calls.

    Attributes:
        parameters: Names and types of the parameters.
        noinline: If True, Triton does not inline the function.
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
        seed: Seed from which the program was generated.
        parameters: Scalar parameters of the kernel.
    """

    seed: int
    grid: Shape
    buffers: tuple[Buffer, ...]
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    helpers: tuple[Helper, ...] = ()

    def buffer(self, name: str) -> Buffer:
        return next(buffer for buffer in self.buffers if buffer.name == name)


# ---- traversal and replacement


def expressions(statement: Statement) -> tuple[Expr, ...]:
    """Return the outermost expressions that belong to a statement itself."""
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
    """Return the blocks inside a statement."""
    match statement:
        case For() | While():
            return (statement.body,)
        case If():
            return (statement.then, statement.orelse)
        case _:
            return ()


def with_expressions(statement: Statement, exprs: Sequence[Expr]) -> Statement:
    """Return the statement with its expressions replaced, in the order of `expressions`."""
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
    """Return the statement with its blocks replaced, in the order of `bodies`."""
    match statement:
        case For() | While():
            return replace(statement, body=blocks[0])
        case If():
            return replace(statement, then=blocks[0], orelse=blocks[1])
        case _:
            return statement


def statements(block: Sequence[Statement]) -> Iterator[Statement]:
    """Yield all statements of a block, nested ones included."""
    for statement in block:
        yield statement
        for inner in bodies(statement):
            yield from statements(inner)


def all_expressions(block: Sequence[Statement]) -> Iterator[Expr]:
    """Yield all expressions of a block, nested ones included."""
    for statement in statements(block):
        for expression in expressions(statement):
            yield from expression.walk()
