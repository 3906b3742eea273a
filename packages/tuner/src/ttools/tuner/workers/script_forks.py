"""Worker processes forked from the script's process, for launches that cannot be serialized.

A fork has everything that the launch needs, including objects that belong to one process, such as
locks, open files and sockets. Forks are used on the CPU only, because a CUDA context does not
survive a fork. A fork is less safe than a worker of a `ForkServer`, because it contains only the
thread that forked: code that waits for a lock which another thread held never returns, and the
worker is terminated after the time limit.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.process.channel import Channel, PickleCodec
from ttools.core.process.worker import Limits, Worker, fork_worker
from ttools.tuner.measure.bench import Bench
from ttools.tuner.measure.measuring import Measuring
from ttools.tuner.workers.remote_bench import RemoteBench
from ttools.tuner.workers.serialized_launch import SerializedCall
from ttools.tuner.workers.serving import Opening, serve_bench
from ttools.tuner.workers.worker_pool import Pools, local_workers


class ScriptForks:
    """Forks this process for each worker.

    Args:
        make_bench: Makes the bench of the launch, in the context in which this object was made.
        configs: The configurations of the launch.
    """

    def __init__(self, make_bench: Callable[[], Bench], configs: Sequence[Any]) -> None:
        self._make_bench, self._configs = make_bench, configs
        self._context = contextvars.copy_context()

    def fork(self, variables: Mapping[str, str] = MappingProxyType({})) -> Worker:
        """Return a new worker.

        Raises:
            TtoolsError: This process cannot be forked.
        """

        def serve(channel: Channel) -> None:
            self._context.run(serve_bench, channel, self._make_bench, self._configs)

        try:
            return fork_worker(serve, Limits(errors="dropped"), PickleCodec())
        except OSError as error:
            raise TtoolsError(f"this process cannot be forked: {error}") from error

    def close(self) -> None:
        """Do nothing, because a worker ends when its connection is closed."""


def bench_in_forks(
    make_bench: Callable[[], Bench], configs: Sequence[Any], measuring: Measuring, timeout: float
) -> RemoteBench:
    """Return a bench whose configurations run in forks of this process, one at a time.

    Args:
        make_bench: Function that makes the bench of the launch in this process.
        configs: The configurations of the launch.
        measuring: Options for measuring the configurations.
        timeout: Time limit for a configuration in seconds, including compilation.

    Raises:
        TtoolsError: This process cannot be forked, or the forks do not answer.
    """
    pools = Pools(local_workers([ScriptForks(make_bench, configs)]))
    nothing = SerializedCall(payload=b"", memory=(), path=(), folder="", lines={})
    opening = Opening(launch=nothing, measuring=measuring, threads=1)
    bench = RemoteBench(opening, timeout, pools, ends_pools=True)
    try:
        bench.open()
    except TtoolsError:
        bench.close()
        raise
    return bench
