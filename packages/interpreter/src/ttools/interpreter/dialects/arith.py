"""The `arith` dialect: integer and float arithmetic, comparisons, casts, constants.

Formats: https://mlir.llvm.org/docs/Dialects/ArithOps/
"""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import OpSyntax

_INTEGER_PREDICATES = (
    "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
)  # fmt: skip
_FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip

_BINARY = OpSyntax("$lhs `,` $rhs attr-dict `:` type($result)")
_OVERFLOW = OpSyntax(
    "$lhs `,` $rhs (`overflow` flags($overflowFlags))? attr-dict `:` type($result)"
)
_EXACT = OpSyntax("$lhs `,` $rhs (`exact` presence($isExact))? attr-dict `:` type($result)")
_FLOAT_UNARY = OpSyntax("$operand (`fastmath` flags($fastmath))? attr-dict `:` type($result)")
_FLOAT_BINARY = OpSyntax("$lhs `,` $rhs (`fastmath` flags($fastmath))? attr-dict `:` type($result)")
_CAST = OpSyntax("$in attr-dict `:` type($in) `to` type($out)", ("out",))
_NON_NEGATIVE_CAST = OpSyntax(
    "$in (`nneg` presence($nonNeg))? attr-dict `:` type($in) `to` type($out)", ("out",)
)
_OVERFLOW_CAST = OpSyntax(
    "$in (`overflow` flags($overflowFlags))? attr-dict `:` type($in) `to` type($out)", ("out",)
)
_FLOAT_CAST = OpSyntax(
    "$in (`fastmath` flags($fastmath))? attr-dict `:` type($in) `to` type($out)", ("out",)
)
_ROUNDING_CAST = OpSyntax(
    "$in rounding($roundingmode) (`fastmath` flags($fastmath))? attr-dict `:`"
    " type($in) `to` type($out)",
    ("out",),
)
_EXTENDED_MULTIPLY = OpSyntax("$lhs `,` $rhs attr-dict `:` type($low)", ("low", "low"))

OPERATIONS: dict[str, OpSyntax] = {
    "arith.constant": OpSyntax("attr-dict constant($value)", ("constant(value)",)),
    "arith.cmpi": OpSyntax(
        "keyword($predicate) `,` $lhs `,` $rhs attr-dict `:` type($lhs)",
        ("i1(lhs)",),
        {"predicate": dict(enumerate(_INTEGER_PREDICATES))},
    ),
    "arith.cmpf": OpSyntax(
        "keyword($predicate) `,` $lhs `,` $rhs (`fastmath` flags($fastmath))? attr-dict `:`"
        " type($lhs)",
        ("i1(lhs)",),
        {"predicate": dict(enumerate(_FLOAT_PREDICATES))},
    ),
    # The type of the condition is written only if it is not a plain `i1`.
    "arith.select": OpSyntax(
        "$condition `,` $true_value `,` $false_value attr-dict `:` type($types*)",
        ("last(types)",),
    ),
    "arith.addui_extended": OpSyntax(
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
