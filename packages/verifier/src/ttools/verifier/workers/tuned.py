"""Chooses the configuration in which the autotuned kernels of a call run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.sanitizer.all_configs import SKIPPED_BY_TRITON


class ChosenConfig:
    """Runs the autotuned launches of a call in one configuration.

    An autotuner is found when it launches a kernel, so it does not matter where the program stores
    it.

    Args:
        number: Number of the configuration among those of each autotuner; None for the first. If
            the autotuner's pruning removes this configuration, one of the remaining ones is used.

    Attributes:
        integers: For each configuration, by its number, the integers that it passes to kernels.
    """

    def __init__(self, number: int | None) -> None:
        self._number = number or 0
        self.integers: list[list[int]] = []

    def run(self, launch: TunedCall) -> Any:
        """Run a launch; a configuration that Triton would skip is replaced by a different one.

        Raises:
            Exception: No configuration runs; the exception is that of the first configuration.
        """
        self._note(max(launch.tuner.configs, launch.configs, key=len))
        first_error: Exception | None = None
        for config in self._in_order(launch):
            try:
                return launch.run(config)
            except Exception as error:
                if type(error).__name__ not in SKIPPED_BY_TRITON:
                    raise
                first_error = first_error or error
        assert first_error is not None
        raise first_error

    def _in_order(self, launch: TunedCall) -> list[Any]:
        """Return the configurations that remain after pruning, the chosen one first."""
        every, left = launch.tuner.configs, list(launch.configs)
        chosen = every[min(self._number, len(every) - 1)] if every else None
        at = next((n for n, config in enumerate(left) if config is chosen), None)
        at = self._number % len(left) if at is None else at
        return [left[at], *left[:at], *left[at + 1 :]]

    def _note(self, configs: Sequence[Any]) -> None:
        missing = len(configs) - len(self.integers)
        self.integers += [[] for _ in range(missing)]
        for integers, config in zip(self.integers, configs, strict=False):
            integers += [value for value in config.kwargs.values() if type(value) is int]
