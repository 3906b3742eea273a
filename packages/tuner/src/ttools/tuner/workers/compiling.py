"""Compilation of a launch's configurations for a GPU, in a process that does not use a GPU.

The launch is made on fake tensors, so that torch need not be imported. If this fails, the launch is
made again with torch.
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

    A hook, heuristic or module may fail without torch or on a fake tensor. In that case the launch
    is made again with torch and with tensors on the CPU.

    Args:
        launch: The launch to compile; the contents of its memory do not matter.
    """

    def __init__(self, launch: SerializedCall) -> None:
        self._launch = launch
        self._fakes = True
        self._made: tuple[GpuBench, Mapping[str, Candidate]] | None = None

    def compile(self, key: str, configs: bytes = b"") -> StaticFacts | None:
        """Compile a configuration as the launch needs it.

        Args:
            key: Key of the configuration.
            configs: Serialized configurations, in which `key` is looked up if the launch does not
                contain it.

        Returns:
            Static facts for the cost model, see `GpuBench.compile`.

        Raises:
            Exception: Any exception that compiling the configuration raises.
        """
        import triton

        try:
            return self._compile(key, configs)
        except triton.TritonError:
            raise  # a compiler error does not depend on torch
        except Exception:
            if not self._fakes:
                raise  # torch was available
            self._fakes, self._made = False, None
            return self._compile(key, configs)

    def _compile(self, key: str, configs: bytes) -> StaticFacts | None:
        with without_torch() if self._fakes else nullcontext():
            bench, by_key = self._made = self._made or self._make()
            if key not in by_key:
                by_key = {
                    candidate.key: candidate
                    for candidate in candidates(deserialize_configs(configs))
                }
            return bench.compile(by_key[key])

    def _make(self) -> tuple[GpuBench, Mapping[str, Candidate]]:
        made = deserialize_fake(self._launch) if self._fakes else self._deserialize()
        launch = gpu_launch(made.tuner, (), {**made.arguments, "warmup": False})
        return GpuBench(launch, Checks()), {
            candidate.key: candidate for candidate in candidates(launch.configs)
        }

    def _deserialize(self) -> CallParts:
        import torch

        torch.set_num_threads(1)  # several processes compile at the same time
        return deserialize(self._launch, "cpu")
