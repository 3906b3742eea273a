"""`@tune`: `triton.autotune` with verified, remembered results, in programs run as ever.

Owns the decorator and where its tunings are kept. Must not know how a kernel is tuned. The class is
made of Triton's own, so kernels decorated by it are autotuners wherever one is expected.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ttools.core import configuration, triton_versions
from ttools.core.errors import UsageError
from ttools.interpreter.backend.autotuners import tuning_key
from ttools.interpreter.run.interpretation import active_run
from ttools.tuner.measure import gpu_launch
from ttools.tuner.options import TuneOptions
from ttools.tuner.run import TuningRun

#: The store of tunings that name none.
STORE = "tunings.sqlite"
_FIRST_LAUNCH = threading.RLock()


def default_store() -> Path:
    """The file in the user's cache where tunings are kept unless another is named."""
    folder = configuration.cache_directory()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / STORE


class Tuned(triton_versions.autotuner_class()):  # type: ignore[misc]
    """An autotuner whose configurations are found by a tuning run of their own.

    Attributes:
        new_run: makes that run.
    """

    new_run: Callable[[], TuningRun]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launches the kernel in its winning configuration, found first if need be."""
        if len(self.configs) <= 1 or active_run() is not None or gpu_launch.is_active():
            return super().run(*args, **kwargs)
        arguments = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        key = tuning_key(self, arguments)
        if key in self.cache:
            return super().run(*args, **kwargs)
        with _FIRST_LAUNCH:
            if key not in self.cache:
                return self._tune(key, args, kwargs)
        return super().run(*args, **kwargs)

    def _tune(self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self.new_run() as run:
            launched = triton_versions.autotuner_class().run(self, *args, **kwargs)
        for result in run.results:
            for note in result.notes:
                warnings.warn(f"{result.problem}: {note}", RuntimeWarning, stacklevel=4)
        for note in run.notes:
            warnings.warn(note, RuntimeWarning, stacklevel=4)
        self.cache[key] = self.best_config
        return launched


def tune(
    configs: Iterable[Any],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    *,
    options: TuneOptions | None = None,
    store: Path | str | None = None,
    lock: Path | str | None = None,
    locked: bool = False,
    on: Literal["cpu", "gpu"] | None = None,
    **replaced: Any,
) -> Callable[[Any], Any]:
    """Decorates a kernel as `triton.autotune` does; its configurations are verified and remembered.

    The first launch with a new key is tuned, as `ttools tune` would tune it; a process that finds
    the tuning in the store measures nothing.

    Args:
        configs: of the space.
        key: names of the parameters each of whose values is tuned separately.
        prune_configs_by: as of `triton.autotune`; a performance model is asked on a GPU only.
        reset_to_zero: names of arguments that are zeroed before each launch.
        restore_value: names of arguments that are put back; all memory is, named or not.
        pre_hook: called before each launch.
        post_hook: called by Triton's own timing only, which is not used.
        options: what is tried and for how long.
        store: the file of all trials; by default one in the user's cache.
        lock: a file of winners, written after each tuning, or read if `locked`.
        locked: take every winner from the lock file and measure nothing.
        on: what times; the GPU if there is one.
        replaced: `warmup`, `rep`, `use_cuda_graph`, `do_bench` and `cache_results` of
            `triton.autotune`, which say how it times and remembers; accepted and not used.

    Raises:
        UsageError: an argument is unknown, or is something else than it must be.
    """
    unknown = sorted(set(replaced) - _REPLACED)
    if unknown:
        raise UsageError(f"tune() has no argument `{unknown[0]}`")
    if on not in (None, "cpu", "gpu"):
        raise UsageError(f"on={on!r}: must be cpu or gpu")
    if not isinstance(options or TuneOptions(), TuneOptions):
        raise UsageError(f"options must be TuneOptions, not a {type(options).__name__}")
    chosen = list(configs) if isinstance(configs, Iterable) else [configs]
    if not all(hasattr(each, "all_kwargs") for each in chosen):
        raise UsageError("configs must be a list of triton.Config")

    def decorate(kernel: Any) -> Any:
        def new_run() -> TuningRun:
            return TuningRun(
                options,
                store=None if locked else Path(store or default_store()),
                lock=None if lock is None else Path(lock),
                locked=locked,
                only=[triton_versions.kernel_name(kernel)],
                on=on,
            )

        tuned = Tuned(
            kernel,
            kernel.arg_names,
            chosen,
            list(key),
            reset_to_zero,
            restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            prune_configs_by=None if prune_configs_by is None else dict(prune_configs_by),
        )
        tuned.new_run = new_run
        return tuned

    return decorate


_REPLACED = frozenset({"warmup", "rep", "use_cuda_graph", "do_bench", "cache_results"})
