"""The `ttg` dialect as far as TTIR holds it: barriers, and layouts that mean nothing here."""

from __future__ import annotations

from ttools.ir.dialects.coordinates import same
from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.traits import BARRIER, PURE, VIEW

_BARRIER = frozenset({BARRIER})

OPERATIONS: dict[str, Op] = {
    "ttg.barrier": Op("words($addrSpace) attr-dict", (), traits=_BARRIER),
    "ttg.local_barrier": Op("attr-dict", (), traits=_BARRIER),
    # Only ever read in the generic form.
    "ttg.convert_layout": Op(operands=("src",), traits=frozenset({PURE, VIEW}), lanes=same),
}
