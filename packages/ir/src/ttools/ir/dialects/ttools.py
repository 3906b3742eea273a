"""The `ttools` dialect: operations that ttools inserts into a kernel to observe it."""

from __future__ import annotations

from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.traits import EFFECT, PURE

_OBSERVES = frozenset({EFFECT})

#: Attribute of waiting loops that have a timeout and therefore cannot deadlock.
TIMED = "ttools.timed"

OPERATIONS: dict[str, Op] = {
    "ttools.check": Op(operands=("condition", "values"), traits=_OBSERVES),
    "ttools.count": Op(operands=("condition",), traits=_OBSERVES),
    #: Marks the creation of a tensor descriptor; `extents` are its shape, then its strides.
    "ttools.descriptor": Op(operands=("base", "extents"), traits=frozenset({PURE})),
    #: Reads a monotonic clock, in nanoseconds.
    "ttools.nanoseconds": Op(traits=_OBSERVES),
    "ttools.watch": Op(operands=("value", "mask"), traits=_OBSERVES),
}
