"""The workers of a run: started when a launch is first tuned, ended with the run.

Owns how many processes there are and what they are for. Must not know what a tuning is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache

from ttools.interpreter.tuned_launch import TunedLaunch
from ttools.tuner.measure.measuring import Measuring
from ttools.tuner.space.candidate import Candidate
from ttools.tuner.workers.fork_server import Nursery
from ttools.tuner.workers.remote_bench import RemoteBench
from ttools.tuner.workers.serialized_launch import recipe_of
from ttools.tuner.workers.serving import Opening
from ttools.tuner.workers.worker_pool import Executor, local_workers

#: More processes than this compile no faster than the search proposes.
_MOST_COMPILING = 16


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


class Workforce:
    """The executors of a run.

    Args:
        compiling: how many processes compile ahead; by default one for each processor.
        measuring: makes the executor that runs and times configurations; by default one process.
        on_gpu: whether that is done on a GPU.
    """

    def __init__(
        self,
        compiling: int | None = None,
        measuring: Callable[[], Executor] | None = None,
        on_gpu: bool = False,
    ) -> None:
        self._on_gpu = on_gpu
        self._compiling = min(processors(), _MOST_COMPILING) if compiling is None else compiling
        self._make_measuring = measuring
        self._executors: tuple[Executor, Executor | None] | None = None

    def start(self) -> None:
        """Starts the processes now; they take seconds. Without it the first launch does."""
        self._executors = self._executors or self._start()

    def bench(
        self,
        launch: TunedLaunch,
        measuring: Measuring,
        timeout: float,
        expected: Sequence[Candidate] = (),
    ) -> RemoteBench:
        """A bench whose configurations run in workers.

        Args:
            launch: of an autotuned kernel.
            measuring: how configurations are judged.
            timeout: seconds that a configuration may take.
            expected: configurations that may be tried; their compilation may begin.

        Raises:
            CannotSendError: a worker cannot make the launch.
        """
        import torch

        opening = Opening(
            recipe=recipe_of(launch), measuring=measuring, threads=torch.get_num_threads()
        )
        executors = self._executors = self._executors or self._start()
        bench = RemoteBench(opening, measuring.checks, timeout, *executors)
        bench.open(expected)
        return bench

    def _start(self) -> tuple[Executor, Executor | None]:
        nursery = cache(Nursery)  # on the CPU one is for both
        runs, compiles = ("gpu", "compile") if self._on_gpu else ("cpu", "cpu")
        measures = (self._make_measuring or (lambda: local_workers([nursery(kind=runs)])))()
        if self._compiling < 2:
            return measures, None
        return measures, local_workers([nursery(kind=compiles)] * self._compiling)

    def close(self) -> None:
        """Ends all processes."""
        for executor in self._executors or ():
            if executor is not None:
                executor.close()
        self._executors = None
