"""All configurations of a short launch are timed when they are compiled; the workers are fakes."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
import triton
from tests.tuner.workers.test_remote_bench import FACTS, Workers, bench_of

from ttools.tuner.measure.trial import Trial
from ttools.tuner.options import EFFORTS, Effort, TuneOptions
from ttools.tuner.space.candidate import candidates
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry
from ttools.tuner.tuning import Tuning, TuningResult
from ttools.tuner.workers.serving import Answer
from ttools.tuner.workers.worker_slot import Job

SPACE = candidates([triton.Config({"BLOCK": 16 * n}) for n in range(1, 41)])
#: The fastest configuration, at a position where a search would not try it.
BEST = SPACE[23]
PROBLEM = Problem(kernel="k", source="s", key='{"n": 1, "dtypes": []}', device="d", versions="v")


class Measures(Workers):
    """Times configurations, each at a multiple of `shortest`."""

    def __init__(self, shortest: float) -> None:
        super().__init__(1, lambda job: self.tried(job))
        self.shortest = shortest

    def tried(self, job: Job) -> Answer:
        seconds = {config.key: self.shortest * (1 if config is BEST else 2) for config in SPACE}
        if job.request.name == "final":
            return Answer(value={key: [seconds[key]] * 45 for key in job.request.keys})
        (key,) = job.request.keys
        values = next(config.values for config in SPACE if config.key == key)
        samples = (seconds[key],)
        return Answer(value=Trial(values=values, status="ok", samples=samples, reference="first"))


class Compiles(Workers):
    """Never finishes some configurations."""

    def __init__(self, stuck: tuple[str, ...] = ()) -> None:
        super().__init__(8, lambda job: Answer(value={job.request.keys[0]: FACTS}))
        self.stuck = stuck

    def submit(self, job: Job) -> Future[Answer]:
        return Future() if job.request.keys[0] in self.stuck else super().submit(job)


def tune(
    measures: Measures,
    compiles: Compiles,
    options: TuneOptions | None = None,
    stored_entry: TuningEntry | None = None,
    expects: bool = True,
) -> TuningResult:
    result = TuningResult(problem=PROBLEM, space=len(SPACE), location=("f.py", 1))
    bench = bench_of(measures, compiles)
    if expects:
        bench.expect(SPACE)
    entry = stored_entry or TuningEntry(problem=PROBLEM)
    save: Any = lambda trial: None  # noqa: E731
    Tuning(result, SPACE, bench, options or TuneOptions(), entry, save).run()
    return result


@pytest.mark.parametrize("effort", EFFORTS)
def test_all_configurations_of_a_short_launch_are_tried(effort: Effort) -> None:
    measures = Measures(1e-4)
    result = tune(measures, Compiles(), TuneOptions(effort=effort))
    attempts = [key for name, *key in measures.asked if name == "attempt"]
    assert len(result.trials) == len(attempts) == len(SPACE)
    assert result.winner is BEST


@pytest.mark.parametrize(
    ("shortest", "options", "tried"),
    [
        (0.1, TuneOptions(), 32),
        (1e-4, TuneOptions(trials=7), 7),
        (1e-4, TuneOptions(search="exhaustive"), 40),
        (0.1, TuneOptions(effort="quick"), 16),
        (0.1, TuneOptions(effort="full"), 40),
    ],
)
def test_only_some_configurations_of_long_launches_are_tried(
    shortest: float, options: TuneOptions, tried: int
) -> None:
    assert len(tune(Measures(shortest), Compiles(), options).trials) == tried


def test_slow_compilations_are_rejected_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ttools.tuner.workers.remote_bench._LEAST_WAITING_S", 0.1)
    stuck = SPACE[3], SPACE[-1]
    result = tune(Measures(1e-4), Compiles(tuple(config.key for config in stuck)))
    left_out = {key: trial for key, trial in result.trials.items() if trial.status != "ok"}
    assert {*left_out} == {config.key for config in stuck}
    assert all(trial.status == "timed_out" for trial in left_out.values())
    assert all("far longer to compile" in trial.reason for trial in left_out.values())
    again = Measures(1e-4)
    assert tune(again, Compiles(), stored_entry=result.entry(), expects=False).winner is BEST
    assert again.asked == []


def test_a_configuration_that_is_new_to_the_store_is_the_only_one_tried() -> None:
    result = tune(Measures(1e-4), Compiles())
    del result.trials[SPACE[7].key]
    again = Measures(1e-4)
    assert len(tune(again, Compiles(), stored_entry=result.entry(), expects=False).trials) == 40
    attempts = [key for name, *key in again.asked if name == "attempt"]
    assert attempts == [[SPACE[7].key]]


@pytest.mark.parametrize(("effort", "rounds"), [("quick", 9), ("default", 9), ("full", 45)])
def test_the_highest_level_compares_finalists_more_often(effort: Effort, rounds: int) -> None:
    class Equal(Measures):
        """Returns the same time for all configurations."""

        def tried(self, job: Job) -> Answer:
            round_counts.append(job.request.rounds)
            if job.request.name == "final":
                return Answer(value={key: [0.1] * rounds for key in job.request.keys})
            answer = super().tried(job)
            return replace(answer, value=replace(answer.value, samples=(0.1,)))

    round_counts: list[int] = []
    result = tune(Equal(0.1), Compiles(), TuneOptions(effort=effort))
    assert round_counts[-1] == rounds
    assert len(result.final) > 1


def test_a_lower_level_uses_results_of_a_higher_one() -> None:
    stored = tune(Measures(1e-4), Compiles()).entry()
    result = TuningResult(problem=PROBLEM, space=len(SPACE), location=("f.py", 1))
    quick, nobody = TuneOptions(effort="quick"), Any
    tuning = Tuning(result, SPACE, nobody, quick, stored, lambda trial: None)  # type: ignore[arg-type]
    assert tuning.recall(), "the stored result suffices"
    assert result.winner is BEST
    assert len(result.trials) == 40
    assert result.new == set()


def test_a_higher_level_continues_from_a_lower_one() -> None:
    quick = tune(Measures(0.1), Compiles(), TuneOptions(effort="quick"))
    assert len(quick.trials) == 16
    again = Measures(0.1)
    full = tune(again, Compiles(), TuneOptions(effort="full"), quick.entry())
    assert len(full.trials) == 40
    assert full.new == {config.key for config in SPACE} - quick.trials.keys()
    assert full.winner is BEST
    some = tune(Measures(0.1), Compiles(), TuneOptions(), quick.entry())
    assert quick.trials.keys() < some.trials.keys()
    assert len(some.trials) == 32


def test_a_stored_winner_is_not_replaced_after_fewer_trials() -> None:
    stored = tune(Measures(0.1), Compiles(), TuneOptions(effort="full")).entry()
    for options in (TuneOptions(trials=3), TuneOptions(trials=1, effort="quick")):
        result = tune(measures := Measures(0.1), Compiles(), options, stored)
        assert result.winner is BEST
        assert result.new == set()
        assert measures.asked == []
        assert len(result.trials) <= 4
    hidden = replace(stored, trials=[trial for trial in stored.trials if trial.key != BEST.key])
    assert tune(Measures(0.1), Compiles(), TuneOptions(trials=3), hidden).winner is not BEST


def test_configurations_that_share_a_trial_use_little_of_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Same(Measures):
        """Returns the trial of the first configuration for all."""

        def tried(self, job: Job) -> Answer:
            answer = super().tried(job)
            if job.request.name == "attempt" and job.request.keys[0] != SPACE[0].key:
                return replace(answer, value=replace(answer.value, same_as=SPACE[0].key))
            return answer

    monkeypatch.setattr("ttools.tuner.options.QUICK", 6)
    assert len(tune(Same(0.1), Compiles(), TuneOptions(trials=3)).trials) == 40
    assert len(tune(Same(0.1), Compiles(), TuneOptions(effort="quick")).trials) == 4 * 6
