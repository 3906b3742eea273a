"""The candidate's process on a GPU: calls it there, as Triton runs it, without checks.

The process is no fork: CUDA works in a process that nobody has used it in. Memory that torch
allocates holds NaN, and the GPU is its default device, for wrappers that name none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ttools.core.patches import Patches
from ttools.core.process.channel import Channel
from ttools.core.process.user_module import load_functions
from ttools.verifier.cases.tensors import raw_bytes
from ttools.verifier.workers import module
from ttools.verifier.workers.candidate import Candidate
from ttools.verifier.workers.filled import Filled
from ttools.verifier.workers.given import Given
from ttools.verifier.workers.patched import Patched
from ttools.verifier.workers.touched import Touched


class GpuCandidate(Candidate):
    """Answers requests about one candidate on the GPU.

    Args:
        word: `FILE.py:NAME`.
        device: where; another one than a GPU for tests.
    """

    _read = staticmethod(raw_bytes)
    _host_devices = frozenset(("cpu",))
    _can_record = False

    def __init__(self, word: str, device: str = "cuda") -> None:
        super().__init__(word, timeout=0, device=device)
        self._log_device = device

    def _load(self, _: dict[str, Any]) -> dict[str, Any]:
        """Loads the file, and names the GPU."""
        if self._device == "cuda" and not torch.cuda.is_available():
            return {"not_loaded": "cannot be loaded: there is no GPU"}
        torch.set_default_device(self._device)
        # As `torch.use_deterministic_algorithms`, which imports the compiler to tell it.
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
        return {"configs": self._constants_of_configs(), "gpu": gpu, "versions": versions}

    def _awaited(self, function: Any) -> Any:
        """A function whose launches have ended when it returns."""

        def call(**arguments: Any) -> Any:
            found = function(**arguments)
            if self._device == "cuda":
                torch.cuda.synchronize()
            return found

        return call

    def _called(self, request: dict[str, Any]) -> dict[str, Any]:
        """Calls the candidate; what it broke cannot be read afterwards."""
        try:
            return super()._called(request)
        except RuntimeError as error:
            if "CUDA" not in str(error):
                raise
            seen: dict[str, Any] = {"findings": [], "constants": [], "kernels": [], "launches": 0}
            return {"error": module.described(error), **seen}

    def _choose(self, config: int | None) -> None:
        """Leaves each autotuner one configuration; the first, which the engine takes, if None."""
        super()._choose(config or 0)

    @contextmanager
    def _engine(
        self,
        request: dict[str, Any],
        seen: dict[str, Any],
        given: Given,
        touched: Touched,
        filled: Filled,
    ) -> Iterator[Any]:
        """Counts launches, with the warps and stages that a request wants."""
        from triton.runtime.jit import JITFunction

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
                # Which of them it writes to, the engine has looked at in the same cases.
                own = [*args, *kwargs.values()]
                given.note(kernel.__name__, own, range(len(own)))
                made = run(kernel, *args, **{**kwargs, **chosen})
                given.leave(own, range(len(own)))
                return made

            return launch

        with Patches() as patches:
            patches.wrap(JITFunction, "run", observed)
            yield None


def serve(channel: Channel, word: str) -> None:
    """Answers requests about a candidate on the GPU until there are no more."""
    GpuCandidate(word).serve(channel)
