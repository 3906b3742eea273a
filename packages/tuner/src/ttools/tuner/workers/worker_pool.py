"""Pools of worker processes: what `concurrent.futures` calls an executor.

Owns how many jobs run at a time, and in which order those that wait are taken. Must not know what a
job is about.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from queue import PriorityQueue
from types import MappingProxyType

from ttools.tuner.workers.fork_server import ForkServer, Kind
from ttools.tuner.workers.serving import Answer
from ttools.tuner.workers.worker_slot import Job, WorkerSlot, WorkerSource

#: In which order slots take what waits.
_END, _SOON, _LATER = range(3)
#: More processes than this compile no faster than the search proposes.
_MOST_COMPILING = 16


class WorkerPool:
    """Slots, each with a thread that waits for it, so that none stalls another.

    Args:
        slots: each does one job at a time.
        end: ends all workers, whatever they do.
        begin: what each slot does before its first job, in its thread.
    """

    def __init__(
        self,
        slots: Sequence[Callable[[Job], Answer]],
        end: Callable[[], None] = lambda: None,
        begin: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.slots = len(slots)
        self._end = end
        self._waiting: PriorityQueue[tuple[int, int, Job | None, Future[Answer]]] = PriorityQueue()
        self._order = itertools.count()
        # Daemons: a script has ended when its own threads have.
        self._threads = [
            threading.Thread(target=self._work, args=each, daemon=True)
            for each in zip_longest(slots, begin)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> Future[Answer]:
        """Does a job in the next free slot; the error of its answer may be a `WorkerEndedError`."""
        future: Future[Answer] = Future()
        self._waiting.put((_LATER if job.later else _SOON, next(self._order), job, future))
        return future

    def _work(self, slot: Callable[[Job], Answer], begin: Callable[[], None] | None) -> None:
        if begin is not None:
            begin()
        while True:
            _, _, job, future = self._waiting.get()
            if job is None:
                return
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(slot(job))
                except Exception as error:  # noqa: BLE001 - whoever waits must learn of it
                    future.set_exception(error)

    def close(self) -> None:
        """Ends all workers; what is being done fails."""
        self._end()
        for _ in self._threads:
            self._waiting.put((_END, next(self._order), None, Future()))
        for thread in self._threads:
            thread.join()


def local_workers(servers: Sequence[WorkerSource]) -> WorkerPool:
    """A pool of processes of this machine.

    Args:
        servers: where the worker of each slot comes from; closed with the pool.
    """

    def end() -> None:
        for server in servers:
            server.close()

    slots = [WorkerSlot(each) for each in servers]
    return WorkerPool([each.do for each in slots], end, [each.begin for each in slots])


def gpu_workers(devices: Sequence[int]) -> WorkerPool:
    """A pool of processes of this machine, one pinned to each of its GPUs.

    Args:
        devices: as the driver counts them; each process sees no other.
    """
    pinned = [{"CUDA_VISIBLE_DEVICES": str(each)} for each in devices]
    return local_workers([ForkServer(each, kind="gpu") for each in pinned])


@dataclass(frozen=True)
class Pools:
    """The pools of a run.

    Attributes:
        measures: does what is timed; each of its slots has a device for itself.
        compiles: compiles ahead; None to compile where it is measured.
        triton_hash: gives the hash of Triton's files that processes on a GPU need.
    """

    measures: WorkerPool
    compiles: WorkerPool | None = None
    triton_hash: Callable[[], str] = lambda: ""

    def close(self) -> None:
        for pool in (self.measures, self.compiles):
            if pool is not None:
                pool.close()


def compiling_slots(compiling: int | None) -> int:
    """How many processes compile ahead; none where there is one to do all.

    Args:
        compiling: how many were asked for; None for one for each processor.
    """
    if compiling is None:
        compiling = min(len(os.sched_getaffinity(0)), _MOST_COMPILING)
    return compiling if compiling > 1 else 0


def start_pools(
    compiling: int | None = None,
    measuring: Callable[[], WorkerPool] | None = None,
    on_gpu: bool = False,
    servers: Mapping[str, ForkServer] = MappingProxyType({}),
) -> Pools:
    """Starts the processes of a run, which take seconds until they answer.

    Args:
        compiling: how many processes compile ahead; by default one for each processor.
        measuring: makes the pool that runs and times configurations; by default one process.
        on_gpu: whether that is done on a GPU.
        servers: started already, by kind.
    """

    @cache  # on the CPU one is for both
    def server(kind: Kind) -> ForkServer:
        return servers[kind] if kind in servers else ForkServer(kind=kind)

    runs: Kind = "gpu" if on_gpu else "cpu"
    measures = measuring() if measuring is not None else local_workers([server(runs)])
    slots = compiling_slots(compiling)
    if not slots:
        return Pools(measures)
    compiles = server("compile" if on_gpu else "cpu")
    return Pools(measures, local_workers([compiles] * slots), compiles.triton_hash)
