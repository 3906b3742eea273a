"""A worker pool on a Ray cluster, with one actor for each slot.

This requires the extra `ttools-tuner[ray]`, and ttools on each machine. Each actor has its own
worker processes. A crash or a hang ends such a worker, not the actor, so a corrupt GPU context
lasts no longer than on a single machine.
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
    """Return a pool on a Ray cluster.

    Args:
        slots: Number of jobs that run at the same time; each slot has its own actor.
        gpus: Number of GPUs that Ray reserves for each actor.
        address: Address of the cluster, as `ray.init` takes it; None starts a local cluster. If
            this program is already connected to a cluster, that cluster is used.

    Raises:
        UsageError: Ray is not installed, or the cluster cannot be reached.
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
    """The Ray actor, which runs one slot on its machine."""

    def __init__(self) -> None:
        self._slot = WorkerSlot(ForkServer())

    def do(self, opening: Opening, request: Request, timeout: float, reference: str) -> Answer:
        job = Job(opening=opening, request=request, timeout=timeout, reference=reference)
        return self._slot.do(job)


class _ActorSlot:
    """Sends jobs to an actor, one at a time.

    Args:
        actor: Handle of a `_Host` actor.
    """

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self._openings: dict[tuple[str, bool], Any] = {}

    def do(self, job: Job) -> Answer:
        """Do a job; the launch is sent to the cluster only once."""
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
            # The machine or the actor is lost; Ray restarts the actor.
            return Answer(error=WorkerGoneError(f"the machine that ran it was lost: {error}"))
        except self._ray.exceptions.RayError as error:
            return Answer(error=TtoolsError(f"Ray: {error}"))
        return answer
