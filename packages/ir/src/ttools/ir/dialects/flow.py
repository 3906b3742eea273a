"""Edges along which loops and conditionals pass values.

They correspond to MLIR's RegionBranchOpInterface (https://mlir.llvm.org/docs/Interfaces/): values
flow from the operands of the operation, or of a region's terminator, to the arguments of a region
or to the results. An analysis that follows these edges supports every structured operation.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of control flow, along which operands become arguments or results, in order.

    Attributes:
        source: Index of the region whose terminator's operands are passed; None if the operands of
            the operation are passed.
        target: Index of the region whose arguments receive the operands; None if the results of the
            operation receive them.
        skipped: Number of leading operands that are not passed, such as the bounds of a loop or a
            condition.
        own: Number of leading arguments that receive no operand, such as the counter of a loop.
    """

    source: int | None
    target: int | None
    skipped: int = 0
    own: int = 0
