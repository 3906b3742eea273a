"""The accesses to memory of a module, numbered in program order."""

from __future__ import annotations

from collections.abc import Sequence

from ttools.ir import Module, Operation
from ttools.ir.dialects.traits import READS, WRITES

#: Attribute of accesses that are known to be inside their memory, which nothing guards.
PROVED = "ttools.proved"


def accesses(module: Module) -> list[Operation]:
    """Return the operations that access memory, in the order of the module's text."""
    functions = module.functions.values()
    return [op for function in functions for op in function.walk() if op.has(READS, WRITES)]


def mark_proved(module: Module, proved: Sequence[int]) -> None:
    """Mark accesses that guards leave out.

    Args:
        proved: Their places among `accesses`.
    """
    if proved:
        found = accesses(module)
        for place in proved:
            found[place].attributes[PROVED] = True
