"""Tracks the autotuner configuration that a launch uses.

An autotuner whose methods are intercepted sets its configuration for the current thread while it
runs; at other times, no configuration is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from ttools.core import inductor
from ttools.core.context_values import bound
from ttools.core.launch_path import INDUCTOR_TRIAL, TRIAL, TUNED, take_over
from ttools.core.patches import Patches

_tuner: ContextVar[Any] = ContextVar("ttools_autotuner", default=None)
_trial: ContextVar[Any] = ContextVar("ttools_autotuner_trial", default=None)
_choices: ContextVar[int] = ContextVar("ttools_autotuner_choices", default=1)


def tuning(tuner: Any) -> AbstractContextManager[None]:
    """Return a context in which launches other than trials use the tuner's best configuration."""
    return bound(_tuner, tuner)


def choosing_among(count: int) -> AbstractContextManager[None]:
    """Return a context for launches whose configuration was chosen from `count` configurations."""
    return bound(_choices, count)


def choices() -> int:
    """Return the number of configurations that an untimed launch could choose from."""
    return _choices.get()


def trying(config: Any) -> AbstractContextManager[None]:
    """Return a context whose launches are trials of a configuration."""
    return bound(_trial, config)


def follow_configs(patches: Patches) -> None:
    """Record the configuration of each launch of an autotuner."""
    take_over(patches, TUNED, _known_run)
    take_over(patches, TRIAL, known_trial)
    take_over(patches, INDUCTOR_TRIAL, _known_bench)


def _known_bench(original: Callable[..., Any]) -> Callable[..., Any]:
    def bench(tuner: Any, launcher: Any, *args: Any, **kwargs: Any) -> Any:
        with trying(launcher.config):
            return original(tuner, launcher, *args, **kwargs)

    return bench


def _known_run(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        with tuning(tuner):
            return original(tuner, *args, **kwargs)

    return run


def known_trial(original: Callable[..., Any]) -> Callable[..., Any]:
    """Extend `Autotuner._bench`, so that its launches are recorded as trials of a configuration."""

    def _bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
        with trying(config):
            return original(tuner, *args, config=config, **meta)

    return _bench


def is_trial() -> bool:
    """Return whether the current launch is a trial of a configuration."""
    return _trial.get() is not None


def autotuner_config() -> Mapping[str, Any] | None:
    """Return the configuration of the launch being made; None without an autotuner."""
    tuner = _tuner.get()
    config = _trial.get() or getattr(tuner, "best_config", None) or inductor.launched_config()
    if config is None:
        return None
    return {name: value for name, value in config.all_kwargs().items() if value is not None}
