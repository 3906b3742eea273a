"""Counts launches by running the rewritten kernel; equal launches are counted once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from weakref import WeakKeyDictionary

from ttools.core.errors import UnsupportedError
from ttools.core.sources import fingerprint
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.run.variants import Variants
from ttools.interpreter.runtime.monitor import Monitor
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.ir import Module
from ttools.ir.inlining import inline_calls
from ttools.ir.parser import parse_module
from ttools.profiler.access.trace import traffic
from ttools.profiler.counting.counts import WorkCounts, evaluate
from ttools.profiler.counting.rewrite import (
    CountingPlan,
    StandIns,
    elements_of_atomics,
    plan_counting,
    replace_accesses,
)
from ttools.profiler.counting.work_parameters import Decisive, decisive_of


class _Kernel:
    """A kernel with the counts of its launches.

    Attributes:
        decides: Parameters and memory that determine the work of a launch; None if they are
            unknown.
        counts: Work of launches, by the kind of the launch.
    """

    def __init__(self, variants: Variants) -> None:
        self._ttir = variants.ttir
        self.decides: Decisive | None = decisive_of(variants.ttir)
        self.counts: dict[object, WorkCounts] = {}

    @cached_property
    def plan(self) -> CountingPlan:
        return _plan(parse_module(self._ttir), whole=False)


class WorkCounter:
    """Counts launches before they run."""

    def __init__(self) -> None:
        self._kernels: WeakKeyDictionary[Variants, _Kernel] = WeakKeyDictionary()

    def count(self, launch: KernelLaunch) -> WorkCounts:
        """Return the work of a launch; memory is left unchanged.

        The result is cached for launches of the same kind (see `kind`), unless it depends on
        memory.

        Raises:
            UnsupportedError: The kernel cannot be emitted.
        """
        kernel, key = self._of(launch.kernel.variants), self.kind(launch)
        plan, decides = kernel.plan, kernel.decides
        by_memory = plan.reads or decides is None or decides.memory
        if not by_memory and key in kernel.counts:
            return kernel.counts[key]
        counts = _whole(launch) if plan.depends_on_writes else _reduced(launch, plan)
        kernel.counts[key] = counts = replace(counts, depends_on_memory=by_memory)
        return counts

    def prepare(self, launch: KernelLaunch) -> None:
        """Compile the counting kernel of a launch without running it.

        Raises:
            UnsupportedError: The kernel cannot be emitted.
        """
        plan = self._of(launch.kernel.variants).plan
        name, rewrite = _whole_rewrite() if plan.depends_on_writes else _reduced_rewrite(plan, [])
        launch.treating_memory_as_written().native(_instruments(name), _in_place(rewrite))

    def kind(self, launch: KernelLaunch) -> tuple[object, ...]:
        """Return a key that is equal for launches of a kernel with equal work.

        The key consists of the grid, the scalar arguments that affect the work, and which pointers
        are equal. If the work depends on memory, the work of launches with equal keys can still
        differ.
        """
        decides = self._of(launch.kernel.variants).decides
        pointers = launch.kernel.plan.pointers
        raw = launch.raw_parameters
        matters = range(len(raw)) if decides is None else decides.numbers
        alike = pointers if decides is None else decides.alike
        addresses = [raw[i] for i in sorted(alike)]
        numbers = tuple(raw[i] for i in matters if i not in pointers)
        return tuple(launch.grid), numbers, tuple(map(addresses.index, addresses))

    def _of(self, variants: Variants) -> _Kernel:
        kernel = self._kernels.get(variants)
        if kernel is None:
            kernel = self._kernels[variants] = _Kernel(variants)
        return kernel


def _reduced(launch: KernelLaunch, plan: CountingPlan) -> WorkCounts:
    """Count a launch with a kernel that only counts and reads, so that memory does not change."""
    rewritten: list[StandIns] = []
    name, rewrite = _reduced_rewrite(plan, rewritten)
    monitor = _observe(launch, name, rewrite)
    if not rewritten:  # the compiled kernel was in the cache, so `rewrite` was not called
        rewrite(launch.kernel.variants.parse())
    counters = [prod(launch.grid)] if plan.counters == 1 else _counters(monitor, plan)
    return evaluate(plan, counters, traffic(monitor, *rewritten[0]))


def _whole(launch: KernelLaunch) -> WorkCounts:
    """Count a launch with the complete kernel plus counters, and restore the memory it wrote."""
    written = launch.written_storages
    if written is None:
        raise UnsupportedError("counting a kernel that stores through pointers from memory")
    module = launch.kernel.variants.parse()
    plan = _plan(module, whole=True)
    before = Snapshot(written)
    try:
        monitor = _observe(launch, *_whole_rewrite())
    finally:
        before.restore()
    elements = elements_of_atomics(module)
    return evaluate(plan, _counters(monitor, plan), traffic(monitor, atomics=elements))


#: The name of a rewrite, which is part of the key of the cache, and a function that rewrites a
#: module in place.
_Rewrite = tuple[str, Callable[[Module], object]]


def _reduced_rewrite(plan: CountingPlan, rewritten: list[StandIns]) -> _Rewrite:
    """Return the rewrite that reduces a kernel to counting and reading.

    Args:
        plan: The counters of the kernel.
        rewritten: Receives the accesses that the loads of the rewritten module replace.
    """

    def rewrite(module: Module) -> None:
        if plan.counters == 1:  # without loop, branch and mask, all programs do the same work
            inline_calls(module)
        else:
            _plan(module, whole=True)
        rewritten.append(replace_accesses(module))

    return "count", rewrite


def _whole_rewrite() -> _Rewrite:
    """Return the rewrite that makes a kernel count while it does all of its work."""
    return "count all", partial(_plan, whole=True)


def _instruments(name: str) -> Instruments:
    """Return the instruments of a rewrite; the key of the cache includes the profiler's sources."""
    rewrites = (name, fingerprint("ttools.profiler"))
    return Instruments(guards=True, footprints=True, rewrites=rewrites)


def _in_place(rewrite: Callable[[Module], object]) -> Callable[[Module], None]:
    return lambda module: (rewrite(module), None)[1]


def _observe(launch: KernelLaunch, name: str, rewrite: Callable[[Module], object]) -> Monitor:
    """Run a rewritten copy of a launch once, and return its monitor with footprints.

    Lanes whose addresses are outside the tensors leave no footprints.
    """
    own = launch.treating_memory_as_written()
    own.execute(_instruments(name), regions=launch.regions, rewrite=_in_place(rewrite))
    assert own.monitor is not None
    return own.monitor


def _counters(monitor: Monitor, plan: CountingPlan) -> list[int]:
    counters = [0] * plan.counters
    for number, site in enumerate(monitor.sites):
        counter = dict(site.attributes).get("count")
        if counter is not None:
            counters[int(counter)] += monitor.lanes(number)
    return counters


def _plan(module: Module, *, whole: bool) -> CountingPlan:
    remaining = [f"a recursive call at {op.location}" for op in inline_calls(module)]
    plan = plan_counting(module, whole=whole)
    plan.unsupported += remaining
    return plan
