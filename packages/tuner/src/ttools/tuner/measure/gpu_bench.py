"""Verification and timing of one launch on the current GPU in several configurations."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ttools.core import triton_versions
from ttools.core.device_map.memory import on_host
from ttools.core.errors import TtoolsError
from ttools.tuner.cost.gpu_resources import compiled_facts, loaded_figures
from ttools.tuner.cost.static_cost import StaticFacts
from ttools.tuner.measure.bench import MOST_SAMPLES_ASKED, Bench
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.clock import Clock
from ttools.tuner.measure.gpu_launch import GpuTunedCall
from ttools.tuner.measure.gpu_timer import SHORT_S, GpuTimer
from ttools.tuner.measure.outputs import CannotTuneError, require_known_writes
from ttools.tuner.measure.trial import Trial
from ttools.tuner.space.candidate import Candidate


class Conditions:
    """Reads clocks, temperature and power of the current GPU from its driver.

    Requires `nvidia-ml-py` (the extra `ttools-tuner[gpu]`); without it, nothing is recorded.
    """

    def __init__(self) -> None:
        self._library, self._handle = _open()

    def read(self) -> dict[str, float] | None:
        """Return the current values in MHz, degrees Celsius and watts; None if unavailable."""
        library = self._library
        if library is None:
            return None
        try:
            return {
                "sm_mhz": library.nvmlDeviceGetClockInfo(self._handle, library.NVML_CLOCK_SM),
                "memory_mhz": library.nvmlDeviceGetClockInfo(self._handle, library.NVML_CLOCK_MEM),
                "celsius": library.nvmlDeviceGetTemperature(
                    self._handle, library.NVML_TEMPERATURE_GPU
                ),
                "watts": library.nvmlDeviceGetPowerUsage(self._handle) / 1000,
            }
        except library.NVMLError:
            return None


def _open() -> tuple[Any, Any]:
    try:
        import pynvml
        import torch
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
        # The GPU is looked up by its UUID, because CUDA and NVML may number devices differently.
        identity = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{identity}")
    except (pynvml.NVMLError, RuntimeError, AssertionError, AttributeError):
        return None, None


#: A configuration is sampled for `SAMPLING_S` seconds, at least `FEWEST` and at most `MOST` times.
#: Configurations that may win are compared again.
SAMPLING_S, FEWEST, MOST = 0.002, 10, 25
#: If the median of a configuration's first `FIRST` samples exceeds `HOPELESS` times the median of
#: the best configuration, it cannot win and is not sampled further.
FIRST, HOPELESS = 3, 1.5
#: Number of samples of a configuration in each round of the comparison, and the number for short
#: configurations, which need more because their samples differ by several percent.
PER_ROUND, PER_SHORT_ROUND = 5, 20
#: Fields of Triton's metadata that determine how a binary is launched.
_LAUNCH_OPTIONS = (
    *("num_warps", "num_ctas", "cluster_dims", "shared", "tmem_size", "global_scratch_size"),
    *("launch_cooperative_grid", "launch_cooperative_cluster", "launch_pdl"),
)


class GpuBench(Bench):
    """Verifies and times one launch on the current GPU."""

    def __init__(self, launch: GpuTunedCall, checks: Checks) -> None:
        super().__init__(launch, Clock(), checks)
        self._gpu_launch = launch
        self._timer = GpuTimer()
        self._writes_known = False
        #: Storages that a run changed, by key of the configuration that ran.
        self._changed: dict[str, frozenset[int]] = {}
        self._loaded: Any = None
        self._least = math.inf

    @cached_property
    def _conditions(self) -> Conditions:
        return Conditions()

    def is_device_lost(self) -> bool:
        """Return whether the CUDA context is unusable, as it is after an illegal access."""
        import torch

        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
        return False

    def make_ready(self) -> None:
        """Save memory, and read the kernel's source."""
        with contextlib.suppress(Exception):  # the first attempt raises and reports it, too
            self._before  # noqa: B018 - first access saves
            triton_versions.innermost_jit_function(self._launch.tuner).cache_key  # noqa: B018

    def compile(self, candidate: Candidate) -> StaticFacts | None:
        """Compile a configuration without launching it, and return its static facts."""
        kernel = self._launch.compiled(candidate.config)
        programs = self._gpu_launch.programs(candidate.config)
        return None if programs is None else compiled_facts(kernel, programs)

    def _code(self, candidate: Candidate, compiled: Any) -> Sequence[Any]:
        options = [getattr(compiled.metadata, name, None) for name in _LAUNCH_OPTIONS]
        return [compiled.kernel, options]

    def measure(self, candidate: Candidate, trial: Trial) -> Trial:
        """Return a verified trial with times, resources and the GPU's conditions added."""
        resources = loaded_figures(self._loaded)
        measured = super().measure(candidate, trial)
        return replace(measured, conditions=self._conditions.read(), resources=resources)

    def _sample(self, candidate: Candidate) -> list[float]:
        prepare, work = self._parts(candidate)
        self._timer.warm_up(prepare, work)
        first = self._timer.seconds(prepare, work, FIRST)
        typical = max(statistics.median(first), 1e-9)
        warmup, rep = self._timing.warmup, self._timing.rep
        self._least = min(self._least, typical)
        if warmup is None and rep is None and typical > HOPELESS * self._least:
            return first
        if warmup:
            self._timer.seconds(prepare, work, min(MOST_SAMPLES_ASKED, int(warmup / 1e3 / typical)))
        wanted, most = (SAMPLING_S, MOST) if rep is None else (rep / 1e3, MOST_SAMPLES_ASKED)
        count = max(FEWEST, min(most, int(wanted / typical)))
        if typical < SHORT_S:
            samples = self._timer.seconds_in_graph(prepare, work, count)
            if samples is not None:
                return samples
        return self._timer.seconds(prepare, work, count)

    def _parts(self, candidate: Candidate) -> tuple[Any, Any]:
        config = candidate.config
        # Storages that no run has changed need not be restored. But a configuration that was not
        # verified in this process may change any storage.
        only = None
        if candidate.key in self._changed:
            only = frozenset[int]().union(*self._changed.values())

        def prepare() -> None:
            self._before.restore(only)
            self._gpu_launch.prepare(config)

        return prepare, lambda: self._gpu_launch.bare(config)

    def _round(self, candidate: Candidate) -> list[float]:
        """Return timing samples for one round; short configurations are timed in a CUDA graph."""
        prepare, work = self._parts(candidate)
        is_short = self._timer.seconds(prepare, work, 1)[0] < SHORT_S
        count = PER_SHORT_ROUND if is_short else PER_ROUND
        graph = self._timer.seconds_in_graph(prepare, work, count) if is_short else None
        return graph or self._timer.seconds(prepare, work, count)

    def _outputs(self, candidate: Candidate) -> dict[str, Any]:
        import torch

        self._require_known_writes(candidate)
        self.restore()
        self._loaded = self._launch.run(candidate.config)
        torch.cuda.synchronize()
        changed = self._changed[candidate.key] = self._before.changed()
        tensors = {**self._launch.arguments, **self._pointees.tensors}
        return {
            name: self._output(name, value.detach(), changed)
            for name, value in tensors.items()
            if hasattr(value, "untyped_storage") and name not in self._checks.scratch
        }

    def _output(self, name: str, value: Any, changed: frozenset[int]) -> Any:
        """Return a tensor as it is after a run.

        The tensor is compared before the next run overwrites it, so only the reference's output is
        copied. A tensor that neither this run nor the reference's run changed still equals the
        reference's output, which is returned in its place.
        """
        if not self.reference:
            return value.clone()
        if self.reference in self._changed and not on_host(value):
            address = value.untyped_storage().data_ptr()
            if address not in changed | self._changed[self.reference]:
                return self._expected[name]
        return value

    def _require_known_writes(self, candidate: Candidate) -> None:
        if self._writes_known:
            return
        ttir = str(self._launch.compiled(candidate.config).asm["ttir"])
        try:
            require_known_writes(self._launch.kernel, ttir, self._pointees)
        except CannotTuneError:
            raise
        except TtoolsError as error:
            # ttools cannot parse all TTIR for GPUs, but here it only matters whether the kernel may
            # use pointers that it loads from memory.
            if "tt.int_to_ptr" in ttir or "!tt.ptr<!tt.ptr" in ttir:
                raise CannotTuneError(
                    f"`{self._launch.kernel}` may store through pointers from memory: {error}"
                ) from error
        self._writes_known = True
