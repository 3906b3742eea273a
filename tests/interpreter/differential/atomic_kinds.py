"""Atomic operations as NumPy functions of memory and operand, for arrays and scalars."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from number_formats import Array


def on_bits(combine: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Return a function that combines the bits of arrays, or of scalars, of any type."""

    def combined(a: Array, b: Array) -> Array:
        bits = f"u{np.asarray(a).dtype.itemsize}"
        x, y = (np.asarray(v)[None].view(bits) for v in (a, b))
        return np.asarray(combine(x, y).view(np.asarray(a).dtype)[0])

    return combined


KINDS: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda a, b: a + b,
    "max": np.maximum,
    "min": np.minimum,
    "and": on_bits(np.bitwise_and),
    "or": on_bits(np.bitwise_or),
    "xor": on_bits(np.bitwise_xor),
    "xchg": lambda a, b: b,
}
