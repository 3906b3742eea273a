"""The decorator `@tune`: like `triton.autotune`, but with results that are verified and stored.

The class of decorated kernels is derived from Triton's autotuner, so that they work wherever an
autotuner is expected.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ttools.core import configuration, triton_versions
from ttools.core.errors import UsageError
from ttools.interpreter.backend.autotuners import tuning_key
from ttools.interpreter.run.interpretation import active_run
from ttools.tuner.measure import gpu_launch
from ttools.tuner.measure.timing import Timing, name_of
from ttools.tuner.measure.trial import Trial
from ttools.tuner.options import TuneOptions
from ttools.tuner.run import TuningRun
from ttools.tuner.space.candidate import candidates
from ttools.tuner.store.ranking import estimate, samples
from ttools.tuner.store.store import TuningEntry

#: File name of the default store.
STORE = "tunings.sqlite"
_FIRST_LAUNCH = threading.RLock()


def default_store() -> Path:
    """Return the file in the user's cache that stores tunings unless a different file is named."""
    folder = configuration.cache_directory()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / STORE


class Tuned(triton_versions.autotuner_class()):  # type: ignore[misc]
    """An autotuner whose configurations are selected by a tuning run.

    Attributes:
        new_run: Function that creates the tuning run.
        timing: Timing that the decorator requests.
        configs_timings: Median, 20% quantile and 80% quantile in milliseconds of each configuration
            that was tried for the latest key; infinite if the configuration was rejected.
        bench_time: Duration of the latest tuning in seconds.
    """

    new_run: Callable[[], TuningRun]
    timing: Timing
    configs_timings: dict[Any, list[float]]
    bench_time: float

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch the kernel in its winning configuration; tune it first if necessary."""
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
        began = time.perf_counter()
        with self.new_run() as run:
            launched = triton_versions.autotuner_class().run(self, *args, **kwargs)
        self.bench_time = time.perf_counter() - began
        if run.results:  # empty if pruning left a single configuration
            self.configs_timings = self._timings(run)
            self._report(key, cached=not any(result.new for result in run.results))
        for result in run.results:
            for note in result.notes:
                warnings.warn(f"{result.problem}: {note}", RuntimeWarning, stacklevel=4)
        for note in run.notes:
            warnings.warn(note, RuntimeWarning, stacklevel=4)
        self.cache[key] = self.best_config
        return launched

    def _timings(self, run: TuningRun) -> dict[Any, list[float]]:
        """Return the times of trials in milliseconds, in the same form as `triton.autotune`."""
        entries = [result.entry() for result in run.results]
        trials = {trial.key: (entry, trial) for entry in entries for trial in entry.trials}
        return {
            candidate.config: _quantiles(*trials[candidate.key])
            for candidate in candidates(self.configs)
            if candidate.key in trials
        }

    def _report(self, key: tuple[Any, ...], cached: bool) -> None:
        """Print the tuning and call the listener, if Triton is configured to do so.

        Args:
            key: Tuning key of the launch.
            cached: True if the store contained all results, which corresponds to a hit in Triton's
                own disk cache.
        """
        name = triton_versions.kernel_name(self)
        if triton_versions.prints_autotuning() and not cached:
            lines = [
                f"Autotuning kernel {name} with config {config}: {median:.6g} ms"
                for config, (median, *_) in self.configs_timings.items()
            ]
            lines += [
                f"Triton autotuning for function {name},",
                f"with key as {key},",
                f"finished after {self.bench_time:.2f}s,",
                f"best config selected: {self.best_config};",
            ]
            print("\n".join(lines))  # noqa: T201 - Triton prints it to standard output, too
        listener = triton_versions.autotuning_listener()
        if listener is not None:
            listener(
                fn=triton_versions.innermost_jit_function(self),
                key=key,
                best_config=self.best_config,
                configs_timings=self.configs_timings,
                duration=None if cached else self.bench_time,
                cache_hit=cached,
            )


def tune(
    configs: Iterable[Any],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
    *,
    options: TuneOptions | None = None,
    store: Path | str | None = None,
    lock: Path | str | None = None,
    locked: bool = False,
    on: Literal["auto", "cpu", "gpu"] | None = None,
    reproducible: str | Mapping[str, Any] | None = None,
) -> Callable[[Any], Any]:
    """Decorate a kernel like `triton.autotune`, but verify and store its configurations.

    The first launch with a new key tunes the kernel like `ttools tune`. A process that finds the
    tuning in the store measures nothing.

    Args:
        configs: Configurations of the space.
        key: Names of parameters; each combination of their values is tuned separately.
        prune_configs_by: Same as for `triton.autotune`; a performance model is used on a GPU only.
        reset_to_zero: Names of arguments that are zeroed before each launch.
        restore_value: Names of arguments to restore; all other memory is restored, too.
        pre_hook: Called before each launch.
        post_hook: Called only by Triton's own timing, which is not used here.
        warmup: Milliseconds of untimed launches before the timed launches.
        rep: Milliseconds of timed launches.
        use_cuda_graph: Accepted for compatibility; on a GPU, short launches are always timed in
            graphs.
        do_bench: Replaces the timing of ttools. It is called as Triton calls it, once per
            configuration, in the process that measures. Memory is restored before the call, but not
            between the launches that it makes. Stored times are reused only with the same function,
            compared by name and source.
        cache_results: Accepted for compatibility; results are always stored.
        options: Options of the search, and limits of its duration.
        store: File of all trials; None stands for a file in the user's cache.
        lock: File of winners, which is written after each tuning, or only read if `locked` is True.
        locked: If True, every winner is taken from the lock file, and nothing is measured.
        on: Kind of device for the measurements; `auto` or None is the GPU if there is one.
        reproducible: Which configurations compete: with `first`, those that give the same bits as
            the first configuration; with the values of a configuration, those that give the same
            bits as that configuration; with `classes`, all of them; see `TuneOptions.reproducible`.

    Raises:
        UsageError: An argument is invalid.
    """
    timing = Timing(warmup=warmup, rep=rep, do_bench=do_bench)
    wanted = options or TuneOptions()
    if on not in (None, "auto", "cpu", "gpu"):
        raise UsageError(f"on={on!r}: must be auto, cpu or gpu")
    if not isinstance(wanted, TuneOptions):
        raise UsageError(f"options must be TuneOptions, not a {type(options).__name__}")
    if reproducible is not None:
        wanted = replace(wanted, reproducible=_reproducible(reproducible))
    wanted = replace(wanted, checks=replace(wanted.checks, timed_by=name_of(do_bench)))
    chosen = list(configs) if isinstance(configs, Iterable) else [configs]
    if not all(hasattr(config, "all_kwargs") for config in chosen):
        raise UsageError("configs must be a list of triton.Config")

    def decorate(kernel: Any) -> Any:
        def new_run() -> TuningRun:
            return TuningRun(
                wanted,
                store=None if locked else Path(store or default_store()),
                lock=None if lock is None else Path(lock),
                locked=locked,
                only=[triton_versions.kernel_name(kernel)],
                on=on,
                starts_early=False,
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
            do_bench=do_bench,
        )
        tuned.new_run, tuned.timing = new_run, timing
        # Triton's constructor warns about these arguments, so set the attributes directly.
        tuned.num_warmups, tuned.num_reps = warmup, rep
        tuned.use_cuda_graph, tuned.cache_results = use_cuda_graph, cache_results
        return tuned

    return decorate


def _reproducible(wanted: str | Mapping[str, Any]) -> str:
    """Return the option as text."""
    if isinstance(wanted, Mapping):
        return ",".join(f"{name}={value}" for name, value in wanted.items())
    if not isinstance(wanted, str):
        raise UsageError(
            f"reproducible={wanted!r}: must be first, classes, or values of a configuration"
        )
    return wanted


def _quantiles(entry: TuningEntry, trial: Trial) -> list[float]:
    median = estimate(entry, trial)
    if median is None:
        return [math.inf] * 3
    own = sorted(samples(entry, trial)) or [median]
    seconds = (median, *(own[round(share * (len(own) - 1))] for share in (0.2, 0.8)))
    return [quantile * 1e3 for quantile in seconds]
