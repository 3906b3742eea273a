"""Selection of the methods that measure configurations: device, bench and cost model.

This process and its workers share this module, so that both choose the same kind of bench. Modules
that only the CPU needs are imported where they are used, because loading them is slow and would
delay the workers for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ttools.core.gpus.devices import Device
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.tuner.cost.static_cost import StaticFacts, expected_costs
from ttools.tuner.measure.bench import Bench
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.clock import Clock
from ttools.tuner.measure.gpu_bench import GpuBench
from ttools.tuner.measure.gpu_launch import GpuTunedCall, gpu_launch
from ttools.tuner.search.guided import Hint, no_hint


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Options for measuring configurations.

    Attributes:
        predicted: GPU for which times are predicted; it need not be present. None to measure times.
        threads: Number of threads that run the programs of a launch on the CPU.
        on_gpu: If True, times are measured on this process's GPU instead of the CPU.
    """

    checks: Checks = field(default_factory=Checks)
    predicted: Device | None = None
    threads: int | None = None
    on_gpu: bool = False

    def clock(self) -> Clock:
        """Return an observer for the launches of a run on the CPU."""
        if self.predicted is None:
            return Clock(None)
        from ttools.profiler.counting.counter import WorkCounter

        return Clock(WorkCounter())

    def bench(self, launch: TunedCall, clock: Clock) -> Bench:
        """Return a bench that runs the configurations of a launch in this process."""
        if isinstance(launch, GpuTunedCall):
            return GpuBench(launch, self.checks)
        if self.predicted is not None:
            from ttools.tuner.measure.predicted_bench import PredictedBench

            return PredictedBench(launch, clock, self.checks, self.predicted)
        return Bench(launch, clock, self.checks)

    def hint(self, facts: Callable[[], Mapping[str, StaticFacts | None]]) -> Hint:
        """Return a function that estimates costs from configurations compiled ahead of time.

        The function estimates costs on a GPU only; for the CPU it returns nothing.

        Args:
            facts: Function that returns the static facts that are available so far, by
                configuration key.
        """
        if not self.on_gpu:
            return no_hint

        def expected() -> Mapping[str, float]:
            import torch

            device = torch.cuda.get_device_properties(torch.cuda.current_device())
            return expected_costs(facts(), device.multi_processor_count)

        return expected

    def observe(
        self,
        tuner: Any,
        arguments: Mapping[str, Any],
        use: Callable[[TunedCall, Bench], None],
    ) -> None:
        """Start a launch, but pass it to `use` at the point at which a configuration is chosen.

        Args:
            arguments: Arguments of the launch, by name.
            use: Receives the launch and its bench.
        """
        if self.on_gpu:
            launch = gpu_launch(tuner, (), {**arguments, "warmup": False})
            use(launch, self.bench(launch, self.clock()))
            return
        from ttools.interpreter import interpret

        clock = self.clock()

        def tune(launch: TunedCall) -> None:
            use(launch, self.bench(launch, clock))

        with interpret(threads=self.threads, observer=clock, tune=tune):
            tuner.run(**{**arguments, "warmup": False})
