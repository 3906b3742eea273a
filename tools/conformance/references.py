"""What the tests compare with, where torch's own CPU result is too coarse for their tolerances.

A tolerance that was chosen for a GPU presumes a reference that is nearly exact. Knows nothing of
pytest.
"""

from __future__ import annotations

import functools
from typing import Any


def make_products_exact() -> None:
    """Has `torch.matmul` of half-precision matrices on the CPU summed in double precision.

    torch sums in float32. Where the terms cancel, its result and a kernel's differ by two units in
    the last place of bfloat16, though both are as good as float32 sums can be.
    """
    import torch

    original = torch.matmul
    half = (torch.float16, torch.bfloat16)

    @functools.wraps(original)
    def matmul(left: Any, right: Any, **options: Any) -> Any:
        if left.dtype not in half or left.device.type != "cpu" or options:
            return original(left, right, **options)
        return original(left.double(), right.double()).to(left.dtype)

    setattr(torch, "matmul", matmul)  # noqa: B010 (its type differs)
