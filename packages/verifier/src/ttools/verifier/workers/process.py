"""Worker processes: forked from one that has imported everything, limited, ended when done with.

The limits contain accidents and cheap tricks (no network where the system allows that, a temporary
folder, bounds on memory, files and time). They are no sandbox: the process runs as its user.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ttools.verifier.workers.wire import Channel, WorkerGoneError, WorkerSlowError

_CLONE_NEWNET, _CLONE_NEWUSER, _PR_SET_PDEATHSIG = 0x40000000, 0x10000000, 1

Serve = Callable[[Channel], None]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a worker may use.

    Attributes:
        seconds: for an answer.
        memory: bytes beyond what the process has when it begins; None for any.
        network: whether it keeps its network.
    """

    seconds: float = 120.0
    memory: int | None = 8 << 30
    network: bool = False


class Worker:
    """A process that answers requests.

    Args:
        serve: what it runs: reads requests from a channel and answers them.
        limits: what it may use.
    """

    #: This process' ends of the pipes of all workers.
    _ours: ClassVar[set[int]] = set()

    def __init__(self, serve: Serve, limits: Limits) -> None:
        self.limits = limits
        self.folder = tempfile.mkdtemp(prefix="ttools-verify-")
        requests, answers = os.pipe(), os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            # Nor is what other workers are asked any of its business.
            for each in (requests[1], answers[0], *self._ours):
                os.close(each)
            _run(serve, Channel(requests[0], answers[1]), limits, self.folder)
        os.close(requests[0])
        os.close(answers[1])
        self._channel = Channel(answers[0], requests[1])
        self._ours.update((answers[0], requests[1]))
        self._alive = True

    def send(self, request: dict[str, Any]) -> None:
        """Asks for something, whose answer `receive` gives."""
        self._channel.send(request)

    def receive(self) -> Any:
        """The answer to the earliest request that has none.

        Raises:
            WorkerGoneError: the process died; the message says how.
            WorkerSlowError: it did not answer in time, and was ended.
        """
        try:
            return self._channel.receive(self.limits.seconds)
        except WorkerGoneError as error:
            raise WorkerGoneError(self._obituary() or error.message) from None
        except WorkerSlowError:
            self.end()
            raise WorkerSlowError(f"no answer within {self.limits.seconds:g} s") from None

    def ask(self, request: dict[str, Any]) -> Any:
        self.send(request)
        return self.receive()

    def _obituary(self) -> str:
        if not self._alive:
            return "the process has ended"
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL) if not _has_ended(self.pid) else None
        _, status = os.waitpid(self.pid, 0)
        self._alive = False
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            return f"the process was ended by {name}"
        return f"the process left with status {os.waitstatus_to_exitcode(status)}"

    def end(self) -> None:
        """Ends the process, and removes its folder."""
        if self._alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self._alive = False
        if self._channel.reads in self._ours:
            self._ours.difference_update((self._channel.reads, self._channel.writes))
            self._channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _has_ended(pid: int) -> bool:
    """Whether a child ends within a moment by itself: its pipe is closed before it is dead."""
    import time

    until = time.monotonic() + 2
    while time.monotonic() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        time.sleep(0.005)
    return False


def _run(serve: Serve, channel: Channel, limits: Limits, folder: str) -> None:
    """What the child does; it never returns."""
    status = 1
    try:
        _contain(limits, folder)
        serve(channel)
        status = 0
    except BaseException:  # noqa: BLE001 - the process ends
        status = 1
    finally:
        os._exit(status)


def end_with_parent() -> None:
    """Has the system end this process when the one that began it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _contain(limits: Limits, folder: str) -> None:
    end_with_parent()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.memory is not None:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + limits.memory
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if not limits.network:
        # Where the system lets its users have no namespaces of their own, the network stays.
        ctypes.CDLL(None).unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
