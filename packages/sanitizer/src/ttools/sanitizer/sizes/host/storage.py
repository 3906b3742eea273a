"""What phantom tensors that share memory have in common, and formulas of what it holds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Final

import torch

from ttools.sanitizer.sizes.algebra.polynomials import (
    SIZE,
    Poly,
    Symbol,
)

#: Stands for the number of an element in its storage, in formulas of contents.
INDEX: Final = Symbol("index", "index", SIZE)
_numbers = itertools.count()


@dataclass(eq=False)
class Storage:
    """What tensors that share memory have in common.

    Attributes:
        elements: how many there are.
        dtype: of each.
        content: of element `INDEX`, if it is an integer that is known.
        value: of all elements, if they are the same float.
        random: whether elements differ as random ones do.
        number: of the storage in its run.
    """

    elements: Poly
    dtype: torch.dtype
    content: Poly | None = None
    value: float | None = None
    random: bool = False
    number: int = field(default_factory=lambda: next(_numbers))

    def forget(self) -> None:
        """Something was written: nothing is known of what it holds."""
        self.content = self.value = None
        self.random = False


def is_constant(content: Poly | None) -> bool:
    """Whether all elements are known to be the same."""
    return content is not None and INDEX not in content.base_symbols()
