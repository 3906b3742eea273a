"""Which configuration of an autotuner a launch is made with.

Known only while an intercepted autotuner runs: it sets what it works on for its thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_tuner: ContextVar[Any] = ContextVar("ttools_autotuner", default=None)
_trial: ContextVar[Any] = ContextVar("ttools_autotuner_trial", default=None)


@contextmanager
def tuning(tuner: Any) -> Iterator[None]:
    """While `tuner` runs; launches that are no trials have its best configuration."""
    token = _tuner.set(tuner)
    try:
        yield
    finally:
        _tuner.reset(token)


@contextmanager
def trying(config: Any) -> Iterator[None]:
    """While a configuration is tried."""
    token = _trial.set(config)
    try:
        yield
    finally:
        _trial.reset(token)


def is_trial() -> bool:
    """Whether the launch being made only tries a configuration."""
    return _trial.get() is not None


def autotuner_config() -> Mapping[str, Any] | None:
    """The configuration of the launch being made; None without an autotuner."""
    config = _trial.get() or getattr(_tuner.get(), "best_config", None)
    if config is None:
        return None
    return {name: value for name, value in config.all_kwargs().items() if value is not None}
