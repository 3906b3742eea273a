"""The `ub` dialect: undefined values."""

from __future__ import annotations

from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.traits import FROM_COORDINATES, PURE, TERMINATOR

OPERATIONS: dict[str, Op] = {
    "ub.poison": Op("attr-dict `:` type($result)", traits=frozenset({PURE, FROM_COORDINATES})),
    "ub.unreachable": Op("attr-dict", (), traits=frozenset({TERMINATOR})),
}
