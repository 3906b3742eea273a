"""Worker processes that are forks of the script's process, for launches that cannot be serialized.

A fork has everything that the launch needs, also what belongs to one process: locks, open files,
sockets. It is for the CPU alone, as a CUDA context does not survive a fork. Of the threads of the
script only the one that forks goes on in the worker, so a fork is less safe than a worker of a
`ForkServer`: whoever waits for a lock that another thread held does not answer, and is ended when
its time is over.
"""

from __future__ import annotations

import contextvars
import faulthandler
import os
import signal
import socket
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import Any, NoReturn

from ttools.core.errors import TtoolsError
from ttools.tuner.measure.bench import Bench
from ttools.tuner.measure.measuring import Measuring
from ttools.tuner.workers.fork_server_main import die_with, silence
from ttools.tuner.workers.remote_bench import RemoteBench
from ttools.tuner.workers.serialized_launch import SerializedLaunch
from ttools.tuner.workers.serving import Opening, serve_bench
from ttools.tuner.workers.worker_pool import Pools, local_workers


class ScriptForks:
    """Forks this process for each worker that is asked for.

    Args:
        make_bench: Makes the bench of the launch, in the context in which this object was made.
        configs: The configurations of the launch.
    """

    def __init__(self, make_bench: Callable[[], Bench], configs: Sequence[Any]) -> None:
        self._make_bench, self._configs = make_bench, configs
        self._context = contextvars.copy_context()

    def fork(self, variables: Mapping[str, str] = MappingProxyType({})) -> tuple[int, Connection]:
        """Return the number of a new process and the connection to it.

        Raises:
            TtoolsError: This process cannot be forked.
        """
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        try:
            with warnings.catch_warnings():  # that there are threads is known
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
        except OSError as error:
            ours.close()
            theirs.close()
            raise TtoolsError(f"this process cannot be forked: {error}") from error
        if child == 0:
            self._work(parent, ours, theirs)
        theirs.close()
        return child, Connection(ours.detach())

    def _work(self, parent: int, ours: socket.socket, theirs: socket.socket) -> NoReturn:
        status = 1
        try:
            ours.close()
            die_with(parent)
            os.setsid()  # Ctrl-C is the script's to handle
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            silence(1)
            faulthandler.disable()  # a crash is reported by whoever waits for the answer
            silence(2)
            connection = Connection(theirs.detach())
            self._context.run(serve_bench, connection, self._make_bench, self._configs)
            status = 0
        finally:
            os._exit(status)

    def reap(self, number: int) -> int:
        """Return the exit code of a worker that has ended, as `subprocess` gives it."""
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])

    def close(self) -> None:
        """Do nothing: a worker ends when its connection does."""


def bench_in_forks(
    make_bench: Callable[[], Bench], configs: Sequence[Any], measuring: Measuring, timeout: float
) -> RemoteBench:
    """Return a bench whose configurations run in forks of this process, one at a time.

    Args:
        make_bench: Makes the bench of the launch in this process.
        configs: The configurations of the launch.
        measuring: How they are measured.
        timeout: Seconds that a configuration may take, compilation included.

    Raises:
        TtoolsError: This process cannot be forked, or the forks do not answer.
    """
    pools = Pools(local_workers([ScriptForks(make_bench, configs)]))
    nothing = SerializedLaunch(payload=b"", memory=(), path=(), folder="", lines={})
    opening = Opening(launch=nothing, measuring=measuring, threads=1)
    bench = RemoteBench(opening, timeout, pools, ends_pools=True)
    try:
        bench.open()
    except TtoolsError:
        bench.close()
        raise
    return bench
