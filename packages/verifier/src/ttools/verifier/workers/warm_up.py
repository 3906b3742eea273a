"""Runs a kernel before processes are forked, so that the children need not import anything.

The launch uses only the current thread, because other threads do not survive a fork.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.sanitizer.api import sanitize


@triton.jit  # type: ignore[untyped-decorator]
def _copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # a kernel
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    tl.store(y_ptr + lanes, x, mask=lanes < n)


def warm_up() -> None:
    """Launch a kernel under the checks."""
    torch.set_num_threads(1)
    with sanitize(poison=True, threads=1, first_config=True, dot="exact"):
        x = torch.zeros(8, device="cpu")
        _copy[(1,)](x, torch.empty(8, device="cpu"), 8, BLOCK=8)
