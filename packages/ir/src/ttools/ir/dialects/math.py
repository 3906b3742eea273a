"""The `math` dialect: elementary functions.

The textual format of each operation is documented at
https://mlir.llvm.org/docs/Dialects/MathOps/.
"""

from __future__ import annotations

from dataclasses import replace

from ttools.ir.dialects.declaration import Invalid, Op
from ttools.ir.dialects.integers import absolute
from ttools.ir.dialects.traits import CHOOSES, ELEMENTWISE, PURE

_INTEGER_UNARY = Op("$operand attr-dict `:` type($result)")
_UNARY = Op("$operand (`fastmath` flags($fastmath))? attr-dict `:` type($result)")
_BINARY = Op("$lhs `,` $rhs (`fastmath` flags($fastmath))? attr-dict `:` type($result)")
_PREDICATE = Op(
    "$operand (`fastmath` flags($fastmath))? attr-dict `:` type($operand)", ("i1(operand)",)
)

_OPERATIONS: dict[str, Op] = {
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
    "math.ipowi": Op("$lhs `,` $rhs attr-dict `:` type($result)"),
    "math.fma": Op(
        "$a `,` $b `,` $c (`fastmath` flags($fastmath))? attr-dict `:` type($result)"
    ),
    "math.fpowi": Op(
        "$lhs `,` $rhs (`fastmath` flags($fastmath))? attr-dict `:` type($lhs) `,` type($rhs)",
        ("lhs",),
    ),
    "math.sincos": Op(
        "$operand (`fastmath` flags($fastmath))? attr-dict `:` type($operand)",
        ("operand", "operand"),
    ),
    "math.clampf": Op(
        "$value `to` `[` $min `,` $max `]` (`fastmath` flags($fastmath))? attr-dict `:`"
        " type($result)"
    ),
}  # fmt: skip

_TRAITS = frozenset({PURE, ELEMENTWISE})
#: Operations of the dialect that are not elementary functions. A GPU computes them in its
#: arithmetic or bit-manipulation units.
_PLAIN = {
    "absf", "copysign", "floor", "ceil", "trunc", "round", "roundeven", "isnan", "isinf",
    "isfinite", "isnormal", "absi", "ctlz", "ctpop", "cttz", "ipowi",
}  # fmt: skip
_INVALID: dict[str, Invalid] = {
    **dict.fromkeys(("sqrt", "rsqrt"), "root"),
    **dict.fromkeys(("log", "log2"), "logarithm"),
}


def _declared(name: str, op: Op) -> Op:
    if name == "fma":
        return replace(op, traits=_TRAITS, unit="arithmetic", operations_per_lane=2)
    if name == "clampf":
        return replace(op, traits=_TRAITS, unit="compare")
    if name == "absi":
        return replace(op, traits=_TRAITS, integer=absolute)
    traits = _TRAITS | {CHOOSES} if name in ("absf", "copysign") else _TRAITS
    return replace(
        op, traits=traits, unit="" if name in _PLAIN else "function", invalid=_INVALID.get(name, "")
    )


OPERATIONS = {name: _declared(name.removeprefix("math."), op) for name, op in _OPERATIONS.items()}
