"""The `gpu` dialect: the barrier that older Triton versions use, its only operation in TTIR."""

from __future__ import annotations

from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.traits import BARRIER

OPERATIONS: dict[str, Op] = {
    "gpu.barrier": Op(
        "(`memfence` attribute($address_spaces))? attr-dict", (), traits=frozenset({BARRIER})
    ),
}
