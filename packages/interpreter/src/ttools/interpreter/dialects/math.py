"""The `math` dialect: elementary functions.

Formats: https://mlir.llvm.org/docs/Dialects/MathOps/
"""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import OpSyntax

_INTEGER_UNARY = OpSyntax("$operand attr-dict `:` type($result)")
_UNARY = OpSyntax("$operand (`fastmath` flags($fastmath))? attr-dict `:` type($result)")
_BINARY = OpSyntax("$lhs `,` $rhs (`fastmath` flags($fastmath))? attr-dict `:` type($result)")
_PREDICATE = OpSyntax(
    "$operand (`fastmath` flags($fastmath))? attr-dict `:` type($operand)", ("i1(operand)",)
)

OPERATIONS: dict[str, OpSyntax] = {
    **{
        f"math.{name}": _UNARY
        for name in (
            "absf", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos",
            "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "log", "log10", "log1p",
            "log2", "round", "roundeven", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
        )
    },
    **{f"math.{name}": _BINARY for name in ("atan2", "copysign", "powf")},
    **{f"math.{name}": _INTEGER_UNARY for name in ("absi", "ctlz", "ctpop", "cttz")},
    **{f"math.{name}": _PREDICATE for name in ("isfinite", "isinf", "isnan", "isnormal")},
    "math.ipowi": OpSyntax("$lhs `,` $rhs attr-dict `:` type($result)"),
    "math.fma": OpSyntax(
        "$a `,` $b `,` $c (`fastmath` flags($fastmath))? attr-dict `:` type($result)"
    ),
    "math.fpowi": OpSyntax(
        "$lhs `,` $rhs (`fastmath` flags($fastmath))? attr-dict `:` type($lhs) `,` type($rhs)",
        ("lhs",),
    ),
    "math.sincos": OpSyntax(
        "$operand (`fastmath` flags($fastmath))? attr-dict `:` type($operand)",
        ("operand", "operand"),
    ),
    "math.clampf": OpSyntax(
        "$value `to` `[` $min `,` $max `]` (`fastmath` flags($fastmath))? attr-dict `:`"
        " type($result)"
    ),
}  # fmt: skip
