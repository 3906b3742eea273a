"""Which passes rewrite a kernel for one launch, and under which names the result is cached.

Passes cost compile time and run time, so only those are chosen that what is known of the launch
leaves something to find: an offset that may wrap, a lane that may be undefined. Must not know what
the passes do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from weakref import WeakKeyDictionary

from ttools.interpreter.backend.variants import Variants
from ttools.interpreter.inlining import inline_calls
from ttools.interpreter.ir import IntegerType, Module, as_signed
from ttools.interpreter.observation import ObservedLaunch
from ttools.sanitizer.passes import overflow, undefined
from ttools.sanitizer.passes.check import Note
from ttools.sanitizer.passes.shadow_memory import hidden_parameters


@dataclass(frozen=True)
class Pass:
    """A pass with the parameters that the launch decides.

    Attributes:
        name: tells it from all others, so that rewritten kernels can be cached.
        apply: rewrites a module without calls; returns what it cannot judge.
    """

    name: str
    apply: Callable[[Module], list[Note]]


@dataclass(frozen=True)
class Rewrites:
    """The passes of one launch, in their order.

    Attributes:
        passes: none where there is nothing to find.
        tracked: parameters for which the kernel gets hidden ones.
    """

    passes: tuple[Pass, ...] = ()
    tracked: frozenset[int] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """What names the rewritten kernel; empty where it stays as it is."""
        return (*(p.name for p in self.passes), _fingerprint()) if self.passes else ()

    def apply(self, module: Module) -> list[Note]:
        """Rewrites a module in place; returns what could not be judged."""
        notes = [Note(op.location, "a recursive call") for op in inline_calls(module)]
        for each in self.passes:
            notes += each.apply(module)
        return notes

    @property
    def hidden(self) -> tuple[tuple[int, str], ...]:
        """The hidden parameters; see `shadow_memory.hidden_parameters`."""
        return hidden_parameters(self.tracked)


class Planner:
    """Chooses passes, and remembers what it chose for equal launches."""

    def __init__(self) -> None:
        self._modules: WeakKeyDictionary[Variants, Module] = WeakKeyDictionary()
        self._reads: WeakKeyDictionary[Variants, frozenset[int]] = WeakKeyDictionary()
        self._overflows: WeakKeyDictionary[Variants, dict[object, frozenset[overflow.Candidate]]]
        self._overflows = WeakKeyDictionary()
        self._notes: WeakKeyDictionary[Variants, dict[tuple[str, ...], list[Note]]]
        self._notes = WeakKeyDictionary()

    def reads(self, launch: ObservedLaunch) -> frozenset[int]:
        """The parameters through which the launch's kernel may read memory."""
        known = self._reads.get(launch.variants)
        if known is None:
            module = self._inlined(launch.variants)
            known = self._reads[launch.variants] = undefined.reads(module)
        return known

    def plan(
        self,
        launch: ObservedLaunch,
        checks: frozenset[str],
        tracked: frozenset[int],
        carriers: frozenset[int],
    ) -> Rewrites:
        """The passes for one launch.

        Args:
            checks: names of the checks wanted.
            tracked: pointer parameters whose storages have undefined bytes that may be read.
            carriers: other parameters whose storages may keep undefined elements.
        """
        module = self._inlined(launch.variants)
        passes: list[Pass] = []
        if "overflow" in checks:
            found = self._candidates(launch, module)
            if found:
                name = ",".join(f"{position}:{bits}" for position, bits in sorted(found))
                passes.append(Pass(f"overflow {name}", lambda m: overflow.apply(m, found)))
        if "initcheck" not in checks:
            tracked = frozenset()
        elif tracked or undefined.may_report(module):
            name = f"undefined {sorted(tracked)} {sorted(carriers)}"
            passes.append(Pass(name, lambda m: undefined.apply(m, tracked, carriers)))
        return Rewrites(tuple(passes), tracked)

    def notes(self, launch: ObservedLaunch, rewrites: Rewrites) -> Sequence[Note]:
        """What the passes cannot judge in the launch's kernel."""
        if not rewrites.passes:
            return ()
        known = self._notes.setdefault(launch.variants, {})
        found = known.get(rewrites.names)
        if found is None:
            found = known[rewrites.names] = rewrites.apply(launch.variants.parse())
        return found

    def _inlined(self, variants: Variants) -> Module:
        module = self._modules.get(variants)
        if module is None:
            module = self._modules[variants] = variants.parse()
            inline_calls(module)
        return module

    def _candidates(self, launch: ObservedLaunch, module: Module) -> frozenset[overflow.Candidate]:
        arguments = module.kernel.regions[0].entry.arguments
        raw = launch.raw_parameters
        scalars = {
            n: as_signed(raw[n] & ((1 << value.type.width) - 1), value.type.width)
            for n, value in enumerate(arguments)
            if isinstance(value.type, IntegerType)
        }
        grid = tuple((*map(int, launch.grid), 1, 1, 1)[:3])
        known = self._overflows.setdefault(launch.variants, {})
        key = (grid, tuple(scalars.values()))
        found = known.get(key)
        if found is None:
            found = known[key] = overflow.find(module, scalars, grid)
        return found


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    """Of the passes' source: what they make of a kernel changes with it."""
    digest = hashlib.sha256()
    for path in sorted((Path(__file__).parent / "passes").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
