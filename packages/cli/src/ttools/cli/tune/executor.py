"""`--gpus` and `--ray` of `ttools tune`: where configurations run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ttools.cli.ray_option import read_ray
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.tuner.workers.worker_pool import WorkerPool


def read_executor(
    gpus: str | None, ray: str | None, workers: int | None
) -> Callable[[], WorkerPool] | None:
    """What the options name; None for a process of this machine.

    Raises:
        UsageError: they make no sense, or contradict each other.
    """
    if gpus is None and ray is None:
        return None
    if gpus is not None and ray is not None:
        raise UsageError("--gpus and --ray both say where configurations run; give one of them")
    if workers == 0:
        raise UsageError("--workers 0 runs all in this process; leave it out")
    if gpus is not None:
        return _on_gpus(gpus)
    assert ray is not None
    return _on_ray(ray)


def _on_gpus(text: str) -> Callable[[], WorkerPool]:
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UsageError(f"--gpus {text}: give numbers of GPUs, as in 0,1")
    if not gpu_usable():
        raise UsageError("--gpus: there is no GPU here")
    from ttools.tuner.workers.worker_pool import gpu_workers

    return partial(gpu_workers, [int(word) for word in words])


def _on_ray(text: str) -> Callable[[], WorkerPool]:
    address, actors = read_ray(text, what="configurations", extra="ttools-tuner[ray]")
    from ttools.tuner.workers.ray_workers import ray_workers

    return partial(ray_workers, actors, gpus=1.0 if gpu_usable() else 0.0, address=address)
