"""The `arith` dialect: integer and float arithmetic, comparisons, casts, constants.

The textual format of each operation is documented at
https://mlir.llvm.org/docs/Dialects/ArithOps/.
"""

from __future__ import annotations

from dataclasses import replace

from ttools.ir.dialects.declaration import Invalid, Op, Unit
from ttools.ir.dialects.integers import ARITH as MEANINGS
from ttools.ir.dialects.traits import (
    AXIS_INFO,
    CAST,
    CHOOSES,
    COMMUTATIVE,
    CONSTANT,
    DIVIDES,
    ELEMENTWISE,
    FROM_COORDINATES,
    INTEGER_UNIT,
    LINEAR,
    PURE,
    REGULAR,
    RESIZES,
    SELECTS,
    WIDENS,
    Trait,
)

_INTEGER_PREDICATES = (
    "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
)  # fmt: skip
_FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip

_BINARY = Op("$lhs `,` $rhs attr-dict `:` type($result)")
_OVERFLOW = Op("$lhs `,` $rhs (`overflow` flags($overflowFlags))? attr-dict `:` type($result)")
_EXACT = Op("$lhs `,` $rhs (`exact` presence($isExact))? attr-dict `:` type($result)")
_FLOAT_UNARY = Op("$operand (`fastmath` flags($fastmath))? attr-dict `:` type($result)")
_FLOAT_BINARY = Op("$lhs `,` $rhs (`fastmath` flags($fastmath))? attr-dict `:` type($result)")
_CAST = Op("$in attr-dict `:` type($in) `to` type($out)", ("out",))
_NON_NEGATIVE_CAST = Op(
    "$in (`nneg` presence($nonNeg))? attr-dict `:` type($in) `to` type($out)", ("out",)
)
_OVERFLOW_CAST = Op(
    "$in (`overflow` flags($overflowFlags))? attr-dict `:` type($in) `to` type($out)", ("out",)
)
_FLOAT_CAST = Op(
    "$in (`fastmath` flags($fastmath))? attr-dict `:` type($in) `to` type($out)", ("out",)
)
_ROUNDING_CAST = Op(
    "$in rounding($roundingmode) (`fastmath` flags($fastmath))? attr-dict `:`"
    " type($in) `to` type($out)",
    ("out",),
)
_EXTENDED_MULTIPLY = Op("$lhs `,` $rhs attr-dict `:` type($low)", ("low", "low"))

