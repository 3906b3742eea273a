"""The operations of TTIR, one file per dialect, as data."""

from __future__ import annotations

from ttools.interpreter.dialects import arith, barriers, cf, llvm, math, scf, tt, ub
from ttools.interpreter.dialects.declaration import OpSyntax

OPERATIONS: dict[str, OpSyntax] = {
    name: syntax
    for dialect in (arith, barriers, cf, llvm, math, scf, tt, ub)
    for name, syntax in dialect.OPERATIONS.items()
}
"""Every operation with a declared format, by its name."""

__all__ = ["OPERATIONS", "OpSyntax"]
