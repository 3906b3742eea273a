"""Declarations of operations in dialect files: assembly format, results, and semantics.

Besides its syntax, an operation declares traits and, where they apply, its exact result as an
integer (`integers`), the coordinate map of a view (`coordinates`) and the edges of structured
control flow (`flow`). Analyses use these declarations instead of the names of operations.

Formats follow MLIR's declarative assembly formats
(https://mlir.llvm.org/docs/DefiningDialects/Operations/#declarative-assembly-format):

    `text`              one literal token
    $name               an operand; `$name*` any number of them, between commas
    type($name)         the type, or types (`type($name*)`), of an operand or result
    short-type($name, tt.ptr)
                        a type that MLIR prints without `!tt.ptr`, which is implied: `<f32>`
    functional-type     `(operand types) -> result types`; binds the latter to `results`
    attr-dict           an optional attribute dictionary
    successor           a target block and the values that are passed to it
    ( … )?              an optional part, present if its first element is present
    oilist( a | b )     any of the clauses, in any order
    kind($name)         an attribute written as `keyword` (`slt`), `string`, `symbol` (`@f`),
                        `flags` (`<nsw, nuw>`), `words` (`local|global_read`), `dimension` (`x`,
                        `y` or `z`, stored as 0, 1 or 2), `constant`, `attribute` (any value),
                        `rounding` (an optional keyword), `presence` (consumes no text and sets the
                        attribute to True)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from ttools.ir.dialects.coordinates import CoordinateMap
from ttools.ir.dialects.flow import Edge
from ttools.ir.dialects.integers import Meaning
from ttools.ir.dialects.traits import Trait

#: Matches an operand, `$name`, but not `kind($name)`, which is an attribute or a type.
_OPERAND = re.compile(r"(?<![\w-]\()\$(\w+)")

Unit: TypeAlias = Literal["", "arithmetic", "compare", "divide", "function", "library"]
#: Kinds of invalid operations (IEEE 754, section 7.2): their result is NaN although no operand is,
#: as in the difference `inf - inf`.
Invalid: TypeAlias = Literal["", "sum", "difference", "product", "quotient", "root", "logarithm"]


@dataclass(frozen=True)
class Op:
    """The declaration of one operation.

    Attributes:
        format: Assembly format. None if the parser has a function for the operation (functions,
            structured control flow), or if MLIR prints it in the generic form only.
        results: Types of the results, one entry per result or group of results. An entry is a name
            to which the format binds types, or a rule that derives the type from that of a name:
            `pointee(ptr)`, `i1(lhs)`, `element(src)`, `last(types)`, `constant(value)`.
        enums: For each attribute, names for the numbers that MLIR prints in attribute dictionaries
            and in the generic form.
        parts: For each attribute that combines several values, names for its entries; the parser
            stores each entry as a separate attribute.
        operands: The names of the operands in the order of the operation's definition, given if
            their order in the format differs, or if the format has several parts of variable
            length. The parser then stores the number of values of each name in the attribute
            `operandSegmentSizes`.
        traits: Properties of the operation, declared in `traits`.
        unit: The GPU unit that computes the operation, if profilers count it per lane: `arithmetic`
            for sums and products; empty if it is not counted per lane.
        operations_per_lane: Number of operations of that unit for each lane: a fused multiply-add
            counts as two.
        noun: The noun that reports use for the operation: for an access, its effect (`load`); for a
            computation that may lose bits, its result (`sum`).
        python: The `ast` name of the Python operator that Triton's front end translates to this
            operation; empty if there is none.
        invalid: Describes how the operation can produce a NaN from operands that are not NaN; empty
            if it cannot, or if no check needs the description.
        integer: Computes the result as an exact integer; None if it is not declared.
        lanes: Coordinate map of a view; None for other operations.
        flow: Edges along which an operation of structured control flow passes values.
    """

    format: str | None = None
    results: tuple[str, ...] = ("result",)
    enums: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    operands: tuple[str, ...] = ()
    traits: frozenset[Trait] = frozenset()
    unit: Unit = ""
    operations_per_lane: int = 1
    noun: str = ""
    python: str = ""
    invalid: Invalid = ""
    integer: Meaning | None = None
    lanes: CoordinateMap | None = None
    flow: tuple[Edge, ...] = ()

    @cached_property
    def operand_names(self) -> tuple[str, ...]:
        """The names of the operands; operands that are optional or variadic come last."""
        if self.operands or self.format is None:
            return self.operands
        return tuple(_OPERAND.findall(self.format))
