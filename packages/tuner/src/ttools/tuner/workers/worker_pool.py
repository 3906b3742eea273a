"""Jobs for workers, and the executors that do them: what `concurrent.futures` calls a pool.

An executor has places; each place has one worker at a time, opens the launch that a job is about,
and replaces a worker that ended. Must not know what comes of the answers.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import PriorityQueue
from typing import Protocol

from ttools.core.errors import TtoolsError
from ttools.tuner.workers.fork_server import Nursery, Worker, WorkerEndedError
from ttools.tuner.workers.serialized_launch import CannotSendError
from ttools.tuner.workers.serving import Answer, Opening, Request

#: Making a launch again: importing its modules, copying its memory.
OPENING_S = 120.0
#: In which order places take what waits.
_END, _SOON, _LATER = range(3)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One request to a worker that has a launch open.

    Attributes:
        opening: of the launch.
        request: what is asked.
        timeout: seconds until the worker is ended.
        reference: key of the configuration whose outputs it must have first; empty for none.
        later: whether jobs that somebody waits for come first.
    """

    opening: Opening
    request: Request
    timeout: float
    reference: str = ""
    later: bool = False


class Executor(Protocol):
    """Does jobs, as many at a time as it has places."""

    @property
    def places(self) -> int:
        """How many jobs are done at a time."""

    def submit(self, job: Job) -> Future[Answer]:
        """Does a job; the error of an answer may be a `WorkerEndedError`."""

    def close(self) -> None:
        """Ends all workers, whatever they do."""


class Place:
    """One worker at a time.

    Args:
        nursery: where workers come from.
    """

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._worker: Worker | None = None
        self._open = self._reference = ""

    def do(self, job: Job) -> Answer:
        """Does a job; the next worker is forked by the next job that needs one."""
        try:
            worker = self._worker or self._nursery.worker()
            self._worker = worker
            return self._ask(worker, job)
        except WorkerEndedError as error:
            self._worker, self._open, self._reference = None, "", ""
            return Answer(error=error)
        except TtoolsError as error:
            self._worker = None
            return Answer(error=error)

    def _ask(self, worker: Worker, job: Job) -> Answer:
        if self._open != job.opening.recipe.name:
            try:
                answer: Answer = worker.ask(job.opening, OPENING_S)
            except WorkerEndedError as error:
                raise CannotSendError(f"a worker that was to make the launch {error}") from error
            if answer.error is not None:
                raise CannotSendError(f"a worker cannot make the launch: {answer.error}")
            self._open, self._reference = job.opening.recipe.name, ""
        if job.reference and self._reference != job.reference:
            answer = worker.ask(Request("establish", (job.reference,)), job.timeout)
            if answer.error is not None:
                return answer
            self._reference = job.reference
        answered: Answer = worker.ask(job.request, job.timeout)
        if answered.spoiled:
            worker.end()
            self._worker, self._open, self._reference = None, "", ""
        return answered


class AnyPlace(Protocol):
    """Does one job at a time; see `Place`."""

    def do(self, job: Job) -> Answer:
        """Does a job."""


class PlacedWorkers:
    """An executor over places, each with a thread that waits for it, so that none stalls another.

    Args:
        places: what does the jobs.
        end: ends all workers, whatever they do.
    """

    def __init__(self, places: Sequence[AnyPlace], end: Callable[[], None]) -> None:
        self.places = len(places)
        self._end = end
        self._waiting: PriorityQueue[tuple[int, int, Job | None, Future[Answer]]] = PriorityQueue()
        self._order = itertools.count()
        # Daemons: a script has ended when its own threads have.
        self._threads = [
            threading.Thread(target=self._work, args=(place,), daemon=True) for place in places
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> Future[Answer]:
        """Does a job on the next free place."""
        future: Future[Answer] = Future()
        self._waiting.put((_LATER if job.later else _SOON, next(self._order), job, future))
        return future

    def _work(self, place: AnyPlace) -> None:
        while True:
            _, _, job, future = self._waiting.get()
            if job is None:
                return
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(place.do(job))
                except Exception as error:  # noqa: BLE001 - whoever waits must learn of it
                    future.set_exception(error)

    def close(self) -> None:
        """Ends all workers; what is being done fails."""
        self._end()
        for _ in self._threads:
            self._waiting.put((_END, next(self._order), None, Future()))
        for thread in self._threads:
            thread.join()


def local_workers(nurseries: Sequence[Nursery]) -> PlacedWorkers:
    """An executor of processes of this machine.

    Args:
        nurseries: where the worker of each place comes from; closed with the executor.
    """

    def end() -> None:
        for nursery in nurseries:
            nursery.close()

    return PlacedWorkers([Place(each) for each in nurseries], end)


def gpu_workers(devices: Sequence[int]) -> PlacedWorkers:
    """An executor of processes of this machine, one pinned to each of its GPUs.

    Args:
        devices: as the driver counts them; each process sees no other.
    """
    pinned = [{"CUDA_VISIBLE_DEVICES": str(each)} for each in devices]
    return local_workers([Nursery(each, kind="gpu") for each in pinned])
