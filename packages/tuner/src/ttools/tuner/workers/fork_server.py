"""Starts worker processes within milliseconds, asks them, and ends those that do not answer.

Owns the process that workers are forked from (see `forks`), and what is said of a worker that
ended. Must not know what is asked.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, Literal

from ttools.core.errors import TtoolsError
from ttools.tuner.workers.fork_server_main import FORK, NUMBER, WAIT

# The current folder is no place to import from: a file of a user may have any name.
_PROGRAM = (
    "import sys; sys.path[:] = list(filter(None, sys.path)); "
    "from ttools.tuner.workers.fork_server_main import main; main(int(sys.argv[1]), sys.argv[2])"
)
#: Importing everything takes seconds; on a busy machine many.
_START_S = 120.0


class WorkerEndedError(TtoolsError):
    """A worker ended, or was ended, before it answered.

    Attributes:
        how: whether it ended by itself.
    """

    def __init__(self, how: Literal["crashed", "timed_out"], message: str) -> None:
        super().__init__(message)
        self.how: Literal["crashed", "timed_out"] = how

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.how, self.message)


class Nursery:
    """Where workers come from.

    Args:
        environment: variables that its workers have besides this process's.
        kind: what its workers are for, see `forks.IMPORTS`.

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

    def worker(self) -> Worker:
        """A new worker."""
        ours, theirs = socket.socketpair()
        with theirs:
            number = self._ask(FORK, theirs.fileno())
        return Worker(self, number, Connection(ours.detach()))

    def reap(self, number: int) -> int:
        """The exit code of a worker that has ended, as `subprocess` tells it."""
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


class Worker:
    """A process that answers one request after the other.

    Args:
        nursery: where it comes from.
        number: of the process.
        connection: to it.
    """

    def __init__(self, nursery: Nursery, number: int, connection: Connection) -> None:
        self._nursery, self._number, self._connection = nursery, number, connection

    def ask(self, request: Any, timeout: float) -> Any:
        """What it answers.

        Args:
            request: anything that pickle can write.
            timeout: seconds, after which the worker is ended.

        Raises:
            WorkerEndedError: it gives no answer, and is gone.
        """
        try:
            self._connection.send(request)
            if not self._connection.poll(timeout):
                self.end()
                raise WorkerEndedError("timed_out", f"did not end within {timeout:g} s")
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerEndedError("crashed", _told(self.end())) from error

    def end(self) -> int:
        """Ends it if it still runs; its exit code."""
        self._connection.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._number, signal.SIGKILL)
        with contextlib.suppress(TtoolsError):
            return self._nursery.reap(self._number)
        return -signal.SIGKILL  # the nursery is closed, and took it along


def _told(code: int) -> str:
    if code >= 0:
        return f"ended its process with exit status {code}"
    number = -code
    try:
        name, meaning = signal.Signals(number).name, signal.strsignal(number)
    except ValueError:
        return f"ended its process by signal {number}"
    return f"ended its process: {meaning} ({name})"
