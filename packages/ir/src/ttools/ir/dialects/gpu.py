"""The one operation of the `gpu` dialect that TTIR holds: what older Tritons make of a barrier."""

from __future__ import annotations

from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.traits import BARRIER

OPERATIONS: dict[str, Op] = {
    "gpu.barrier": Op(
        "(`memfence` attribute($address_spaces))? attr-dict", (), traits=frozenset({BARRIER})
    ),
}
