"""The operations of TTIR, one file per dialect, as data."""

from __future__ import annotations

from ttools.ir.dialects import arith, cf, gpu, llvm, math, scf, tt, ttg, ttools, ub
from ttools.ir.dialects.declaration import Op

OPERATIONS: dict[str, Op] = {
    name: op
    for dialect in (arith, cf, gpu, llvm, math, scf, tt, ttg, ttools, ub)
    for name, op in dialect.OPERATIONS.items()
}
"""Every operation that is known, by its name."""

#: What is not known may do anything.
UNKNOWN = Op()


def declared(name: str) -> Op:
    """Return the declaration of an operation; `UNKNOWN`, which has no trait, if there is none."""
    return OPERATIONS.get(name, UNKNOWN)


__all__ = ["OPERATIONS", "UNKNOWN", "Op", "declared"]
