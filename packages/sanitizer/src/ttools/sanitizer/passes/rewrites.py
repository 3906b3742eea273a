"""The passes that rewrite a kernel for one launch, and the key under which the result is cached."""

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

#: The name of a check, and a sentence about something that it could not check.
Unchecked: TypeAlias = "tuple[str, Note]"


@dataclass(frozen=True, eq=False)
class Pass:
    """A pass with the parameters that the launch determines.

    Attributes:
        check: Name of the check to which the pass belongs.
        name: Key under which rewritten kernels are cached. Passes that rewrite kernels differently
            have different keys; the source code of a pass need not be part of the key.
        apply: Rewrites a module without calls, and returns notes on what it cannot check.
    """

    check: str
    name: str
    apply: Callable[[Module], list[Note]]


class Rewrites:
    """The passes of one launch, in order.

    Args:
        passes: The passes; empty if no check needs one.
        inlines: If True, calls are inlined even without passes.

    Attributes:
        unchecked: Operations that the passes could not check; None before they are applied.
    """

    def __init__(self, passes: Sequence[Pass] = (), *, inlines: bool = False) -> None:
        self.passes = tuple(passes)
        self._inlines = inlines
        self.unchecked: list[Unchecked] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the cache key of the rewritten kernel, which is empty if nothing is rewritten."""
        names = [rewrite.name for rewrite in self.passes] or ["calls"] * self._inlines
        return (*names, fingerprint("ttools.sanitizer")) if names else ()

    def apply(self, module: Module) -> None:
        calls = [Note(op.location, "a call that cannot be inlined") for op in inline_calls(module)]
        unchecked = [(rewrite.check, call) for rewrite in self.passes for call in calls]
        for rewrite in self.passes:
            tick()
            unchecked += [(rewrite.check, note) for note in rewrite.apply(module)]
        self.unchecked = unchecked
