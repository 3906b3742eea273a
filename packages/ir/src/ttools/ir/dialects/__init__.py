"""Declarations of the operations of TTIR; each dialect has a file."""

from __future__ import annotations

from ttools.ir.dialects import arith, cf, gpu, llvm, math, scf, tt, ttg, ttools, ub
from ttools.ir.dialects.declaration import Op

OPERATIONS: dict[str, Op] = {
    name: op
    for dialect in (arith, cf, gpu, llvm, math, scf, tt, ttg, ttools, ub)
    for name, op in dialect.OPERATIONS.items()
}
"""All declared operations, by name."""

#: The declaration of an unknown operation. It has no traits, so passes assume any effect.
UNKNOWN = Op()


def declared(name: str) -> Op:
    """Return the declaration of an operation, or `UNKNOWN` if the operation is not declared."""
    return OPERATIONS.get(name, UNKNOWN)


__all__ = ["OPERATIONS", "UNKNOWN", "Op", "declared"]
