"""Ranking of configurations for a GPU that need not be present.

Configurations are compiled for the GPU and verified on the CPU. Their times are the projections
that `ttools profile` also reports, because times measured on the CPU do not carry over to the GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.stages import CompilationError, compile_for
from ttools.core.gpus.devices import Device
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.profiler.access.requests import access_qualities
from ttools.profiler.gpu_time.projection import project
from ttools.tuner.cost.limits import figures, over_allocated, over_limit, specialised
from ttools.tuner.measure.bench import Bench, reason_of
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.clock import Clock
from ttools.tuner.measure.finalists import ROUNDS
from ttools.tuner.measure.trial import ProjectedInterval, Trial
from ttools.tuner.space.candidate import Candidate


class PredictedBench(Bench):
    """Verifies one launch on the CPU, and predicts its time on a device."""

    def __init__(self, launch: TunedCall, clock: Clock, checks: Checks, device: Device) -> None:
        super().__init__(launch, clock, checks)
        self._device = device
        self._inspections: dict[str, Inspection] = {}

    def _code(self, candidate: Candidate, compiled: Any) -> Sequence[Any]:
        named = candidate.config.all_kwargs().items()
        options = sorted((n, v) for n, v in named if n not in candidate.config.kwargs)
        return [*super()._code(candidate, compiled), options]

    def verify(self, candidate: Candidate) -> Trial:
        """Compile a configuration for the device; if it fits the device, run it on the CPU."""
        self.restore()
        target = self._device.target
        try:
            source = specialised(self._launch, candidate)
            reason = over_allocated(source, target)
            if reason:
                return self._trial(candidate, "over_limit", reason)
            inspection = Inspection(compile_for(source, target))
        except CompilationError as error:
            self.first_error = self.first_error or error
            return self._trial(candidate, "failed", " ".join(str(error).split()))
        except Exception as error:  # noqa: BLE001 - Triton's front end may raise anything
            self.first_error = self.first_error or error
            return self._trial(candidate, "failed", reason_of(error))
        reason = over_limit(inspection)
        if reason:
            trial = self._trial(candidate, "over_limit", reason)
        else:
            self._inspections[candidate.key] = inspection
            trial = super().verify(candidate)
        own = figures(inspection.resources, inspection.occupancy, target)
        return replace(trial, resources=own)

    def measure(self, candidate: Candidate, trial: Trial) -> Trial:
        """Return a verified trial with the predicted time added, if its work could be counted."""
        counts = self._clock.counts
        if counts is None:
            return trial
        inspection = self._inspections.pop(candidate.key)
        accesses = access_qualities(counts.accesses, inspection)
        projection = project(counts, inspection, self._device, accesses)
        interval = ProjectedInterval(
            low=projection.low, high=projection.high, outside=list(projection.outside)
        )
        return replace(trial, predicted=projection.seconds, projection=interval)

    def final(self, finalists: Sequence[Candidate], rounds: int = ROUNDS) -> dict[str, list[float]]:
        """Return an empty dictionary, because predicting again would give the same result."""
        return {}
