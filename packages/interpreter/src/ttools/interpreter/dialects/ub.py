"""The `ub` dialect: undefined values."""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import OpSyntax

OPERATIONS: dict[str, OpSyntax] = {
    "ub.poison": OpSyntax("attr-dict `:` type($result)"),
    "ub.unreachable": OpSyntax("attr-dict", ()),
}