_OPERATIONS: dict[str, Op] = {
    "arith.constant": Op("attr-dict constant($value)", ("constant(value)",)),
    "arith.cmpi": Op(
        "keyword($predicate) `,` $lhs `,` $rhs attr-dict `:` type($lhs)",
        ("i1(lhs)",),
        {"predicate": dict(enumerate(_INTEGER_PREDICATES))},
    ),
    "arith.cmpf": Op(
        "keyword($predicate) `,` $lhs `,` $rhs (`fastmath` flags($fastmath))? attr-dict `:`"
        " type($lhs)",
        ("i1(lhs)",),
        {"predicate": dict(enumerate(_FLOAT_PREDICATES))},
    ),
    # The type of the condition is written only if it is not a plain `i1`.
    "arith.select": Op(
        "$condition `,` $true_value `,` $false_value attr-dict `:` type($types*)",
        ("last(types)",),
    ),
    "arith.addui_extended": Op(
        "$lhs `,` $rhs attr-dict `:` type($sum) `,` type($overflow)", ("sum", "overflow")
    ),
    "arith.mulsi_extended": _EXTENDED_MULTIPLY,
    "arith.mului_extended": _EXTENDED_MULTIPLY,
    "arith.negf": _FLOAT_UNARY,
    **{f"arith.{name}": _OVERFLOW for name in ("addi", "subi", "muli", "shli")},
    **{f"arith.{name}": _EXACT for name in ("divsi", "divui", "shrsi", "shrui")},
    **{
        f"arith.{name}": _BINARY
        for name in (
            "andi", "ori", "xori", "ceildivsi", "ceildivui", "floordivsi", "remsi", "remui",
            "maxsi", "maxui", "minsi", "minui",
        )
    },
    **{
        f"arith.{name}": _FLOAT_BINARY
        for name in (
            "addf", "subf", "mulf", "divf", "remf",
            "maximumf", "minimumf", "maxnumf", "minnumf",
        )
    },
    **{
        f"arith.{name}": _CAST
        for name in (
            "extsi", "fptosi", "fptoui", "sitofp", "bitcast", "index_cast",
        )
    },
    "arith.extui": _NON_NEGATIVE_CAST,
    "arith.index_castui": _NON_NEGATIVE_CAST,
    "arith.uitofp": _NON_NEGATIVE_CAST,
    "arith.trunci": _OVERFLOW_CAST,
    "arith.extf": _FLOAT_CAST,
    "arith.truncf": _ROUNDING_CAST,
}  # fmt: skip
_EXTREMES = {"maximumf", "minimumf", "maxnumf", "minnumf"}
_CASTS = {
    "extsi", "extui", "trunci", "fptosi", "fptoui", "sitofp", "uitofp", "extf", "truncf",
    "bitcast", "index_cast", "index_castui",
}  # fmt: skip
_TRAITS: dict[Trait, set[str]] = {
    CAST: _CASTS,
    REGULAR: {
        "addi", "subi", "muli", "extsi", "extui", "trunci", "remsi", "remui", "andi", "ori", "cmpi",
    },
    INTEGER_UNIT: {
        "addi", "subi", "muli", "andi", "ori", "xori", "shli", "shrsi", "shrui",
    },
    DIVIDES: {"divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi"},
    # `extf` is included because extending a float does not change its value.
    CHOOSES: _EXTREMES | {
        "minsi", "maxsi", "minui", "maxui", "select", "negf", "bitcast", "extf",
    },
    COMMUTATIVE: _EXTREMES | {
        "addi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui", "addf", "mulf",
    },
    LINEAR: {"addi", "subi", "muli", "extsi", "extui", "trunci"},
    WIDENS: {
        "addi", "subi", "muli", "shli", "select", "divsi", "floordivsi", "ceildivsi", "minsi",
        "maxsi",
    },
    RESIZES: {"trunci", "extsi", "index_cast"},
    SELECTS: {"select"},
    AXIS_INFO: {"addi", "subi", "muli", "shli", "extsi", "trunci", "select"},
}  # fmt: skip
_NOUNS = {
    "addi": "sum",
    "subi": "difference",
    "muli": "product",
    "shli": "shifted value",
    "trunci": "converted value",
}
_INVALID: dict[str, Invalid] = {
    "addf": "sum", "subf": "difference", "mulf": "product", "divf": "quotient", "remf": "quotient",
}  # fmt: skip
#: For each operation, the `ast` name of the Python operator that Triton's front end translates to
#: it; see `add`, `sub`, … in Triton's python/triton/language/semantic.py.
_PYTHON = {
    "addf": "Add", "addi": "Add",
    "subf": "Sub", "subi": "Sub",
    "mulf": "Mult", "muli": "Mult",
    "divf": "Div",
    "divsi": "FloorDiv", "divui": "FloorDiv",
    "remsi": "Mod", "remui": "Mod",
    "andi": "BitAnd", "ori": "BitOr", "xori": "BitXor",
    "shli": "LShift", "shrsi": "RShift", "shrui": "RShift",
}  # fmt: skip


def _traits(name: str) -> frozenset[Trait]:
    if name == "constant":
        return frozenset({PURE, FROM_COORDINATES, CONSTANT})
    own = {trait for trait, names in _TRAITS.items() if name in names}
    return frozenset({PURE, ELEMENTWISE} | own)


def _unit(name: str) -> Unit:
    if name in ("addf", "subf", "mulf"):
        return "arithmetic"
    if name in ("divf", "remf"):
        return "divide"
    return "compare" if name == "cmpf" or name in _EXTREMES else ""


OPERATIONS = {
    f"arith.{name}": replace(
        op,
        traits=_traits(name),
        unit=_unit(name),
        noun=_NOUNS.get(name, ""),
        python=_PYTHON.get(name, ""),
        invalid=_INVALID.get(name, ""),
        integer=MEANINGS.get(name),
    )
    for name, op in ((full.removeprefix("arith."), op) for full, op in _OPERATIONS.items())
}
