"""Compiles and launches kernels that TorchInductor generates for the CPU.

Inductor compiles kernels for the device of its tensors. This module compiles the same kernel, with
Inductor's signature and constants, for the CPU at the first launch. The kernel is not compiled
earlier, because a script may compile a model before a run that selects its kernels begins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ttools.core import inductor
from ttools.core.context_values import bound
from ttools.core.errors import UnsupportedError
from ttools.core.imports import after_import
from ttools.core.launch_path import INDUCTOR, INDUCTOR_COMPILE, INDUCTOR_TRIAL, take_over
from ttools.core.ownership import package_folders
from ttools.core.patches import Patches
from ttools.interpreter.backend.device import CPU_TARGET
from ttools.interpreter.backend.front_end import compile_for_run
from ttools.interpreter.backend.tuned_config import trying
from ttools.interpreter.run.benchmark import do_bench
from ttools.interpreter.run.interpretation import Run, active_run, active_runs, selecting_run

Routed = Callable[[bool], AbstractContextManager[None]]

_HELPERS = "torch._inductor.runtime.triton_helpers"
_POOL = "torch._inductor.async_compile"
_BENCHMARKING = "torch._inductor.runtime.benchmarking"
_GRAPHS = "torch._inductor.cudagraph_utils"
_WRAPPERS = "torch._inductor.graph"
_DYNAMO = "torch._dynamo.trace_rules"

_NO_GRAPHS = "kernels that run on the CPU"

#: True while Inductor compiles or times kernels for the CPU.
_for_cpu: ContextVar[bool] = ContextVar("ttools_inductor_is_for_cpu", default=False)

_lock = threading.RLock()
#: Compiled kernels, by autotuner and by a flag that is True if only the first configuration of the
#: autotuner was compiled.
_compiled: WeakKeyDictionary[Any, dict[bool, Any]] = WeakKeyDictionary()


@cache
def install_for_good() -> None:
    """Launch Inductor's kernels on the CPU permanently, because no GPU driver is active."""
    InductorKernels(is_default=True, routed=lambda _: nullcontext()).install(_for_good)


_for_good = Patches()


