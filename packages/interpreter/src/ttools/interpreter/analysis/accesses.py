"""The memory accesses of a module, numbered in program order."""

from __future__ import annotations

from collections.abc import Sequence

from ttools.ir import Module, Operation
from ttools.ir.dialects.traits import READS, WRITES

#: Attribute of accesses that are known to be in bounds and need no guard.
PROVED = "ttools.proved"


def accesses(module: Module) -> list[Operation]:
    """Return the operations that access memory, in the order of the module's text."""
    return [op for op in module.walk() if op.has(READS, WRITES)]


def mark_proved(module: Module, proved: Sequence[int]) -> None:
    """Mark accesses that need no guard.

    Args:
        module: The module, which is changed.
        proved: The indices of the accesses in `accesses(module)`.
    """
    if proved:
        all_accesses = accesses(module)
        for place in proved:
            all_accesses[place].attributes[PROVED] = True
