"""Which passes rewrite a kernel for one launch.

Passes cost compile time and run time, so only those are chosen that what is known of the launch
leaves something to find: an offset that may wrap, a lane that may be undefined. Must not know what
the passes do.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from ttools.core.location import SourceLocation
from ttools.interpreter.backend.variants import Variants
from ttools.interpreter.ir import Module
from ttools.interpreter.observation import ObservedLaunch
from ttools.interpreter.region import Region
from ttools.sanitizer.analysis.index_loads import IndexLoad
from ttools.sanitizer.analysis.known_kernel import KnownKernel
from ttools.sanitizer.analysis.pointer_tables import place_of
from ttools.sanitizer.analysis.weak_atomics import WeakAtomic
from ttools.sanitizer.hints.arguments import ArgumentPromise
from ttools.sanitizer.passes import hints, numeric, overflow, undefined
from ttools.sanitizer.passes.rewrites import Pass, Rewrites, Unjudged


class Planner:
    """Chooses passes, and remembers what it chose for equal launches."""

    def __init__(self) -> None:
        self._kernels: WeakKeyDictionary[Variants, KnownKernel] = WeakKeyDictionary()
        self._latest: tuple[weakref.ref[Variants], KnownKernel] | None = None

    def reads(self, launch: ObservedLaunch) -> frozenset[int]:
        """The parameters through which the launch's kernel may read memory."""
        return self._kernel(launch).reads

    def follows_addresses(self, launch: ObservedLaunch) -> bool:
        """Whether the launch's kernel accesses memory by pointers that it loads or computes."""
        return self._kernel(launch).follows_addresses

    def regions(self, launch: ObservedLaunch, find: Callable[[int], Region]) -> Sequence[Region]:
        """The memory of the launch's parameters; see `KnownRegions`."""
        return self._kernel(launch).regions.regions(launch, find)

    def waits(self, launch: ObservedLaunch) -> bool:
        """Whether the programs of the launch may wait for each other."""
        return self._kernel(launch).waits

    def promises(self, launch: ObservedLaunch) -> Sequence[ArgumentPromise]:
        """What the launch's kernel says of its arguments."""
        return self._kernel(launch).promises(launch.names, partial(_known_names, launch))

    def table_of(self, launch: ObservedLaunch, location: SourceLocation | None) -> int:
        """The parameter that an access at some place loads its pointer from; -1 if unknown."""
        place = place_of(location)
        return -1 if place is None else self._kernel(launch).tables.get(place, -1)

    def index_of(self, launch: ObservedLaunch, location: SourceLocation | None) -> IndexLoad | None:
        """The load of numbers that the address of an access at some place is made of."""
        place = place_of(location)
        return None if place is None else self._kernel(launch).index_loads.get(place)

    def unused_loads(self, launch: ObservedLaunch) -> Sequence[SourceLocation]:
        """The loads that no check sees, for Triton left them out."""
        return self._kernel(launch).unused_loads

    def weak_atomics(self, launch: ObservedLaunch) -> Sequence[WeakAtomic]:
        """The atomics of the launch's kernel that order less than it seems."""
        return self._kernel(launch).weak_atomics

    def plan(
        self,
        launch: ObservedLaunch,
        checks: frozenset[str],
        tracked: frozenset[int],
        carriers: frozenset[int],
        by_address: bool = False,
    ) -> Rewrites:
        """The passes for one launch.

        Args:
            checks: names of the checks wanted.
            tracked: pointer parameters whose storages have undefined bytes that may be read.
            carriers: other parameters whose storages may keep undefined elements.
            by_address: whether there are further storages with undefined bytes, and the kernel
                follows addresses.
        """
        kernel = self._kernel(launch)
        if not (checks & _REWRITING or kernel.calls):
            return _AS_IT_IS
        found: frozenset[overflow.Candidate] = frozenset()
        if "overflow" in checks:
            grid = tuple((*map(int, launch.grid), 1, 1, 1)[:3])
            found = kernel.candidates(launch.raw_parameters, grid)
        decided = checks, found, tracked, carriers, by_address
        rewrites = kernel.rewrites.get(decided)
        if rewrites is None:
            rewrites = kernel.rewrites[decided] = _choose(kernel, *decided)
        return rewrites

    def rewrite(self, launch: ObservedLaunch, rewrites: Rewrites, module: Module) -> None:
        """Applies the passes of a launch to its kernel."""
        self._kernel(launch).notes[rewrites.names] = rewrites.apply(module)

    def notes(self, launch: ObservedLaunch, rewrites: Rewrites) -> Sequence[Unjudged]:
        """What the passes cannot judge in the launch's kernel."""
        if not rewrites.passes:
            return ()
        notes = self._kernel(launch).notes
        if rewrites.names not in notes:  # native code came from the cache
            self.rewrite(launch, rewrites, launch.variants.parse())
        return notes[rewrites.names]

    def _kernel(self, launch: ObservedLaunch) -> KnownKernel:
        latest = self._latest
        if latest is not None and latest[0]() is launch.variants:
            return latest[1]
        kernel = self._kernels.get(launch.variants)
        if kernel is None:
            kernel = self._kernels[launch.variants] = KnownKernel(launch.variants)
        self._latest = weakref.ref(launch.variants), kernel
        return kernel


def _known_names(launch: ObservedLaunch) -> Mapping[str, object]:
    """What names in the kernel's source mean that are none of its run-time parameters."""
    known = dict(getattr(getattr(launch.function, "fn", None), "__globals__", {}))
    names = getattr(getattr(launch.source, "fn", None), "arg_names", ())
    for path, value in getattr(launch.source, "constants", {}).items():
        index, *inside = path if isinstance(path, tuple) else (path,)
        if not inside and index < len(names):
            known[names[index]] = value
    return known


#: Checks that may put something into kernels.
_REWRITING = frozenset({"overflow", "hints", "initcheck", "numeric"})
_AS_IT_IS = Rewrites()


def _choose(
    kernel: KnownKernel,
    checks: frozenset[str],
    found: frozenset[overflow.Candidate],
    tracked: frozenset[int],
    carriers: frozenset[int],
    by_address: bool,
) -> Rewrites:
    passes: list[Pass] = []
    # Candidates are positions in the kernel as it was, so this pass is the first.
    if found:
        name = ",".join(f"{position}:{bits}" for position, bits in sorted(found))
        passes.append(Pass("overflow", f"overflow {name}", lambda m: overflow.apply(m, found)))
    if "hints" in checks and kernel.is_hinted:
        passes.append(Pass("hints", "hints", hints.apply))
    if "initcheck" not in checks:
        tracked, by_address = frozenset(), False
    elif tracked or by_address or kernel.has_undefined_lanes:
        name = f"undefined {sorted(tracked)} {sorted(carriers)} {by_address}"
        apply = partial(undefined.apply, tracked=tracked, carriers=carriers, by_address=by_address)
        passes.append(Pass("initcheck", name, apply))
    if "numeric" in checks:
        passes.append(Pass("numeric", "numeric", numeric.apply))
    if kernel.calls and not passes:
        # Of an access in a callee nobody knows from which parameter its pointer comes.
        passes.append(Pass("memcheck", "calls", lambda m: []))
    return Rewrites(tuple(passes), tracked, by_address)
