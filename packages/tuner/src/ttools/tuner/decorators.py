"""`@tune`: `triton.autotune` with verified, remembered results, in programs run as ever.

Owns the decorator and where its tunings are kept. Must not know how a kernel is tuned. The class is
made of Triton's own, so kernels decorated by it are autotuners wherever one is expected.
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
        timing: how long configurations are timed, and by what.
        configs_timings: the median, 20% and 80% quantile of each configuration tried for the
            latest key, in milliseconds; infinite for one that cannot win.
        bench_time: seconds that the latest tuning took.
    """

    new_run: Callable[[], TuningRun]
    timing: Timing
    configs_timings: dict[Any, list[float]]
    bench_time: float

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
        began = time.perf_counter()
        with self.new_run() as run:
            launched = triton_versions.autotuner_class().run(self, *args, **kwargs)
        self.bench_time = time.perf_counter() - began
        if run.results:  # else a single configuration was left, as Triton has it
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
        """Milliseconds of what was tried, as `triton.autotune` keeps them."""
        entries = [result.entry() for result in run.results]
        trials = {trial.key: (entry, trial) for entry in entries for trial in entry.trials}
        return {
            each.config: _quantiles(*trials[each.key])
            for each in candidates(self.configs)
            if each.key in trials
        }

    def _report(self, key: tuple[Any, ...], cached: bool) -> None:
        """What Triton prints and calls after a tuning, where that is asked for.

        Args:
            key: of the launch.
            cached: whether the store knew it all, as Triton's own cache on disk may.
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
            print("\n".join(lines))  # noqa: T201 - where Triton prints it
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
    on: Literal["cpu", "gpu"] | None = None,
    **unknown: Any,
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
        warmup: milliseconds of launches before those that are timed.
        rep: milliseconds of launches that are timed.
        use_cuda_graph: accepted; on a GPU short launches are timed in graphs anyway.
        do_bench: times configurations in our place; called as Triton calls it, once for each, in
            the process that measures, with memory put back before, not between its launches. Its
            times are used again with the same function only, by name and text.
        cache_results: accepted; results are always remembered.
        options: what is tried and for how long.
        store: the file of all trials; by default one in the user's cache.
        lock: a file of winners, written after each tuning, or read if `locked`.
        locked: take every winner from the lock file and measure nothing.
        on: what times; the GPU if there is one.
        unknown: nothing; names what is mistyped.

    Raises:
        UsageError: an argument is unknown, or is something else than it must be.
    """
    if unknown:
        raise UsageError(f"tune() has no argument `{min(unknown)}`")
    timing = Timing(warmup=warmup, rep=rep, do_bench=do_bench)
    wanted = options or TuneOptions()
    if on not in (None, "cpu", "gpu"):
        raise UsageError(f"on={on!r}: must be cpu or gpu")
    if not isinstance(wanted, TuneOptions):
        raise UsageError(f"options must be TuneOptions, not a {type(options).__name__}")
    wanted = replace(wanted, checks=replace(wanted.checks, timed_by=name_of(do_bench)))
    chosen = list(configs) if isinstance(configs, Iterable) else [configs]
    if not all(hasattr(each, "all_kwargs") for each in chosen):
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
        # Triton's own attributes, which it sets from arguments that its constructor warns of.
        tuned.num_warmups, tuned.num_reps = warmup, rep
        tuned.use_cuda_graph, tuned.cache_results = use_cuda_graph, cache_results
        return tuned

    return decorate


def _quantiles(entry: TuningEntry, trial: Trial) -> list[float]:
    median = estimate(entry, trial)
    if median is None:
        return [math.inf] * 3
    own = sorted(samples(entry, trial)) or [median]
    seconds = (median, *(own[round(share * (len(own) - 1))] for share in (0.2, 0.8)))
    return [each * 1e3 for each in seconds]
