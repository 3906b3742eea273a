"""Pools of worker processes, similar to the executors of `concurrent.futures`."""

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

#: Priorities of waiting jobs; smaller numbers are taken first.
_END, _SOON, _LATER = range(3)
#: Maximum number of compiling processes, because the search proposes at most this many
#: configurations at a time.
_MOST_COMPILING = 16


class WorkerPool:
    """Slots with one thread each, so that a slow slot does not delay the other slots.

    Args:
        slots: Functions that each do one job at a time, one function per slot.
        end: Function that ends all workers immediately.
        begin: Functions that prepare a slot before its first job, called in the slot's thread.
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
        # Daemon threads do not prevent a script from ending.
        self._threads = [
            threading.Thread(target=self._work, args=slot_and_begin, daemon=True)
            for slot_and_begin in zip_longest(slots, begin)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> Future[Answer]:
        """Do a job in the next free slot; the error of its answer may be a `WorkerEndedError`."""
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
                except Exception as error:  # noqa: BLE001 - passed on to the caller
                    future.set_exception(error)

    def close(self) -> None:
        """End all workers; jobs in progress fail."""
        self._end()
        for _ in self._threads:
            self._waiting.put((_END, next(self._order), None, Future()))
        for thread in self._threads:
            thread.join()


def local_workers(servers: Sequence[WorkerSource]) -> WorkerPool:
    """Return a pool of processes on this machine.

    Args:
        servers: For each slot, the source of its worker, which is closed with the pool.
    """

    def end() -> None:
        for server in servers:
            server.close()

    slots = [WorkerSlot(server) for server in servers]
    return WorkerPool([slot.do for slot in slots], end, [slot.begin for slot in slots])


def gpu_workers(devices: Sequence[int]) -> WorkerPool:
    """Return a pool of processes on this machine, one for each of the given GPUs.

    Args:
        devices: Numbers of the GPUs as the driver counts them; each process sees only its own GPU.
    """
    environments = [{"CUDA_VISIBLE_DEVICES": str(device)} for device in devices]
    return local_workers([ForkServer(environment, kind="gpu") for environment in environments])


@dataclass(frozen=True)
class Pools:
    """The pools of a run.

    Attributes:
        measures: Pool that times configurations; each of its slots has a device to itself.
        compiles: Pool that compiles ahead; None if the measuring processes compile.
        triton_hash: Function that returns the hash of Triton's files, which processes on a GPU
            need.
    """

    measures: WorkerPool
    compiles: WorkerPool | None = None
    triton_hash: Callable[[], str] = lambda: ""

    def close(self) -> None:
        for pool in (self.measures, self.compiles):
            if pool is not None:
                pool.close()


def compiling_slots(compiling: int | None) -> int:
    """Return how many processes compile ahead; 0 if a single process does everything.

    Args:
        compiling: Requested number; None for one per processor.
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
    """Start the processes of a run, which take seconds until they answer.

    Args:
        compiling: Number of processes that compile ahead; None for one per processor.
        measuring: Function that makes the pool that runs and times configurations; None for a pool
            of one process.
        on_gpu: If True, configurations run on a GPU.
        servers: Fork servers that are already started, by kind.
    """

    @cache  # on the CPU, one server serves both pools
    def server(kind: Kind) -> ForkServer:
        return servers[kind] if kind in servers else ForkServer(kind=kind)

    runs: Kind = "gpu" if on_gpu else "cpu"
    measures = measuring() if measuring is not None else local_workers([server(runs)])
    slots = compiling_slots(compiling)
    if not slots:
        return Pools(measures)
    compiles = server("compile" if on_gpu else "cpu")
    return Pools(measures, local_workers([compiles] * slots), compiles.triton_hash)
