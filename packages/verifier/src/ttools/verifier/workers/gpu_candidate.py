"""The candidate's process on a GPU, where Triton runs the candidate without checks.

The process is not forked, because CUDA does not work in a child of a process that has used CUDA.
Torch fills the memory that it allocates with NaN. The GPU is the default device, for wrappers that
do not name a device.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ttools.core.patches import Patches
from ttools.core.process.channel import Channel
from ttools.core.process.user_module import load_functions
from ttools.verifier.workers import module
from ttools.verifier.workers.argument_writes import ArgumentWrites
from ttools.verifier.workers.candidate import Candidate
from ttools.verifier.workers.patched import Patched


class GpuCandidate(Candidate):
    """Answers requests about one candidate on the GPU.

    Args:
        word: Candidate function as `FILE.py:NAME`.
        device: Device of the call; tests pass a device that is not a GPU.
    """

    _is_on_host = False

    def __init__(self, word: str, device: str = "cuda") -> None:
        super().__init__(word, timeout=0, device=device)
        self._log_device = device

    def _load(self, _: dict[str, Any]) -> dict[str, Any]:
        """Load the file and return the name of the GPU."""
        if self._device == "cuda" and not torch.cuda.is_available():
            return {"not_loaded": "cannot be loaded: there is no GPU"}
        torch.set_default_device(self._device)
        # `torch.use_deterministic_algorithms` does the same but imports torch's compiler.
        torch._C._set_deterministic_algorithms(True, warn_only=True)
        self._patched = Patched()
        try:
            ((self._module, function),) = load_functions([self._word])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            return module.not_loaded(error)
        self._function = self._awaited(function)
        import triton

        gpu = torch.cuda.get_device_name() if self._device == "cuda" else self._device
        versions = {"triton": triton.__version__, "torch": torch.__version__}
        versions["cuda"] = str(torch.version.cuda)
        return {"gpu": gpu, "versions": versions}

    def _awaited(self, function: Any) -> Any:
        """Return a function that waits for its launches before it returns."""

        def call(**arguments: Any) -> Any:
            returned = function(**arguments)
            if self._device == "cuda":
                torch.cuda.synchronize()
            return returned

        return call

    def _called(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call the candidate.

        After a CUDA error, tensors cannot be read any more, so only the error is returned.
        """
        try:
            return super()._called(request)
        except RuntimeError as error:
            if "CUDA" not in str(error):
                raise
            empty: dict[str, Any] = {"findings": [], "constants": [], "kernels": [], "launches": 0}
            return {"error": module.described(error), **empty}

    def _tuners(self) -> list[Any]:
        """Return the autotuners at the top level of the candidate's file."""
        kind = getattr(sys.modules.get("triton.runtime.autotuner"), "Autotuner", None)
        values = list(vars(self._module).values()) if kind is not None else []
        values += [getattr(value, "fn", None) for value in values]
        return [value for value in values if kind is not None and isinstance(value, kind)]

    def _choose(self, config: int) -> None:
        """Restrict each autotuner to one configuration, as the engine does."""
        for tuner in self._tuners():
            configs = tuner.__dict__.setdefault("_ttools_configs", tuner.configs)
            tuner.cache.clear()
            tuner.configs = [configs[min(config, len(configs) - 1)]]

    @contextmanager
    def _engine(
        self,
        request: dict[str, Any],
        seen: dict[str, Any],
        writes: ArgumentWrites,
    ) -> Iterator[Any]:
        """Count launches, and set the numbers of warps and stages that a request specifies."""
        from triton.runtime.jit import JITFunction

        self._choose(request.get("config") or 0)
        chosen: dict[str, Any] = {
            key: request[key] for key in ("num_warps", "num_stages") if key in request
        }

        def observed(run: Any) -> Any:
            def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
                if kwargs.get("warmup"):
                    return run(kernel, *args, **{**kwargs, **chosen})
                seen["launches"] += 1
                if kernel.__name__ not in seen["kernels"]:
                    seen["kernels"].append(kernel.__name__)
                return run(kernel, *args, **{**kwargs, **chosen})

            return launch

        with Patches() as patches:
            patches.wrap(JITFunction, "run", observed)
            yield None


def serve(channel: Channel, word: str) -> None:
    """Answer requests about a candidate on the GPU until there are no more."""
    GpuCandidate(word).serve(channel)
