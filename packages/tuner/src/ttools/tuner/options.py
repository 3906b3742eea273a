"""What a tuning run may be asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from ttools.core.errors import UsageError
from ttools.tuner.bench import Checks
from ttools.tuner.search import read_strategy


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What is tried, and for how long.

    Attributes:
        search: a strategy of `search.STRATEGIES`.
        trials: at most so many configurations of a key; all by default.
        seconds: no configuration of a key is begun later.
        seed: of random choices.
        fresh: try anew what the store knows.
        checks: how outputs are judged.
    """

    search: str = "exhaustive"
    trials: int | None = None
    seconds: float | None = None
    seed: int = 0
    fresh: bool = False
    checks: Checks = field(default_factory=Checks)

    def __post_init__(self) -> None:
        read_strategy(self.search)
        if self.trials is not None and self.trials < 1:
            raise UsageError(f"trials={self.trials}: at least one configuration must be tried")
