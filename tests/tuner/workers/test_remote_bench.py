"""Requests of a bench to its workers, and their order; the workers are fakes."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
import triton

from ttools.core.errors import TtoolsError
from ttools.tuner.cost.static_cost import StaticFacts
from ttools.tuner.measure.measuring import Measuring
from ttools.tuner.measure.trial import Trial
from ttools.tuner.space.candidate import candidates
from ttools.tuner.workers.remote_bench import RemoteBench, waited_until
from ttools.tuner.workers.serialized_launch import deserialize_configs
from ttools.tuner.workers.serving import Answer, Opening, _add_configs
from ttools.tuner.workers.worker_pool import Pools, WorkerPool
from ttools.tuner.workers.worker_slot import Job

SPACE = candidates([triton.Config({"BLOCK": block}) for block in (16, 32, 64, 128)])
FACTS = StaticFacts(registers=32, spilled=0, shared=0, threads=128, blocks=16, programs=4)


class Workers(WorkerPool):
    """Answers immediately."""

    def __init__(self, slots: int, answer: Callable[[Job], Answer]) -> None:
        super().__init__([])
        self.slots, self._answer = slots, answer
        self.asked: list[tuple[str, ...]] = []

    def submit(self, job: Job) -> Future[Answer]:
        self.asked.append((job.request.name, *job.request.keys))
        future: Future[Answer] = Future()
        future.set_result(self._answer(job))
        return future


def bench_of(measures: Workers, compiles: Workers | None) -> RemoteBench:
    launch: Any = SimpleNamespace(name="launch")
    launch.without_contents = lambda: launch
    opening = Opening(launch=launch, measuring=Measuring(on_gpu=True), threads=1)
    return RemoteBench(opening, 1.0, Pools(measures, compiles))


def test_facts_are_those_of_configurations_compiled_early() -> None:
    broken = SPACE[1].key

    def compiled(job: Job) -> Answer:
        (key,) = job.request.keys
        return Answer(error=TtoolsError("no")) if key == broken else Answer(value={key: FACTS})

    bench = bench_of(Workers(1, lambda job: Answer()), Workers(2, compiled))
    assert bench.facts() == {}
    bench.expect(SPACE)
    assert bench.facts() == {e.key: None if e.key == broken else FACTS for e in SPACE}


def test_compilations_far_longer_than_others_are_not_awaited() -> None:
    class Stuck(Workers):
        """Never finishes the last configuration."""

        def submit(self, job: Job) -> Future[Answer]:
            return Future() if job.request.keys == (SPACE[-1].key,) else super().submit(job)

    compiles = Stuck(2, lambda job: Answer(value={job.request.keys[0]: FACTS}))
    bench = bench_of(Workers(1, lambda job: Answer()), compiles)
    bench.expect(SPACE)
    facts = {e.key: None if e is SPACE[-1] else FACTS for e in SPACE}
    assert bench.facts() == facts
    bench._start -= 100.0  # the request comes long after it was finished
    assert bench.facts() == facts


def test_the_next_trial_starts_before_the_last_result_is_read() -> None:
    def tried(job: Job) -> Answer:
        values = next(config.values for config in SPACE if config.key == job.request.keys[0])
        return Answer(value=Trial(values=values, status="ok", samples=(1.0,), reference="first"))

    measures = Workers(1, tried)
    trials = bench_of(measures, Workers(4, lambda job: Answer())).attempts(SPACE)
    assert next(trials)[0] == SPACE[0]
    assert [name for name, _ in measures.asked] == ["attempt"] * 2
    stopped = bench_of(measures, None).attempts(SPACE, lambda: True)
    assert list(stopped) == []
    assert sorted(candidate.index for candidate, _ in trials) == [1, 2, 3]


def test_each_slot_opens_the_launch_before_anything_is_compiled() -> None:
    order: list[str] = []

    def answer(job: Job) -> Answer:
        order.append(job.request.name)
        return Answer()

    bench = bench_of(Workers(2, answer), Workers(2, answer))
    bench.open(SPACE[:2])
    assert order == ["establish", "establish", "lead", "compile"]


def test_launches_that_cannot_be_opened_are_reported() -> None:
    failing = Workers(1, lambda job: Answer(error=TtoolsError("no memory")))
    with pytest.raises(TtoolsError, match="no memory"):
        bench_of(failing, None).open()


def test_the_first_and_then_the_longest_compilations_start_first() -> None:
    values = ((16, 4), (32, 1), (128, 8), (64, 1))
    space = candidates([triton.Config({"BLOCK": b}, num_warps=w) for b, w in values])
    compiles = Workers(2, lambda job: Answer())
    bench_of(Workers(1, lambda job: Answer()), compiles).expect(space)
    assert [key for _, key in compiles.asked] == [space[n].key for n in (0, 3, 1, 2)]


@pytest.mark.parametrize(
    ("ended", "begun", "until"),
    [
        ([], 8, math.inf),
        # Three of eight: on a slow machine, all others may take as long as the last one.
        ([1.0, 2.0, 300.0], 8, math.inf),
        ([5.0, 1.0, 2.0, 3.0, 4.0, 40.0], 8, 80.0),
        ([3.0, 1.0, 2.0, 50.0], 4, 6.0),
        ([7.0], 1, 14.0),
        ([], 0, math.inf),
    ],
)
def test_long_compilations_are_recognised_by_comparison(
    ended: list[float], begun: int, until: float
) -> None:
    assert waited_until(ended, begun) == until


def test_omitted_parts_of_the_launch_come_with_requests() -> None:
    jobs: list[Job] = []

    def tried(job: Job) -> Answer:
        jobs.append(job)
        values = next(config.values for config in SPACE if config.key == job.request.keys[0])
        return Answer(value=Trial(values=values, status="ok", samples=(1.0,), reference=""))

    launch: Any = SimpleNamespace(name="launch")
    launch.without_contents = lambda: launch
    opening = Opening(launch=launch, measuring=Measuring(), threads=1)
    pools = Pools(Workers(1, tried), None)
    bench = RemoteBench(opening, 1.0, pools, {config.key for config in SPACE[:2]})
    bench.establish(SPACE[3])
    for _ in bench.attempts(SPACE[1:3]):
        pass
    sent = [deserialize_configs(job.request.configs) for job in jobs]
    assert [{candidate.kwargs["BLOCK"] for candidate in some} for some in sent] == [
        {128},
        {64, 128},
    ]
    by_key: dict[str, Any] = {}
    _add_configs(jobs[1].request, by_key)
    assert by_key.keys() == {SPACE[2].key, SPACE[3].key}
