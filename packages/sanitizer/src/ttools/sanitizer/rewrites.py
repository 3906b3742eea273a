"""Which passes rewrite a kernel for one launch, and under which names the result is cached.

Passes cost compile time and run time, so only those are chosen that what is known of the launch
leaves something to find: an offset that may wrap, a lane that may be undefined. Must not know what
the passes do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from weakref import WeakKeyDictionary

from ttools.core.location import SourceLocation
from ttools.interpreter.backend.variants import Variants
from ttools.interpreter.inlining import inline_calls
from ttools.interpreter.ir import IntegerType, Module, as_signed
from ttools.interpreter.observation import ObservedLaunch
from ttools.sanitizer.argument_promises import ArgumentPromise, argument_promises
from ttools.sanitizer.passes import hints, numeric, overflow, undefined
from ttools.sanitizer.passes.check import Note
from ttools.sanitizer.passes.shadow_memory import hidden_parameters
from ttools.sanitizer.pointer_tables import Place, place_of, pointer_tables

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
    """

    passes: tuple[Pass, ...] = ()
    tracked: frozenset[int] = frozenset()

    @property
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
        self._promises: WeakKeyDictionary[Variants, Sequence[ArgumentPromise]]
        self._promises = WeakKeyDictionary()
        self._tables: WeakKeyDictionary[Variants, Mapping[Place, int]] = WeakKeyDictionary()
        self._hinted: WeakKeyDictionary[Variants, bool] = WeakKeyDictionary()
        self._notes: WeakKeyDictionary[Variants, dict[tuple[str, ...], list[Unjudged]]]
        self._notes = WeakKeyDictionary()

    def reads(self, launch: ObservedLaunch) -> frozenset[int]:
        """The parameters through which the launch's kernel may read memory."""
        known = self._reads.get(launch.variants)
        if known is None:
            module = self._inlined(launch.variants)
            known = self._reads[launch.variants] = undefined.reads(module)
        return known

    def promises(self, launch: ObservedLaunch) -> Sequence[ArgumentPromise]:
        """What the launch's kernel says of its arguments."""
        known = self._promises.get(launch.variants)
        if known is None:
            function = getattr(launch.function, "fn", None)
            around = getattr(function, "__globals__", {})
            known = argument_promises(self._inlined(launch.variants), launch.names, around)
            self._promises[launch.variants] = known
        return known

    def table_of(self, launch: ObservedLaunch, location: SourceLocation | None) -> int:
        """The parameter that an access at some place loads its pointer from; -1 if unknown."""
        known = self._tables.get(launch.variants)
        if known is None:
            known = self._tables[launch.variants] = pointer_tables(self._inlined(launch.variants))
        place = place_of(location)
        return -1 if place is None else known.get(place, -1)

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
        # Candidates are positions in the kernel as it was, so this pass is the first.
        if "overflow" in checks:
            found = self._candidates(launch, module)
            if found:
                name = ",".join(f"{position}:{bits}" for position, bits in sorted(found))
                passes.append(
                    Pass("overflow", f"overflow {name}", lambda m: overflow.apply(m, found))
                )
        if "hints" in checks and self._is_hinted(launch.variants, module):
            passes.append(Pass("hints", "hints", hints.apply))
        if "initcheck" not in checks:
            tracked = frozenset()
        elif tracked or undefined.may_report(module):
            name = f"undefined {sorted(tracked)} {sorted(carriers)}"
            passes.append(Pass("initcheck", name, lambda m: undefined.apply(m, tracked, carriers)))
        if "numeric" in checks:
            passes.append(Pass("numeric", "numeric", numeric.apply))
        return Rewrites(tuple(passes), tracked)

    def rewrite(self, launch: ObservedLaunch, rewrites: Rewrites, module: Module) -> None:
        """Applies the passes of a launch to its kernel."""
        known = self._notes.setdefault(launch.variants, {})
        known[rewrites.names] = rewrites.apply(module)

    def notes(self, launch: ObservedLaunch, rewrites: Rewrites) -> Sequence[Unjudged]:
        """What the passes cannot judge in the launch's kernel."""
        if not rewrites.passes:
            return ()
        known = self._notes.setdefault(launch.variants, {})
        if rewrites.names not in known:  # native code came from the cache
            self.rewrite(launch, rewrites, launch.variants.parse())
        return known[rewrites.names]

    def _is_hinted(self, variants: Variants, module: Module) -> bool:
        known = self._hinted.get(variants)
        if known is None:
            known = self._hinted[variants] = hints.may_report(module)
        return known

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