class InductorKernels:
    """Compiles and launches Inductor's kernels on the CPU.

    Args:
        is_default: True if the CPU driver is Triton's active driver.
        routed: Returns a context in which launches go to the CPU if its argument is True.
    """

    def __init__(self, *, is_default: bool, routed: Routed) -> None:
        self._is_default = is_default
        self._routed = routed
        self._precompile: Callable[..., None] | None = None

    def install(self, patches: Patches) -> None:
        """Replace the functions with which Inductor compiles, times and launches kernels.

        Args:
            patches: Registers the replacements, and undoes them later.
        """
        take_over(patches, INDUCTOR_COMPILE, self._later)
        take_over(patches, INDUCTOR, self._launched)
        take_over(patches, INDUCTOR_TRIAL, self._timed)

        def at_import(name: str, action: Callable[[Patches, ModuleType], None]) -> None:
            patches.callback(after_import(name, lambda module: action(patches, module)))

        at_import(inductor.MODULE, self._choose_target)
        at_import(_HELPERS, _keep_driver)
        at_import(_DYNAMO, _leave_to_python)
        at_import(_GRAPHS, self._without_graphs)
        if self._is_default:
            at_import(_POOL, _compile_here)
            at_import(_BENCHMARKING, _time_here)
            at_import(_WRAPPERS, _refuse_cpp_wrappers)

    # ---- compilation

    def _is_for_cpu(self, autotuner: Any) -> bool:
        return self._is_default or selecting_run(inductor.kernel_name(autotuner)) is not None

    def _later(self, original: Callable[..., None]) -> Callable[..., None]:
        self._precompile = inductor.asking(original)

        def precompile(autotuner: Any, *args: Any, **kwargs: Any) -> None:
            if _for_cpu.get() or not self._is_for_cpu(autotuner):
                original(autotuner, *args, **kwargs)
            elif kwargs.get("reload_kernel") is not None:
                autotuner._reload_kernel = kwargs["reload_kernel"]

        return precompile

    def _without_graphs(self, patches: Patches, graphs: ModuleType) -> None:
        """Prevent Inductor from capturing launches in CUDA graphs."""

        def make(reason: Callable[..., str | None]) -> Callable[..., str | None]:
            def reason_against(devices: Any) -> str | None:
                here = self._is_default or active_run() is not None
                return _NO_GRAPHS if here else reason(devices)

            return reason_against

        patches.wrap(graphs, "check_lowering_disable_cudagraph", make)

    def _choose_target(self, patches: Patches, heuristics: ModuleType) -> None:
        def make(target: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *args: CPU_TARGET if _for_cpu.get() else target(*args)

        patches.wrap(heuristics, "GPUTarget", make)

    def _compiled(self, autotuner: Any, run: Run | None) -> Any:
        """Return the kernel compiled for the CPU; None if the run has stopped the compilation."""
        # The configurations that Inductor generates differ only in their speed on a GPU, so the
        # first one suffices.
        first = not inductor.is_tuned_by_user(autotuner) or (
            run is not None and (run.first_config or run.observer is not None)
        )
        with _lock:
            launchers = _compiled.setdefault(autotuner, {})
            if first not in launchers:
                configs = inductor.configurations(autotuner)
                chosen = configs[:1] if first else configs
                tuner = inductor.launchable(autotuner, chosen, for_gpu=False)
                name = inductor.kernel_name(autotuner)
                if compile_for_run(run, name, lambda: self._precompiled(tuner)) is None:
                    return None
                launchers[first] = tuner
        return launchers[first]

    def _precompiled(self, tuner: Any) -> Any:
        assert self._precompile is not None
        self._precompile(tuner)
        return tuner

    # ---- launches

    def _launched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(autotuner: Any, *args: Any, stream: Any, **kwargs: Any) -> Any:
            if _for_cpu.get() or not self._is_for_cpu(autotuner):
                return original(autotuner, *args, stream=stream, **kwargs)
            autotuner = inductor.original(autotuner)
            chosen = selecting_run(inductor.kernel_name(autotuner))
            with self._routed(True):
                if chosen is not None and _takes_triton_s_way(chosen, autotuner):
                    return inductor.launch_by_triton(autotuner, args)
                with bound(_for_cpu, True):
                    tuner = self._compiled(autotuner, chosen)
                    if tuner is None:
                        return None
                    result = original(tuner, *args, stream=stream, **kwargs)
                if self._is_default:
                    # Inductor reads this attribute after it has timed a kernel.
                    autotuner.launchers = tuner.launchers
                return result

        return run

    def _timed(self, original: Callable[..., float]) -> Callable[..., float]:
        def bench(tuner: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
            if not _for_cpu.get():
                return original(tuner, launcher, *args, **kwargs)
            kwargs.pop("with_profiler", None)
            with trying(launcher.config):
                return float(do_bench(inductor.trial(tuner, launcher, args, kwargs)))

        return bench


def _takes_triton_s_way(run: Run, autotuner: Any) -> bool:
    """Return whether Triton's own classes must launch a kernel, for the eager engine or tuning."""
    if run.engine == "eager":
        return True
    return run.tune is not None and len(inductor.configurations(autotuner)) > 1


# ---- parts of Inductor that depend on Triton's driver or on the machine


def _keep_driver(patches: Patches, helpers: ModuleType) -> None:
    """Prevent Inductor from replacing Triton's driver by one without the CPU backend."""
    for name in ("set_driver_to_cpu", "set_driver_to_gpu"):
        patches.replace(helpers, name, lambda: None)


def _leave_to_python(patches: Patches, rules: ModuleType) -> None:
    """Prevent Dynamo from tracing functions of ttools, which may run after a graph break."""
    ours = [f"{path}/" for path in package_folders("ttools")]
    rules.SKIP_DIRS.extend(ours)
    rules._recompile_re()

    def undo() -> None:
        for path in ours:
            rules.SKIP_DIRS.remove(path)
        rules._recompile_re()

    patches.callback(undo)


def _refuse_cpp_wrappers(patches: Patches, graph: ModuleType) -> None:
    """Reject C++ wrappers, which load kernels as GPU binaries."""

    def make(generate: Callable[..., Any]) -> Callable[..., Any]:
        def codegen_with_cpp_wrapper(self: Any) -> Any:
            if "cuda" in self.device_types:
                raise UnsupportedError(
                    "a C++ wrapper of torch.compile, which loads kernels as GPU binaries",
                    help="do not use `cpp_wrapper` or ahead-of-time compilation",
                )
            return generate(self)

        return codegen_with_cpp_wrapper

    patches.wrap(graph.GraphLowering, "codegen_with_cpp_wrapper", make)


def _compile_here(patches: Patches, module: ModuleType) -> None:
    """Prevent Inductor from starting compile processes; kernels are compiled at their launch."""
    patches.replace(module.AsyncCompile, "use_process_pool", classmethod(lambda cls: False))
    patches.replace(module.AsyncCompile, "warm_pool", classmethod(lambda cls: None))


def _time_here(patches: Patches, module: ModuleType) -> None:
    """Time functions with the CPU's clock, and only once if kernels are observed."""

    def benchmark_gpu(_self: Any, function: Callable[[], Any], *_: Any, **__: Any) -> float:
        if any(run.first_config or run.observer is not None for run in active_runs()):
            start = time.perf_counter()
            function()
            return 1e3 * (time.perf_counter() - start)
        return float(do_bench(function))

    for value in list(vars(module).values()):
        if isinstance(value, type) and "benchmark_gpu" in vars(value):
            patches.replace(value, "benchmark_gpu", benchmark_gpu)
