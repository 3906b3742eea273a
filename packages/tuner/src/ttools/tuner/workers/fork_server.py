"""Client of the fork server, a process that starts workers within milliseconds.

The server has already imported everything that workers need, and forks itself for each worker.
`fork_server_main` contains the server's side.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal

from ttools.core.errors import TtoolsError
from ttools.core.process.channel import Channel, PickleCodec
from ttools.core.process.child_environment import without_run
from ttools.core.process.worker import Worker
from ttools.tuner.workers.fork_server_main import FORK, HASH, NUMBER, WAIT

# The current folder is removed from the module path, because a user's file there may shadow any
# module.
_PROGRAM = (
    "import sys; sys.path[:] = list(filter(None, sys.path)); "
    "from ttools.tuner.workers.fork_server_main import main; main(int(sys.argv[1]), sys.argv[2])"
)
#: See `fork_server_main.IMPORTS`.
Kind = Literal["cpu", "gpu", "compile"]
#: Time limit for starting the server, in seconds: imports take several seconds, and more on a busy
#: machine.
_START_S = 120.0
#: Maximum size of an answer in bytes; the hash of all of Triton's files is several thousand bytes
#: long.
_MOST_BYTES = 1 << 16
#: Time limit in seconds for a server to end after its connection was closed.
_DEATH_S = 5.0


def gpu_servers() -> dict[str, ForkServer]:
    """Start the fork servers that a run on a GPU needs, by kind, before the tuner is imported.

    Servers that the run does not use end with this process.
    """
    kinds: tuple[Kind, ...] = ("gpu", "compile")
    return {kind: ForkServer(kind=kind) for kind in kinds}


class ForkServer:
    """The process from which workers are forked.

    Args:
        environment: Environment variables of the workers, in addition to those of this process.
        kind: Purpose of the workers, see `fork_server_main.IMPORTS`.

    Raises:
        TtoolsError: Processes cannot be started; raised on first use.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        kind: Kind = "cpu",
    ) -> None:
        self._lock = threading.Lock()
        self._environment, self._kind = environment, kind
        self._closed = self._served = False
        self._start()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_START_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), self._kind],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # this process handles Ctrl-C
                # Workers compile and time for this process; their launches are not the program's.
                env={**without_run(os.environ), **(self._environment or {})},
            )

    def fork(self, variables: Mapping[str, str] = MappingProxyType({})) -> Worker:
        """Return a new worker.

        If the server was killed, it is started again; its workers ended with it.

        Args:
            variables: Environment variables of the worker, in addition to those of the server.
        """
        request = FORK + json.dumps(dict(variables)).encode()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                number = self._number(request, theirs.fileno())
            except TtoolsError:
                if not self._restarted():
                    ours.close()
                    raise
                number = self._number(request, theirs.fileno())
        self._served = True
        return Worker(Channel(ours, PickleCodec()), number, partial(self._reap, number))

    def _reap(self, number: int) -> int:
        """Return the exit code of a worker that has ended, in the form that `subprocess` uses."""
        with contextlib.suppress(TtoolsError):
            return self._number(WAIT + NUMBER.pack(number))
        return -signal.SIGKILL  # the server was closed, which killed the worker

    def triton_hash(self) -> str:
        """Return the hash of Triton's files, which saves this process from computing it.

        Raises:
            TtoolsError: The server has ended.
        """
        return self._ask(HASH).decode()

    def _restarted(self) -> bool:
        """Restart the server if it died after forking workers; return whether it was restarted."""
        with self._lock:
            if self._closed or not self._served:
                return False
            try:
                self._process.wait(_DEATH_S)
            except subprocess.TimeoutExpired:
                return False
            self._control.close()
            self._start()
            self._served = False  # restart only once: a server that dies at once would do so again
            return True

    def close(self) -> None:
        """End all workers. Closing again does nothing."""
        self._closed = True
        with contextlib.suppress(OSError):  # already closed
            # Unlike `close`, `shutdown` wakes a thread that waits for an answer.
            self._control.shutdown(socket.SHUT_RDWR)
        self._process.terminate()
        self._process.wait()
        with self._lock:
            self._control.close()

    def _number(self, request: bytes, *descriptors: int) -> int:
        return int(NUMBER.unpack(self._ask(request, *descriptors))[0])

    def _ask(self, request: bytes, *descriptors: int) -> bytes:
        with self._lock:
            try:
                socket.send_fds(self._control, [request], descriptors)
                answer = self._control.recv(_MOST_BYTES)
            except OSError as error:
                raise TtoolsError(f"worker processes cannot be started: {error}") from error
        if not answer:
            raise TtoolsError("worker processes cannot be started; see the error above")
        return answer
