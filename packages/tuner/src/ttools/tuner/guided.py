"""Search guided by a model of what was measured: Optuna's TPE sampler over the candidates.

Owns the way from candidates to Optuna's parameters and back. Each parameter is the place of its
value among all values it has in the space, in order if they are numbers. What the sampler proposes
need not be a candidate, or may have been tried: the nearest one left stands in, and the sampler is
told of that one. Must not know what a cost is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ttools.tuner.trial import Candidate

if TYPE_CHECKING:
    from collections.abc import Generator

    import optuna

#: Candidates tried before the model has a say: spread evenly over the space.
FIRST = 8
#: Candidates proposed from the same model, so that they can be compiled together.
TOGETHER = 4
#: What cannot win counts as so many times the worst that can.
PENALTY = 2.0


class Axes:
    """The parameters of a space, each with its values in order.

    Args:
        space: the candidates; one that lacks a parameter has its own place for that.
    """

    def __init__(self, space: Sequence[Candidate]) -> None:
        names = dict.fromkeys(name for each in space for name in each.values)
        self.values: dict[str, list[Any]] = {}
        for name in names:
            seen = {repr(v): v for each in space for v in [each.values.get(name)]}
            if len(seen) > 1:
                self.values[name] = _ordered(list(seen.values()))
        self._places = {
            name: {repr(value): place for place, value in enumerate(values)}
            for name, values in self.values.items()
        }

    def places(self, candidate: Candidate) -> dict[str, int]:
        """Of a candidate's values, by parameter."""
        return {
            name: places[repr(candidate.values.get(name))] for name, places in self._places.items()
        }

    def distance(self, places: Mapping[str, int], candidate: Candidate) -> float:
        """Steps along the axes, each axis one long."""
        own = self.places(candidate)
        return sum(
            abs(own[name] - place) / (len(self.values[name]) - 1) for name, place in places.items()
        )


def _ordered(values: list[Any]) -> list[Any]:
    numbers = all(isinstance(value, (int, float)) for value in values)
    return sorted(values) if numbers else values


def guided(
    space: Sequence[Candidate], seed: int
) -> Generator[Sequence[Candidate], list[float | None], None]:
    """The first, others spread evenly, then what the model expects most of, until all are tried."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    axes = Axes(space)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=1))
    left = {each.key: each for each in space}
    worst = 0.0
    batch = [left.pop(each.key) for each in spread(space, FIRST)]
    while batch:
        for candidate, cost in zip(batch, (yield batch), strict=True):
            worst = max(worst, cost or 0.0)
            _tell(study, axes, candidate, worst * PENALTY if cost is None else cost)
        batch = [_proposed(study, axes, left) for _ in range(min(TOGETHER, len(left)))]


def _proposed(study: optuna.Study, axes: Axes, left: dict[str, Candidate]) -> Candidate:
    import optuna

    asked = study.ask(distributions(axes))
    study.tell(asked, state=optuna.trial.TrialState.FAIL)  # what stands in is told instead
    wanted = asked.params
    nearest = min(left.values(), key=lambda each: (axes.distance(wanted, each), each.place))
    return left.pop(nearest.key)


def spread(space: Sequence[Candidate], count: int) -> list[Candidate]:
    """So many candidates at even distances in the order of the space, the first one included."""
    if len(space) <= count:
        return list(space)
    return [space[n * len(space) // count] for n in range(count)]


def distributions(axes: Axes) -> dict[str, optuna.distributions.BaseDistribution]:
    """The axes as Optuna's parameters."""
    from optuna.distributions import IntDistribution

    return {name: IntDistribution(0, len(values) - 1) for name, values in axes.values.items()}


def _tell(study: optuna.Study, axes: Axes, candidate: Candidate, cost: float) -> None:
    import optuna

    study.add_trial(
        optuna.trial.create_trial(
            params=axes.places(candidate), distributions=distributions(axes), value=cost
        )
    )
