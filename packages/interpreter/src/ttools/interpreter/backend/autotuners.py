"""Replacement of `Autotuner.run` while a run is active.

Depending on the run, an autotuned kernel is either launched without timing, in configurations that
the run chooses, or tuned by timing its configurations on the CPU.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ttools.core import triton_versions
from ttools.interpreter.backend.tuned_config import choosing_among, tuning
from ttools.interpreter.run.interpretation import Run, selecting_run
from ttools.interpreter.run.tuned_launch import TunedCall, run_first

Routed = Callable[[bool], Any]


def tuned_on_cpu(
    original: Callable[..., Any],
    is_default: bool,
    tuner_for: Callable[[Any, Run], Any],
    routed: Routed,
) -> Callable[..., Any]:
    """Return the replacement of `Autotuner.run`, or of a method that overrides it.

    An overriding method usually selects a configuration in another way, but only if there are
    several. Its code is therefore run with a copy of the autotuner that has a single configuration.

    Args:
        original: The method that is replaced.
        is_default: True if the CPU driver is Triton's active driver.
        tuner_for: Returns the copy of an autotuner that a run uses; the copy has its own cache and
            timer.
        routed: Returns a context in which launches go to the CPU if its argument is True.
    """

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        active = selecting_run(triton_versions.kernel_name(self))
        if active is None:
            return original(self, *args, **kwargs)
        _refuse_conflicts(self.configs, kwargs)
        with routed(True):
            # An observed kernel is slower than usual, so its time would be meaningless.
            if active.first_config or active.observer is not None:
                chosen = _Choice(original, tuner_for(self, active), args, kwargs)
                try:
                    return (active.tune or run_first)(chosen.launch(self))
                finally:
                    # User programs read the chosen configuration from this attribute of the tuner.
                    self.best_config = chosen.config
            if is_default and not self.use_cuda_graph:
                with tuning(self):
                    return original(self, *args, **kwargs)
            cpu_tuner = tuner_for(self, active)
            try:
                with tuning(cpu_tuner):
                    return original(cpu_tuner, *args, **kwargs)
            finally:
                self.best_config = getattr(cpu_tuner, "best_config", None)

    return run


def _refuse_conflicts(configs: Sequence[Any], given: Mapping[str, Any]) -> None:
    """Reject arguments that the configurations also set, with Triton's error message.

    Raises:
        ValueError: The call passes a parameter that a configuration sets.
    """
    if len(configs) > 1:
        for config in configs:
            if conflicts := given.keys() & config.kwargs.keys():
                raise ValueError(
                    f"Conflicting meta-parameters: {', '.join(conflicts)}. Make sure that you "
                    "don't re-define auto-tuned symbols."
                )


class _Choice:
    """One call of an autotuned kernel, whose configurations are launched without timing.

    Args:
        original: The original method: `Autotuner.run`, or one that overrides it.
        tuner: Copy of the autotuner for the run; its cache has the keys that were launched.
        args: Positional arguments of the call.
        kwargs: Keyword arguments of the call.

    Attributes:
        config: The configuration that was chosen, or else the first one that ran.
    """

    def __init__(
        self,
        original: Callable[..., Any],
        tuner: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._original, self._tuner = original, tuner
        self._args, self._kwargs = args, kwargs
        self._named = dict(zip(tuner.arg_names, args, strict=False))
        self._key = tuning_key(tuner, {**self._named, **self._kwargs})
        self._configs = self._left()
        self._resets = self._is_new()
        self.config: Any = None

    def launch(self, tuner: Any) -> TunedCall:
        """Return a description of the call to pass to a function that chooses configurations.

        Args:
            tuner: The autotuner that the program called.
        """
        return TunedCall(
            kernel=triton_versions.kernel_name(tuner),
            tuner=tuner,
            configs=self._configs,
            arguments={**self._named, **self._kwargs},
            run=self._run,
            choose=self._choose,
            compiled=self._compiled,
            pruned=self._pruned,
            key=self._key,
        )

    def _choose(self, config: Any) -> None:
        self.config = config

    def _compiled(self, config: Any) -> Any:
        values = {**self._kwargs, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook({**self._named, **values})
        values.pop("warmup", None)
        return self._tuner.fn.warmup(**{**self._named, **values})

    def _run(self, config: Any) -> Any:
        # Each call has its own copy, because threads may launch one kernel at the same time.
        single = copy.copy(self._tuner)
        single.configs = [config]
        if self._resets:
            values = {**self._named, **self._kwargs, **config.all_kwargs()}
            single.pre_hook(values, reset_only=True)
        with tuning(single), choosing_among(len(self._configs)):
            result = self._original(single, *self._args, **self._kwargs)
        self.config = self.config or config
        return result

    def _left(self) -> Sequence[Any]:
        """Return the configurations that remained after pruning at the first call with this key."""
        if len(self._tuner.configs) <= 1:
            return list(self._tuner.configs)
        by_key: dict[tuple[Any, ...], Sequence[Any]] = self._tuner.left_by_key
        if self._key not in by_key:
            by_key[self._key] = self._pruned()
        return by_key[self._key]

    def _pruned(self) -> Sequence[Any]:
        """Return the configurations that remain after the tuner's early pruning."""
        tuner = copy.copy(self._tuner)
        tuner.perf_model = None  # its ranking is for a GPU
        tuner.nargs = self._named
        return list(tuner.prune_configs(self._kwargs))

    def _is_new(self) -> bool:
        """Return whether Triton's autotuner would tune in this call.

        When the autotuner tunes, it also resets arguments before the final launch.
        """
        if len(self._configs) <= 1:
            return False
        is_new = self._key not in self._tuner.cache
        self._tuner.cache[self._key] = self._configs[0]
        return is_new


def tuning_key(tuner: Any, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the cache key that `Autotuner.run` (runtime/autotuner.py) computes for a call."""
    own = {name: value for name, value in arguments.items() if name in tuner.arg_names}
    values = [own[name] for name in tuner.keys if name in own]
    return (*values, *(str(value.dtype) for value in own.values() if hasattr(value, "dtype")))
