"""Starts worker processes within milliseconds, by forking a process that has imported everything.

Owns this side of that process; `fork_server_main` is the other. Must not know what workers do.
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

# The current folder is no place to import from: a file of a user may have any name.
_PROGRAM = (
    "import sys; sys.path[:] = list(filter(None, sys.path)); "
    "from ttools.tuner.workers.fork_server_main import main; main(int(sys.argv[1]), sys.argv[2])"
)
#: See `fork_server_main.IMPORTS`.
Kind = Literal["cpu", "gpu", "compile"]
#: Importing everything takes seconds; on a busy machine many.
_START_S = 120.0
#: Of an answer: a hash of all files is some thousand.
_MOST_BYTES = 1 << 16
#: A server whose connection is closed is about to end.
_DEATH_S = 5.0


def gpu_servers() -> dict[str, ForkServer]:
    """What a run on a GPU forks its workers from, by kind, to begin before the run is imported.

    Those that the run does not use end with this process.
    """
    kinds: tuple[Kind, ...] = ("gpu", "compile")
    return {kind: ForkServer(kind=kind) for kind in kinds}


class ForkServer:
    """The process that workers are forked from.

    Args:
        environment: variables that its workers have besides this process's.
        kind: what its workers are for, see `fork_server_main.IMPORTS`.

    Raises:
        TtoolsError: processes cannot be started here; on first use.
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
                start_new_session=True,  # Ctrl-C is this process's to handle
                # Workers compile and time for this process: their launches are not the program's.
                env={**without_run(os.environ), **(self._environment or {})},
            )

    def fork(self, variables: Mapping[str, str] = MappingProxyType({})) -> Worker:
        """Return a new worker.

        A server that was killed is started again; its workers ended with it.

        Args:
            variables: Variables that the worker has besides the server's.
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
        """Return the exit code of a worker that has ended, as `subprocess` gives it."""
        with contextlib.suppress(TtoolsError):
            return self._number(WAIT + NUMBER.pack(number))
        return -signal.SIGKILL  # the server is closed, and took the worker along

    def triton_hash(self) -> str:
        """The hash of Triton's files, which this process need not make then.

        Raises:
            TtoolsError: the server has ended.
        """
        return self._ask(HASH).decode()

    def _restarted(self) -> bool:
        """Whether the server has died after it had forked workers, and is there again."""
        with self._lock:
            if self._closed or not self._served:
                return False
            try:
                self._process.wait(_DEATH_S)
            except subprocess.TimeoutExpired:
                return False
            self._control.close()
            self._start()
            self._served = False  # not for ever: what dies at once would do so again
            return True

    def close(self) -> None:
        """Ends all workers. Closing again does nothing."""
        self._closed = True
        with contextlib.suppress(OSError):  # closed before
            # A thread that waits for an answer learns of it, as it does not by `close`.
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
