"""Functions that kernels of other modules use."""

import triton
import triton.language as tl

FACTOR = tl.constexpr(3)


@triton.jit
def tripled(x):
    return x * FACTOR


class Unwritable:
    """A class whose objects have no source text."""
