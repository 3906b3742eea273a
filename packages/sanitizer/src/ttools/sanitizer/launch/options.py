"""The options of a sanitizer run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ttools.core.errors import UsageError

#: Default time limit in seconds; longer than users usually wait for a launch.
DEFAULT_TIMEOUT = 600.0


@dataclass(frozen=True, kw_only=True)
class SanitizeOptions:
    """Options of a sanitizer run.

    Attributes:
        checks: Names of checks; see `checks.registry`.
        view_bounds: Severity of accesses that leave the elements of the view but stay in its
            storage. By default, stores and atomics are errors, and loads are warnings.
        threads: Number of threads that run programs; None for torch's number.
        seed: Seed of the second, shuffled run of launches whose programs synchronise.
        max_findings: Maximum number of findings that are reported, most severe first.
        all_configs: If True, run every configuration of autotuned kernels.
        timeout: Time limit per launch in seconds; None for no limit.
        poison: If True, unwritten memory and undefined lanes hold NaN, or negative integers.
        suggest_tolerance: If True, the report suggests a tolerance for each output.
        accuracy_range: GPU whose range of results the check `accuracy` estimates; empty for none.
        exact_results: If True, launches leave the exact values of the check `accuracy` in memory.
    """

    checks: frozenset[str]
    view_bounds: Literal["error", "warning", "off"] | None = None
    threads: int | None = None
    seed: int = 0
    max_findings: int = 100
    all_configs: bool = False
    timeout: float | None = None
    poison: bool = False
    suggest_tolerance: bool = False
    accuracy_range: str = ""
    exact_results: bool = False

    def __post_init__(self) -> None:
        """Validate numbers; `threads` is validated where threads are started."""
        if not isinstance(self.seed, int):
            raise UsageError(f"seed={self.seed!r}: must be an integer")
        limit = self.timeout
        if limit is not None and not (isinstance(limit, (int, float)) and limit > 0):
            raise UsageError(f"timeout={limit!r}: must be a number of seconds, or 0 for no limit")
        if not isinstance(self.max_findings, int) or self.max_findings < 1:
            raise UsageError(f"max_findings={self.max_findings!r}: must be a positive integer")
