"""The passes that rewrite a kernel for one launch, and the names under which the result is cached.

Must not know what the passes do, nor which ones a launch needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from ttools.core.process.phases import tick
from ttools.core.sources import fingerprint
from ttools.ir import Module
from ttools.ir.inlining import inline_calls
from ttools.sanitizer.passes.check import Note

#: The name of a check, and what it has left out.
Unchecked: TypeAlias = "tuple[str, Note]"


@dataclass(frozen=True, eq=False)
class Pass:
    """A pass with the parameters that the launch decides.

    Attributes:
        name: distinguishes it from all others, so that rewritten kernels can be cached. The source
            of the passes in this folder need not be part of it.
        apply: rewrites a module without calls; returns what it cannot check.
    """

    check: str
    name: str
    apply: Callable[[Module], list[Note]]


class Rewrites:
    """The passes of one launch, in their order.

    Args:
        passes: none where there is nothing to find.
        inlines: whether calls are inlined even so.

    Attributes:
        unchecked: what the passes could not check, once they were applied.
    """

    def __init__(self, passes: Sequence[Pass] = (), *, inlines: bool = False) -> None:
        self.passes = tuple(passes)
        self._inlines = inlines
        self.unchecked: list[Unchecked] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What names the rewritten kernel, passes and their code; empty where it stays as it is."""
        names = [each.name for each in self.passes] or ["calls"] * self._inlines
        return (*names, fingerprint("ttools.sanitizer")) if names else ()

    def apply(self, module: Module) -> None:
        calls = [Note(op.location, "a call that cannot be inlined") for op in inline_calls(module)]
        unchecked = [(each.check, call) for each in self.passes for call in calls]
        for each in self.passes:
            tick()
            unchecked += [(each.check, note) for note in each.apply(module)]
        self.unchecked = unchecked
