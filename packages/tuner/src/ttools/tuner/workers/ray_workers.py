"""A pool on a Ray cluster: an actor for each slot, with worker processes of its own.

Needs the extra `ttools-tuner[ray]`, and ttools on each machine. What crashes or hangs ends a worker
of the actor, never the actor, so a poisoned GPU context is as short-lived as on one machine. Must
not know what a job is about.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.process.channel import WorkerGoneError
from ttools.core.process.ray_cluster import connect
from ttools.tuner.workers.fork_server import ForkServer
from ttools.tuner.workers.serving import Answer, Opening, Request
from ttools.tuner.workers.worker_pool import WorkerPool
from ttools.tuner.workers.worker_slot import Job, WorkerSlot


def ray_workers(slots: int, *, gpus: float = 0.0, address: str | None = None) -> WorkerPool:
    """A pool on a Ray cluster.

    Args:
        slots: how many jobs are done at a time; each has an actor.
        gpus: that each actor has to itself; Ray shows it no other.
        address: of the cluster, as `ray.init` takes it; a local one is started by default. A
            cluster that this program is already connected to is used as it is.

    Raises:
        UsageError: Ray is not installed, or there is no such cluster.
    """
    ray, disconnect = connect(address, extra="ttools-tuner[ray]")
    host = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1)(_Host)
    actors: list[Any] = [host.remote() for _ in range(slots)]

    def end() -> None:
        for actor in actors:
            ray.kill(actor)
        disconnect()

    return WorkerPool([_ActorSlot(ray, actor).do for actor in actors], end)


class _Host:
    """What an actor is: a slot of its machine."""

    def __init__(self) -> None:
        self._slot = WorkerSlot(ForkServer())

    def do(self, opening: Opening, request: Request, timeout: float, reference: str) -> Answer:
        job = Job(opening=opening, request=request, timeout=timeout, reference=reference)
        return self._slot.do(job)


class _ActorSlot:
    """An actor, asked for one job at a time.

    Args:
        actor: a `_Host`.
    """

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self._openings: dict[tuple[str, bool], Any] = {}

    def do(self, job: Job) -> Answer:
        """Does a job; a launch travels to the cluster once."""
        key = (job.opening.launch.name, job.opening.compiles_only)
        if key not in self._openings:
            launch = job.opening.launch.for_other_machines()
            self._openings = {key: self._ray.put(replace(job.opening, launch=launch))}
        try:
            asked = self._actor.do.remote(
                self._openings[key], job.request, job.timeout, job.reference
            )
            answer: Answer = self._ray.get(asked)
        except self._ray.exceptions.RayActorError as error:
            # The machine or the actor itself is gone; Ray starts another one.
            return Answer(error=WorkerGoneError(f"its machine is gone: {error}"))
        except self._ray.exceptions.RayError as error:
            return Answer(error=TtoolsError(f"Ray: {error}"))
        return answer
