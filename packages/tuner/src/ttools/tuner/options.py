"""Options of a tuning run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from ttools.core.errors import UsageError
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.finalists import FULL_ROUNDS, ROUNDS
from ttools.tuner.measure.references import split_reference
from ttools.tuner.measure.reproducible import CLASSES, FIRST, read_values
from ttools.tuner.search.strategies import read_strategy

DEFAULT_SEARCH = "guided"
#: Levels of effort: how many configurations are tried if no other option limits them.
Effort = Literal["quick", "default", "full"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
#: Number of configurations that `quick` tries.
QUICK = 16
#: `default` tries all configurations of a space with at most `SMALL_SPACE` of them. Of a larger
#: space, it tries one in `SHARE` configurations, but at least `SMALL_SPACE` and at most `MOST`.
SMALL_SPACE, SHARE, MOST = 32, 4, 500
#: `full` tries all configurations of spaces smaller than `LARGE_SPACE`, and `MOST_OF_LARGE`
#: configurations of all other spaces.
LARGE_SPACE, MOST_OF_LARGE = 10_000, 2_500


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Options that determine which configurations are tried, and for how long.

    Attributes:
        search: Name of a strategy of `search.STRATEGIES`.
        effort: Level of effort: how many configurations are tried if no other option limits the
            number, and how thoroughly the best configurations are compared.
        trials: Maximum number of configurations per key, regardless of the level of effort.
        seconds: Time in seconds after which no further configuration of a key is begun. With this
            option or `within`, the level of effort does not limit the number of configurations.
        within: A percentage. The search ends as soon as the best configuration found so far is,
            with confidence, at most this much slower than the best configuration of the space; see
            `regret`.
        seed: Seed of random choices.
        fresh: If True, configurations with stored results are tried again.
        checks: Options for the verification of outputs.
        workers: Number of processes that compile ahead, besides the process that runs
            configurations. None stands for one per processor; 0 runs everything in this process.
        timeout: Time limit in seconds for a configuration in a worker, including compilation.
        reproducible: Which configurations compete. `first`: those that give the same bits as the
            first configuration. Values of a configuration, such as `BLOCK=64,num_warps=4`: those
            that give the same bits as this configuration. `classes`: all configurations; the
            classes of equal bits are reported. By default, bits are not predicted.
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
    reproducible: str = ""

    def budget(self, space: int) -> int:
        """Return the maximum number of configurations that are tried in a space of this size."""
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
        """Return the maximum number of trials including shared ones, which cost no time."""
        return min(space, SHARE * self.budget(space)) if self.by_effort else space

    @property
    def by_effort(self) -> bool:
        """Return whether nothing but the level of effort limits a guided search."""
        asked = (self.trials, self.seconds, self.within)
        return self.search == DEFAULT_SEARCH and asked == (None, None, None)

    def tries_all(self, space: int) -> bool:
        """Return whether the level of effort covers the whole space, so no search is needed."""
        return self.by_effort and self.effort == "full" and self.budget(space) == space

    @property
    def may_sweep(self) -> bool:
        """Return whether all configurations compiled ahead may be timed, except slow compilations.

        If launches are short, timing all configurations takes less time than choosing among them,
        so even `quick` times all of them. This does not apply to `full`, which may not omit slow
        compilations.
        """
        return self.by_effort and self.effort != "full"

    def is_enough(self, space: int, stored: int) -> bool:
        """Return whether a complete tuning with this many stored trials is reused without new ones.

        Otherwise a search continues from the stored trials, and tries configurations that were
        added to a small space.
        """
        lasts = self.effort == "quick" or space >= LARGE_SPACE
        return self.by_effort and lasts and stored >= self.budget(space)

    @property
    def rounds(self) -> int:
        """The number of rounds in which finalists are compared."""
        return FULL_ROUNDS if self.effort == "full" else ROUNDS

    def plan(self, space: int, most: int) -> str:
        """Return a description of the search, which tries at most `most` of the configurations."""
        some = f"at most {most:,} of them" if most < space else ""
        if self.by_effort:
            return f"{space:,} configurations, effort {self.effort}: {some or 'all of them'}"
        limits = [some] if some else []
        limits += [] if self.seconds is None else [f"no new ones after {self.seconds:g} s"]
        limits += (
            []
            if self.within is None
            else [f"until the best is within {self.within:g}% of the optimum"]
        )
        return ", ".join([f"{space:,} configurations, search {self.search}", *limits])

    def __post_init__(self) -> None:
        read_strategy(self.search)
        if self.effort not in EFFORTS:
            raise UsageError(f"effort={self.effort}: must be one of {', '.join(EFFORTS)}")
        if self.effort == "quick" and self.search != DEFAULT_SEARCH and self.trials is None:
            raise UsageError(
                f"effort quick tries {QUICK} configurations, but search {self.search} tries all of "
                "them: omit one of the two options, or set the number of configurations with trials"
            )
        if self.reproducible not in ("", FIRST, CLASSES):
            read_values(self.reproducible)
        if self.checks.reference:
            split_reference(self.checks.reference)
        if self.trials is not None and self.trials < 1:
            raise UsageError(f"trials={self.trials}: at least one configuration must be tried")
        if self.seconds is not None and not self.seconds >= 0:
            raise UsageError(f"seconds={self.seconds:g}: must not be negative")
        if self.within is not None and self.within <= 0:
            raise UsageError(f"within={self.within:g}: must be a positive percentage")
        if self.timeout <= 0:
            raise UsageError(f"timeout={self.timeout:g}: must be positive")
        if self.workers is not None and self.workers < 0:
            raise UsageError(f"workers={self.workers}: must not be negative")
