"""Counts launches by running the rewritten kernel; equal launches are counted once.

Must not know what counts are used for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary

from ttools.core.errors import UnsupportedError
from ttools.core.sources import fingerprint
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.abi.region import ANYWHERE, NOWHERE, region_of
from ttools.interpreter.ir import Module
from ttools.interpreter.ir.inlining import inline_calls
from ttools.interpreter.run.observation import ObservedLaunch
from ttools.interpreter.run.variants import Variants
from ttools.interpreter.runtime.monitor import Monitor
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.profiler.access.trace import Traffic, traffic
from ttools.profiler.counting.counts import LaunchCounts, evaluate
from ttools.profiler.counting.decisive import Decisive, decisive_of
from ttools.profiler.counting.rewrite import CountingPlan, Kind, plan_counting
from ttools.profiler.counting.traffic import rewrite_accesses

#: Names of the rewrites in the cache of compiled kernels, see `_named`.
_COUNT, _TRAFFIC, _WHOLE = "count", "traffic", "count all"


class LaunchCounter:
    """Counts what launches do, before they do it."""

    def __init__(self) -> None:
        self._plans: WeakKeyDictionary[Variants, CountingPlan] = WeakKeyDictionary()
        self._known: WeakKeyDictionary[Variants, dict[object, LaunchCounts]] = WeakKeyDictionary()
        self._decisive: WeakKeyDictionary[Variants, Decisive | None] = WeakKeyDictionary()

    def count(self, launch: ObservedLaunch) -> LaunchCounts:
        """The counts of a launch; memory is read, if at all, and left as it is.

        What a launch does is remembered, see `kind`, unless it depends on what is in memory.

        Raises:
            UnsupportedError: the kernel cannot be emitted.
        """
        plan = self._plan(launch.variants)
        known = self._known.setdefault(launch.variants, {})
        key = self.kind(launch)
        decides = self._decides(launch.variants)
        by_memory = plan.reads or decides is None or decides.memory
        if not by_memory and key in known:
            return known[key]
        counts = self._whole(launch) if plan.depends_on_writes else self._reduced(launch, plan)
        known[key] = counts = replace(counts, depends_on_memory=by_memory)
        return counts

    def kind(self, launch: ObservedLaunch) -> tuple[object, ...]:
        """Equal for launches of a kernel that do the same, but for what depends on memory.

        The grid, the numbers that matter, and which of the pointers are equal.
        """
        decides = self._decides(launch.variants)
        pointers = launch.plan.pointers
        raw = launch.raw_parameters
        matters = range(len(raw)) if decides is None else decides.numbers
        alike = pointers if decides is None else decides.alike
        addresses = [raw[i] for i in sorted(alike)]
        numbers = tuple(raw[i] for i in matters if i not in pointers)
        return tuple(launch.grid), numbers, tuple(map(addresses.index, addresses))

    def _decides(self, variants: Variants) -> Decisive | None:
        if variants not in self._decisive:
            self._decisive[variants] = decisive_of(variants.ttir)
        return self._decisive[variants]

    def _plan(self, variants: Variants) -> CountingPlan:
        plan = self._plans.get(variants)
        if plan is None:
            plan = self._plans[variants] = _rewrite(variants.parse(), whole=False)
        return plan

    def _reduced(self, launch: ObservedLaunch, plan: CountingPlan) -> LaunchCounts:
        instruments = Instruments(guards=True, rewrites=_named(_COUNT))
        monitor = _observe(launch, instruments, lambda module: _rewrite(module, whole=False))
        return evaluate(plan, _counters(monitor, plan), self._traffic(launch))

    def _whole(self, launch: ObservedLaunch) -> LaunchCounts:
        """Runs the whole kernel on memory that is put back."""
        written = launch.written_storages
        if written is None:
            raise UnsupportedError("counting a kernel that stores through pointers from memory")
        plan = _rewrite(launch.variants.parse(), whole=True)
        own = replace(launch, facts=replace(launch.facts, readonly=frozenset()))
        instruments = Instruments(guards=True, footprints=True, rewrites=_named(_WHOLE))
        before = Snapshot(written)
        try:
            monitor = _observe(own, instruments, lambda module: _rewrite(module, whole=True))
        finally:
            before.restore()
        return evaluate(plan, _counters(monitor, plan), traffic(monitor))

    def _traffic(self, launch: ObservedLaunch) -> Traffic:
        stand_ins: list[dict[int, Kind]] = []

        def rewrite(module: Module) -> None:
            inline_calls(module)
            stand_ins.append(rewrite_accesses(module))

        # All memory leaves footprints, not only what the launch writes.
        facts = replace(launch.facts, readonly=frozenset())
        own = replace(launch, facts=facts)
        instruments = Instruments(guards=True, footprints=True, rewrites=_named(_TRAFFIC))
        monitor = _observe(own, instruments, rewrite)
        if not stand_ins:  # the kernel was in the cache
            rewrite(launch.variants.parse())
        return traffic(monitor, stand_ins[0])


def _named(rewrite: str) -> tuple[str, str]:
    """Names a rewrite and the code that makes it: what is compiled is cached by both."""
    return rewrite, fingerprint("ttools.profiler")


def _observe(
    launch: ObservedLaunch, instruments: Instruments, rewrite: Callable[[Module], object]
) -> Monitor:
    """Runs a rewritten launch once; lanes outside the tensors are left out."""
    own = replace(launch)
    regions = [
        (region_of(argument, value, judges_view=False) or ANYWHERE)
        if index in launch.plan.pointers
        else NOWHERE
        for index, (argument, value) in enumerate(zip(launch.arguments, launch.values, strict=True))
    ]
    own.execute(instruments, regions=regions, rewrite=lambda module: (rewrite(module), None)[1])
    assert own.monitor is not None
    return own.monitor


def _counters(monitor: Monitor, plan: CountingPlan) -> list[int]:
    counters = [0] * plan.counters
    for number, site in enumerate(monitor.sites):
        number_of_counter = dict(site.attributes).get("count")
        if number_of_counter is not None:
            counters[int(number_of_counter)] += monitor.lanes(number)
    return counters


def _rewrite(module: Module, *, whole: bool) -> CountingPlan:
    remaining = [f"a recursive call at {op.location}" for op in inline_calls(module)]
    plan = plan_counting(module, whole=whole)
    plan.unsupported += remaining
    return plan
