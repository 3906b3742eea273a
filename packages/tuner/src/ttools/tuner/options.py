"""What a tuning run may be asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from ttools.core.errors import UsageError
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.finalists import MANY_SAMPLES, ROUNDS
from ttools.tuner.measure.references import split_reference
from ttools.tuner.search.strategies import read_strategy

DEFAULT_SEARCH = "guided"
#: Levels of effort: how much is tried where nothing else limits it.
Effort = Literal["quick", "default", "full"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
#: So many configurations `quick` tries.
QUICK = 16
#: Up to so many configurations `default` tries all; of more a quarter, but at least as many, and at
#: most so many.
SMALL_SPACE, SHARE, MOST = 32, 4, 500
#: `full` tries all of a smaller space; of others at most so many.
LARGE_SPACE, MOST_OF_LARGE = 10_000, 2_500


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What is tried, and for how long.

    Attributes:
        search: a strategy of `search.STRATEGIES`.
        effort: how much is tried where nothing else limits it, and how the best are compared.
        trials: the most configurations of a key, whatever the level of effort.
        seconds: no configuration of a key is begun later; with it, or with `within`, the level of
            effort does not limit how many are tried.
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
    effort: Effort = "default"
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
        if not self.by_effort:
            return space
        if self.effort == "quick":
            return min(space, QUICK)
        if self.effort == "full":
            return space if space < LARGE_SPACE else MOST_OF_LARGE
        return min(space, max(SMALL_SPACE, min(MOST, -(-space // SHARE))))

    def most_shared(self, space: int) -> int:
        """How many are tried at most with those that share a trial, which cost nothing else."""
        return min(space, SHARE * self.budget(space)) if self.by_effort else space

    @property
    def by_effort(self) -> bool:
        """Whether a guided search is limited by nothing but the level of effort."""
        asked = (self.trials, self.seconds, self.within)
        return self.search == DEFAULT_SEARCH and asked == (None, None, None)

    def tries_all(self, space: int) -> bool:
        """Whether no search is needed, as the level of effort is the whole space."""
        return self.by_effort and self.effort == "full" and self.budget(space) == space

    @property
    def may_sweep(self) -> bool:
        """Whether all that is compiled early may be timed, but for what compiles far longer.

        Where launches are short that takes less time than to choose among them, so `quick` does it
        too; `full` leaves nothing out.
        """
        return self.by_effort and self.effort != "full"

    def is_enough(self, space: int, known: int) -> bool:
        """Whether a complete tuning with so many trials is taken as it is, though it lacks some.

        Else a search goes on from them, and tries what has been added to a small space.
        """
        lasts = self.effort == "quick" or space >= LARGE_SPACE
        return self.by_effort and lasts and known >= self.budget(space)

    @property
    def rounds(self) -> int:
        """How often finalists are compared."""
        return MANY_SAMPLES if self.effort == "full" else ROUNDS

    def plan(self, space: int, most: int) -> str:
        """What is tried of a space of this size, at most so many, as people read it."""
        some = f"at most {most:,} of them" if most < space else ""
        if self.by_effort:
            return f"{space:,} configurations, effort {self.effort}: {some or 'all of them'}"
        limits = [some] if some else []
        limits += [] if self.seconds is None else [f"none begun after {self.seconds:g} s"]
        limits += [] if self.within is None else [f"until within {self.within:g}%"]
        return ", ".join([f"{space:,} configurations, search {self.search}", *limits])

    def __post_init__(self) -> None:
        read_strategy(self.search)
        if self.effort not in EFFORTS:
            raise UsageError(f"effort={self.effort}: must be one of {', '.join(EFFORTS)}")
        if self.effort == "quick" and self.search != DEFAULT_SEARCH and self.trials is None:
            raise UsageError(
                f"effort quick tries {QUICK} configurations, and search {self.search} all of them: "
                "leave one of them out, or say how many with trials"
            )
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
