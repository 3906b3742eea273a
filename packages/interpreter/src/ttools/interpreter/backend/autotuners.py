"""Autotuners while a run is active: which configurations run on the CPU, timed or not.

Owns what replaces `Autotuner.run`. Must not know why a run wants one configuration or all.
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
    twin_of: Callable[[Any, Run], Any],
    routed: Routed,
) -> Callable[..., Any]:
    """The replacement of `Autotuner.run`.

    Args:
        is_default: whether the CPU's driver is Triton's active one.
        twin_of: a copy of an autotuner with its own choices and timer.
        routed: a context in which launches go to the CPU, or not.
    """

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        active = selecting_run(triton_versions.kernel_name(self))
        if active is None:
            return original(self, *args, **kwargs)
        _refuse_conflicts(self.configs, kwargs)
        with routed(True):
            # Nobody wants to time a kernel that is being observed.
            if active.first_config or active.observer is not None:
                chosen = _Choice(original, twin_of(self, active), args, kwargs)
                try:
                    return (active.tune or run_first)(chosen.launch(self))
                finally:
                    # Programs read the choice from the tuner they launched.
                    self.best_config = chosen.config
            if is_default and not self.use_cuda_graph:
                with tuning(self):
                    return original(self, *args, **kwargs)
            twin = twin_of(self, active)
            try:
                with tuning(twin):
                    return original(twin, *args, **kwargs)
            finally:
                self.best_config = getattr(twin, "best_config", None)

    return run


def _refuse_conflicts(configs: Sequence[Any], given: Mapping[str, Any]) -> None:
    """As Triton does, in its words.

    Raises:
        ValueError: the call gives what configurations choose.
    """
    if len(configs) > 1:
        for config in configs:
            if conflicts := given.keys() & config.kwargs.keys():
                raise ValueError(
                    f"Conflicting meta-parameters: {', '.join(conflicts)}. Make sure that you "
                    "don't re-define auto-tuned symbols."
                )


class _Choice:
    """One call of an autotuned kernel whose configurations run untimed.

    Args:
        original: `Autotuner.run`.
        twin: of the autotuner; its cache holds the keys it would have tuned for.

    Attributes:
        config: the first configuration that ran, or the one chosen.
    """

    def __init__(
        self,
        original: Callable[..., Any],
        twin: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._original, self._twin = original, twin
        self._args, self._kwargs = args, kwargs
        self._named = dict(zip(twin.arg_names, args, strict=False))
        self._key = tuning_key(twin, {**self._named, **self._kwargs})
        self._configs = self._left()
        self._resets = self._is_new()
        self.config: Any = None

    def launch(self, tuner: Any) -> TunedCall:
        """The call as whoever chooses configurations sees it."""
        return TunedCall(
            kernel=triton_versions.kernel_name(tuner),
            tuner=tuner,
            configs=self._configs,
            arguments={**self._named, **self._kwargs},
            run=self._run,
            choose=self._choose,
            compiled=self._compiled,
            key=self._key,
        )

    def _choose(self, config: Any) -> None:
        self.config = config

    def _compiled(self, config: Any) -> Any:
        values = {**self._kwargs, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook({**self._named, **values})
        values.pop("warmup", None)
        return self._twin.fn.warmup(**{**self._named, **values})

    def _run(self, config: Any) -> Any:
        # A copy for each: threads may launch one kernel at the same time.
        single = copy.copy(self._twin)
        single.configs = [config]
        if self._resets:
            values = {**self._named, **self._kwargs, **config.all_kwargs()}
            single.pre_hook(values, reset_only=True)
        with tuning(single), choosing_among(len(self._configs)):
            result = self._original(single, *self._args, **self._kwargs)
        self.config = self.config or config
        return result

    def _left(self) -> Sequence[Any]:
        """Those among which the tuner has chosen for this key, whatever it would leave now."""
        if len(self._twin.configs) <= 1:
            return list(self._twin.configs)
        by_key: dict[tuple[Any, ...], Sequence[Any]] = self._twin.left_by_key
        if self._key not in by_key:
            by_key[self._key] = self._pruned()
        return by_key[self._key]

    def _pruned(self) -> Sequence[Any]:
        """The configurations that the tuner's own early pruning leaves."""
        twin = copy.copy(self._twin)
        twin.perf_model = None  # it would rank for a GPU
        twin.nargs = self._named
        return list(twin.prune_configs(self._kwargs))

    def _is_new(self) -> bool:
        """Whether the tuner would tune now: it resets arguments before the launch that counts."""
        if len(self._configs) <= 1:
            return False
        is_new = self._key not in self._twin.cache
        self._twin.cache[self._key] = self._configs[0]
        return is_new


def tuning_key(tuner: Any, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """For what an autotuner tunes anew, as `Autotuner.run` (runtime/autotuner.py) composes it."""
    own = {name: value for name, value in arguments.items() if name in tuner.arg_names}
    values = [own[name] for name in tuner.keys if name in own]
    return (*values, *(str(value.dtype) for value in own.values() if hasattr(value, "dtype")))
