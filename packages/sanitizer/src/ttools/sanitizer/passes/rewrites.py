"""The passes that rewrite a kernel, and under which names the result is cached.

Must not know what the passes do, nor which a launch needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeAlias

from ttools.interpreter.inlining import inline_calls
from ttools.interpreter.ir import Module
from ttools.sanitizer.passes.check import Note
from ttools.sanitizer.passes.shadow_memory import hidden_parameters

#: The name of a check, and what it has left out.
Unjudged: TypeAlias = "tuple[str, Note]"


@dataclass(frozen=True)
class Pass:
    """A pass with the parameters that the launch decides.

    Attributes:
        check: whose pass it is.
        name: tells it from all others, so that rewritten kernels can be cached.
        apply: rewrites a module without calls; returns what it cannot judge.
    """

    check: str
    name: str
    apply: Callable[[Module], list[Note]]


@dataclass(frozen=True)
class Rewrites:
    """The passes of one launch, in their order.

    Attributes:
        passes: none where there is nothing to find.
        tracked: parameters for which the kernel gets hidden ones.
        by_address: whether it gets some for memory that is found by address.
    """

    passes: tuple[Pass, ...] = ()
    tracked: frozenset[int] = frozenset()
    by_address: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What names the rewritten kernel; empty where it stays as it is."""
        return (*(p.name for p in self.passes), _fingerprint()) if self.passes else ()

    def apply(self, module: Module) -> list[Unjudged]:
        """Rewrites a module in place; returns what could not be judged, and by which check."""
        calls = [Note(op.location, "a call that cannot be inlined") for op in inline_calls(module)]
        notes = [(each.check, call) for each in self.passes for call in calls]
        for each in self.passes:
            notes += [(each.check, note) for note in each.apply(module)]
        return notes

    @cached_property
    def hidden(self) -> tuple[tuple[int, str], ...]:
        """The hidden parameters; see `shadow_memory.hidden_parameters`."""
        return hidden_parameters(self.tracked, self.by_address)


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    """Of the passes' source: what they make of a kernel changes with it."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
