"""Declarations of operations in dialect files: assembly format, results, and semantics.

Besides its syntax, an operation declares traits, the exact meaning of integers (`integers`), the
lanes of views (`coordinates`) and the edges of structured control flow (`flow`). Analyses use these
declarations instead of names of operations.

Formats follow MLIR's declarative assembly formats
(https://mlir.llvm.org/docs/DefiningDialects/Operations/#declarative-assembly-format):

    `text`              one literal token
    $name               an operand; `$name*` any number of them, between commas
    type($name)         the type, or types (`type($name*)`), of an operand or result
    short-type($name, tt.ptr)
                        a type whose `!tt.ptr` MLIR leaves out, because no other fits: `<f32>`
    functional-type     `(operand types) -> result types`, bound to `results`
    attr-dict           an optional attribute dictionary
    successor           a block and what it is passed
    ( … )?              optional; present if its first element is
    oilist( a | b )     clauses in any order
    kind($name)         an attribute written as `keyword` (`slt`), `string`, `symbol` (`@f`),
                        `flags` (`<nsw, nuw>`), `words` (`local|global_read`), `dimension` (`x y
                        z`, held as 0 1 2), `constant`, `attribute` (any value), `rounding` (an
                        optional keyword), `presence` (nothing written: the attribute is True)
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

#: Not `kind($name)`, which is an attribute or a type.
_OPERAND = re.compile(r"(?<![\w-]\()\$(\w+)")

Unit: TypeAlias = Literal["", "arithmetic", "compare", "divide", "function", "library"]
#: What IEEE 754 (7.2) calls an invalid operation: operands of which none is NaN make one.
Invalid: TypeAlias = Literal["", "sum", "difference", "product", "quotient", "root", "logarithm"]


@dataclass(frozen=True)
class Op:
    """The declaration of one operation.

    Attributes:
        format: Assembly format; None where the parser has its own rules (functions, structured
            control flow), or where it is printed in MLIR's generic form only.
        results: One entry per result, or per group of results: the name under which the format
            binds their types, or a rule of that name's type: `pointee(ptr)`, `i1(lhs)`,
            `element(src)`, `last(types)`, `constant(value)`.
        enums: Names of the values of attributes that an attribute dictionary, or the generic form,
            shows as numbers.
        parts: Names of the entries of attributes that hold several, as attributes of their own.
        operands: The names of the operands in the order of the operation's definition, where the
            format has another order or more than one variable part; the attribute
            `operandSegmentSizes` then says how many values each of them has.
        traits: Properties of the operation, declared in `traits`.
        unit: The GPU unit that computes the operation, if profilers count it per lane:
            `arithmetic` for sums and products; empty if it is not counted per lane.
        operations_per_lane: Number of operations of that unit for each lane: a fused multiply-add
            counts as two.
        noun: The noun that reports use: accesses are named after their effect, computations that
            may lose bits after their result.
        python: The `ast` name of the Python operator that Triton's front end translates to this
            operation; empty if there is none.
        invalid: Describes how the operation can produce a NaN from operands that are not NaN; empty
            if it cannot, or if no check needs the description.
        integer: The result as an exact integer; None if it is not declared.
        lanes: For views, maps each lane of the result to a lane of an operand; None for others.
        flow: For structured control flow, the edges along which the operation passes values.
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
        """The names of its operands; an optional or variable one comes after all others."""
        if self.operands or self.format is None:
            return self.operands
        return tuple(_OPERAND.findall(self.format))
