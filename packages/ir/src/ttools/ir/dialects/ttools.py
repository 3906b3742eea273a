"""Operations of our own: what is put into a kernel to observe it."""

from __future__ import annotations

from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.traits import EFFECT, PURE

_OBSERVES = frozenset({EFFECT})

#: An attribute of waiting loops that end when their time is over, so that none is a deadlock.
TIMED = "ttools.timed"

OPERATIONS: dict[str, Op] = {
    "ttools.check": Op(operands=("condition", "values"), traits=_OBSERVES),
    "ttools.count": Op(operands=("condition",), traits=_OBSERVES),
    #: A tensor descriptor was made here: base, then shape and strides, each of its rank.
    "ttools.descriptor": Op(operands=("base", "extents"), traits=frozenset({PURE})),
    #: Nanoseconds of a clock that never goes back.
    "ttools.nanoseconds": Op(traits=_OBSERVES),
    "ttools.watch": Op(operands=("value", "mask"), traits=_OBSERVES),
}
