"""What a tuning run may be asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from ttools.core.errors import UsageError
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.references import split_reference
from ttools.tuner.search.strategies import read_strategy

DEFAULT_SEARCH = "guided"
#: Up to so many configurations a guided search tries all; of more a quarter, but at least as many.
SMALL_SPACE, SHARE = 32, 4


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What is tried, and for how long.

    Attributes:
        search: a strategy of `search.STRATEGIES`.
        trials: the most configurations of a key; by default all, of `guided` see `budget`.
        seconds: no configuration of a key is begun later.
        within: the search ends when the best one found is within so many percent of the best of
            all, with confidence; see `regret`.
        seed: of random choices.
        fresh: try anew what the store knows.
        checks: how outputs are verified.
        workers: how many processes compile ahead, besides the one that runs configurations; by
            default one for each processor. 0 runs everything in this process.
        timeout: seconds that a configuration may take in a worker, compilation included.
    """

    search: str = DEFAULT_SEARCH
    trials: int | None = None
    seconds: float | None = None
    within: float | None = None
    seed: int = 0
    fresh: bool = False
    checks: Checks = field(default_factory=Checks)
    workers: int | None = None
    timeout: float = 60.0

    def budget(self, space: int) -> int:
        """How many configurations of a space of this size are tried at most."""
        if self.trials is not None:
            return min(self.trials, space)
        if self.search != DEFAULT_SEARCH or (self.seconds, self.within) != (None, None):
            return space
        return min(space, max(SMALL_SPACE, -(-space // SHARE)))

    @property
    def is_default(self) -> bool:
        """Whether a guided search is limited by nothing but its own budget."""
        asked = (self.trials, self.seconds, self.within)
        return self.search == DEFAULT_SEARCH and asked == (None, None, None)

    def plan(self, space: int, most: int) -> str:
        """What is tried of a space of this size, at most so many, as people read it."""
        limits = [f"at most {most} of them"] if most < space else []
        limits += [] if self.seconds is None else [f"none begun after {self.seconds:g} s"]
        limits += [] if self.within is None else [f"until within {self.within:g}%"]
        return ", ".join([f"{space} configurations, search {self.search}", *limits])

    def __post_init__(self) -> None:
        read_strategy(self.search)
        if self.checks.reference:
            split_reference(self.checks.reference)
        if self.trials is not None and self.trials < 1:
            raise UsageError(f"trials={self.trials}: at least one configuration must be tried")
        if self.within is not None and self.within <= 0:
            raise UsageError(f"within={self.within:g}: must be a positive percentage")
        if self.timeout <= 0:
            raise UsageError(f"timeout={self.timeout:g}: must be positive")
        if self.workers is not None and self.workers < 0:
            raise UsageError(f"workers={self.workers}: must not be negative")
