"""Control flow of structured operations: which values they pass where, as data.

What MLIR's RegionBranchOpInterface says (https://mlir.llvm.org/docs/Interfaces/): values flow from
the operands of the operation or of a region's terminator to the arguments of a region or to the
results. An analysis that follows these edges knows every loop and branch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edge:
    """Values that are passed from one place to another, in order.

    Attributes:
        source: The region whose terminator passes its operands; None for the operation's own.
        target: The region whose arguments they become; None for the operation's results.
        skipped: Number of operands before those that are passed: bounds of a loop, or a condition.
        own: Number of arguments of the target before those that receive operands: the counter.
    """

    source: int | None
    target: int | None
    skipped: int = 0
    own: int = 0
