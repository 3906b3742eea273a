"""Launches on a GPU as plain data, which another process can count.

A launch is counted with the TTIR that the program's own compilation has produced. The counting
process therefore needs neither Triton nor torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ttools.core.spec import LaunchSpec
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.run.interpretation import Run
from ttools.interpreter.run.kernel_launch import ExecutableKernel, KernelLaunch
from ttools.interpreter.run.launching import make_launch
from ttools.interpreter.run.variants import Variants
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.profiler.counting.counter import WorkCounter
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu.host_memory import HostBytes, made


@dataclass(frozen=True, kw_only=True)
class CountRequest:
    """A launch to count, as plain data.

    Attributes:
        spec: The launch; storages of tensors are identified by their addresses on the GPU.
        ttir: TTIR of the kernel after Triton's passes.
        contents: Contents of the memory that determines the work, by the addresses of storages.
    """

    spec: LaunchSpec
    ttir: str = field(repr=False)
    contents: Mapping[int, HostBytes] = field(default_factory=dict)


class RequestCounter:
    """Counts launches, one at a time.

    Args:
        threads: Number of threads that run the programs of a launch; by default as many as torch
            uses.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._counter = WorkCounter()
        self._kernels: dict[tuple[object, ...], ExecutableKernel] = {}
        self._counts: WorkCounts | None = None
        self._run = Run(
            selects=lambda _: True,
            launch_options=LaunchOptions(threads=threads),
            schedule="fused",
            first_config=False,
            observer=self,
        )

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Count a launch instead of running it; the interpreter calls this method."""
        self._counts = self._counter.count(launch)
        return LaunchReport(0, 0.0)

    def count(self, launch: CountRequest) -> WorkCounts:
        """Return the work of a launch.

        Raises:
            TtoolsError: The launch cannot be counted.
            MemoryError: The host does not have enough memory for the tensors.
        """
        make_launch(self._launch(launch))
        counts, self._counts = self._counts, None
        assert counts is not None
        return counts

    def prepare(self, launch: CountRequest) -> None:
        """Compile the counting kernel of a launch, which does not depend on the contents of memory.

        Raises:
            TtoolsError: The launch cannot be counted.
            MemoryError: The host does not have enough memory for the tensors.
        """
        self._counter.prepare(self._launch(launch))

    def _launch(self, launch: CountRequest) -> KernelLaunch:
        spec = launch.spec
        types = tuple(argument.type for argument in spec.arguments)
        key = spec.kernel, launch.ttir, spec.names, types
        kernel = self._kernels.get(key)
        if kernel is None:
            plan = ArgumentPlan(spec.names, types)
            variants = Variants(spec.kernel, launch.ttir)
            plan.check(variants.parameters)
            kernel = self._kernels[key] = ExecutableKernel(
                name=spec.kernel, plan=plan, variants=variants, options=spec.options
            )
        values = made(spec.arguments, launch.contents)
        return KernelLaunch(kernel, spec.grid, values, self._run)
