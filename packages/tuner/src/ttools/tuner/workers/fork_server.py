"""Starts worker processes within milliseconds, by forking a process that has imported everything.

Owns this side of that process; `fork_server_main` is the other. Must not know what workers do.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Literal

from ttools.core.errors import TtoolsError
from ttools.tuner.workers.fork_server_main import FORK, NUMBER, WAIT

# The current folder is no place to import from: a file of a user may have any name.
_PROGRAM = (
    "import sys; sys.path[:] = list(filter(None, sys.path)); "
    "from ttools.tuner.workers.fork_server_main import main; main(int(sys.argv[1]), sys.argv[2])"
)
#: Importing everything takes seconds; on a busy machine many.
_START_S = 120.0


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
        kind: Literal["cpu", "gpu", "compile"] = "cpu",
    ) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._control.settimeout(_START_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), kind],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is this process's to handle
                env={**os.environ, **(environment or {})},
            )

    def fork(self) -> tuple[int, Connection]:
        """A new worker: the number of its process, and the connection to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            number = self._ask(FORK, theirs.fileno())
        return number, Connection(ours.detach())

    def reap(self, number: int) -> int:
        """The exit code of a worker that has ended, as `subprocess` gives it."""
        return self._ask(WAIT + NUMBER.pack(number))

    def close(self) -> None:
        """Ends all workers. Closing again does nothing."""
        self._control.close()
        self._process.terminate()
        self._process.wait()

    def _ask(self, request: bytes, *descriptors: int) -> int:
        with self._lock:
            try:
                socket.send_fds(self._control, [request], descriptors)
                answer = self._control.recv(64)
            except OSError as error:
                raise TtoolsError(f"worker processes cannot be started: {error}") from error
        if not answer:
            raise TtoolsError("worker processes cannot be started; see the error above")
        return int(NUMBER.unpack(answer)[0])
