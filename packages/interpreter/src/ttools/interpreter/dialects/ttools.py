"""Operations of our own: what passes put into a kernel to observe it."""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import Op
from ttools.interpreter.dialects.traits import EFFECT

_OBSERVES = frozenset({EFFECT})

OPERATIONS: dict[str, Op] = {
    "ttools.check": Op(operands=("condition", "values"), traits=_OBSERVES),
    "ttools.count": Op(operands=("condition",), traits=_OBSERVES),
    "ttools.watch": Op(operands=("value", "mask"), traits=_OBSERVES),
}
