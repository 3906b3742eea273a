"""Compiles configurations of a launch for a GPU, in a process that has none.

Owns how the launch is made there: on fake tensors, and with torch only if something of the
kernel asks for it. Must not know who wants the binaries, nor where they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from ttools.tuner.cost.static_cost import StaticFacts
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.gpu_bench import GpuBench
from ttools.tuner.measure.gpu_launch import gpu_launch
from ttools.tuner.space.candidate import Candidate, candidates
from ttools.tuner.workers.fake_tensor import without_torch
from ttools.tuner.workers.serialized_launch import (
    CallParts,
    SerializedCall,
    deserialize,
    deserialize_configs,
    deserialize_fake,
)


class Compiler:
    """Compiles configurations of one launch.

    A hook, a heuristic or a module that fails without torch, or on a fake tensor, has all of
    the launch made again with torch.

    Args:
        launch: to be made; what is in its memory does not matter.
    """

    def __init__(self, launch: SerializedCall) -> None:
        self._launch = launch
        self._fakes = True
        self._made: tuple[GpuBench, Mapping[str, Candidate]] | None = None

    def compile(self, key: str, configs: bytes = b"") -> StaticFacts | None:
        """Compiles a configuration as the launch needs it.

        Args:
            key: of the configuration.
            configs: serialized, where the launch lacks it.

        Returns:
            What is known of it then, see `GpuBench.compile`.

        Raises:
            Exception: whatever the configuration breaks on.
        """
        import triton

        try:
            return self._compile(key, configs)
        except triton.TritonError:
            raise  # what the compiler refuses, it refuses with torch too
        except Exception:
            if not self._fakes:
                raise  # it was not for want of torch
            self._fakes, self._made = False, None
            return self._compile(key, configs)

    def _compile(self, key: str, configs: bytes) -> StaticFacts | None:
        with without_torch() if self._fakes else nullcontext():
            bench, by_key = self._made = self._made or self._make()
            if key not in by_key:
                by_key = {each.key: each for each in candidates(deserialize_configs(configs))}
            return bench.compile(by_key[key])

    def _make(self) -> tuple[GpuBench, Mapping[str, Candidate]]:
        made = deserialize_fake(self._launch) if self._fakes else self._deserialize()
        launch = gpu_launch(made.tuner, (), {**made.arguments, "warmup": False})
        return GpuBench(launch, Checks()), {each.key: each for each in candidates(launch.configs)}

    def _deserialize(self) -> CallParts:
        import torch

        torch.set_num_threads(1)  # others compile beside this one
        return deserialize(self._launch, "cpu")
