"""The options of a sanitizer run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ttools.core.errors import UsageError

#: Seconds: long enough for any launch that a user waits for.
DEFAULT_TIMEOUT = 600.0


@dataclass(frozen=True, kw_only=True)
class SanitizeOptions:
    """What to check, and how severe leaving a view is.

    Attributes:
        checks: names of checks; see `checks.registry`.
        view_bounds: severity of leaving the elements of the view passed, inside its storage; by
            default stores and atomics are errors, loads warnings.
        threads: how many threads run programs; None for torch's number.
        seed: of the second, shuffled run of launches whose programs synchronise.
        max_findings: at most so many findings that count are reported, most severe first.
        all_configs: run every configuration of autotuned kernels.
        timeout: seconds that a launch may take; None for any time.
        poison: unwritten memory and undefined lanes hold NaN, or junk if they are integers.
    """

    checks: frozenset[str]
    view_bounds: Literal["error", "warning", "off"] | None = None
    threads: int | None = None
    seed: int = 0
    max_findings: int = 100
    all_configs: bool = False
    timeout: float | None = None
    poison: bool = False

    def __post_init__(self) -> None:
        """Refuses numbers that make no sense; `threads` is checked where they are started."""
        if not isinstance(self.seed, int):
            raise UsageError(f"seed={self.seed!r}: must be an integer")
        limit = self.timeout
        if limit is not None and not (isinstance(limit, (int, float)) and limit > 0):
            raise UsageError(f"timeout={limit!r}: must be a number of seconds, or 0 for any time")
        if not isinstance(self.max_findings, int) or self.max_findings < 1:
            raise UsageError(f"max_findings={self.max_findings!r}: must be a positive integer")
