"""The operations of the `ttg` dialect that occur in TTIR: barriers and layout conversions.

A layout conversion does not change values, so it is declared as a view that moves no lanes.
"""

from __future__ import annotations

from ttools.ir.dialects.coordinates import same
from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.traits import BARRIER, PURE, VIEW

_BARRIER = frozenset({BARRIER})

OPERATIONS: dict[str, Op] = {
    "ttg.barrier": Op("words($addrSpace) attr-dict", (), traits=_BARRIER),
    "ttg.local_barrier": Op("attr-dict", (), traits=_BARRIER),
    # Occurs in the generic form only.
    "ttg.convert_layout": Op(operands=("src",), traits=frozenset({PURE, VIEW}), lanes=same),
}
