"""Worker processes: starting them, sending requests, limiting their resources, ending them.

A worker answers requests that it receives over a `Channel`. It is a fork of this process
(`fork_worker`), a new interpreter (`spawn_worker`), or is started by other code, for example by a
server that forks. `Worker` handles all of them in the same way:

- An answer has a deadline. A worker that exceeds it is killed.
- The end of a worker is detected immediately, even if a process that it started keeps the
  connection open. The error says how the worker ended, see `exit_text`.
- A worker leads a process group, which is killed together with it. The system kills a worker when
  the thread that started it ends for any reason. If this process is killed, only the processes that
  a worker itself has started continue to run.

The limits protect against accidents and simple tricks, but a worker that is not isolated has all
rights of its user. Messages of an untrusted worker must be read by a `DataCodec`, which never runs
code.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, Literal, NoReturn

from ttools.core.process.channel import (
    LONGEST,
    Channel,
    Codec,
    DataCodec,
    MessageTooLongError,
    WorkerGoneError,
    WorkerSlowError,
    codec_of_name,
    wait,
)
from ttools.core.process.child_environment import without_run
from ttools.core.process.isolation import isolate
from ttools.core.process.phases import current_work

_CLONE_NEWNET, _CLONE_NEWUSER, _PR_SET_PDEATHSIG = 0x40000000, 0x10000000, 1
#: Maximum time to wait for the end of a worker after its connection was closed.
_DEATH_S = 2.0
_TICK_S = 0.005
#: Interval at which the time limit of the phase is checked while an answer is awaited.
_PHASE_TICK_S = 0.1
#: Number of bytes at the end of a worker's standard error that are kept.
_KEPT_BYTES = 8000
#: Variables that name folders of the user to which programs write, outside the home folder.
_FOLDERS_OF_USER = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
#: The program that a new interpreter runs. It sets the import path to that of this process, without
#: the script's folder.
_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; "
    "from ttools.core.process.worker import _serve_new_interpreter as serve; serve()"
)

Serve = Callable[[Channel], int | None]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The resources that a worker may use, and the handling of its output.

    Attributes:
        seconds: Time limit for an answer; None for no limit.
        memory: Bytes in addition to those that the process has when it starts; None for no limit.
        answer_bytes: Maximum length of an answer in bytes; the worker ends if it sends a longer
            one.
        cpu_seconds: Limit of the CPU time of the worker and of each process that it starts, in
            seconds; None for no limit.
        network: If False, the process loses network access where the system allows that.
        own_folder: If True, the process works in a temporary folder, which is removed when the
            process ends.
        isolated: If True, the process gets its own namespaces, see `isolation.py`. This requires
            `own_folder` and a system that permits it, see `missing_isolation`. The temporary folder
            is also the home folder of the process.
        cache: Folder for compiled kernels, including those of Triton, which stays writable; None
            for the user's cache folder.
        processes: Maximum number of processes and threads, on systems that count them.
        output: If "shown", standard output goes to that of this process.
        errors: Treatment of standard error; "kept" makes its text available as `Worker.errors`.
    """

    seconds: float | None = None
    memory: int | None = None
    answer_bytes: int = LONGEST
    cpu_seconds: int | None = None
    network: bool = True
    own_folder: bool = False
    isolated: bool = False
    cache: str | None = None
    processes: int | None = None
    output: Literal["shown", "dropped"] = "dropped"
    errors: Literal["shown", "kept", "dropped"] = "shown"


class Worker:
    """A process that answers requests.

    Args:
        channel: The connection to the process.
        pid: Process id of the worker.
        reap: Function that waits for the end of the process and returns its exit code as
            `subprocess` does; None if the code is unknown.
        seconds: Default time limit for an answer; None for no limit.
        errors: The file that receives standard error, if that is kept.
        folder: A folder to remove at the end.

    Attributes:
        code: The exit code, once a request has failed or `end` was called.
    """

    def __init__(
        self,
        channel: Channel,
        pid: int,
        reap: Callable[[], int | None],
        *,
        seconds: float | None = None,
        errors: IO[bytes] | None = None,
        folder: str | None = None,
    ) -> None:
        self.channel, self.pid, self.seconds = channel, pid, seconds
        self.code: int | None = None
        self._reap, self._errors, self._folder = reap, errors, folder
        self._is_ended = False
        with contextlib.suppress(OSError, AttributeError):  # no such process, or no such function
            channel.death = os.pidfd_open(pid)

    def send(self, request: Any, seconds: float | None = None) -> None:
        """Send a request, whose answer `receive` returns.

        Args:
            seconds: Time limit for the transfer; by default the time limit for answers.

        Raises:
            WorkerGoneError: The process has ended; the message says how.
            WorkerSlowError: The time limit was exceeded, and the process was killed.
        """
        try:
            self.channel.send(request, self._limit(seconds))
        except WorkerGoneError as error:
            raise self._gone(error) from None
        except WorkerSlowError:
            raise self._slow(self._limit(seconds)) from None

    def receive(self, seconds: float | None = None) -> Any:
        """Return the answer to the earliest unanswered request.

        Args:
            seconds: Time limit for this answer; by default that of the worker.

        Raises:
            WorkerGoneError: The process has ended; the message says how.
            WorkerSlowError: The time limit was exceeded, and the process was killed.
        """
        try:
            return self.channel.receive(self._limit(seconds))
        except WorkerGoneError as error:
            raise self._gone(error) from None
        except WorkerSlowError:
            raise self._slow(self._limit(seconds)) from None

    def ask(self, request: Any, seconds: float | None = None) -> Any:
        """Send a request and return its answer, see `send` and `receive`."""
        self.send(request, seconds)
        return self.receive(seconds)

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until the process ends by itself; return its exit code.

        Raises:
            WorkerSlowError: The time limit was exceeded, and the process was killed.
        """
        if not self._has_ended_within(seconds):
            raise self._slow(seconds)
        return self.end()

    def end(self) -> int | None:
        """Kill the process and its group; return the exit code, or None if it is not known."""
        if self._is_ended:
            return self.code
        self._is_ended = True
        _kill(self.pid)
        self.channel.close()
        self.code = self._reap()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        return self.code

    @property
    def errors(self) -> str:
        """Return the last part of the process's output to standard error, if that is kept."""
        if self._errors is None:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - _KEPT_BYTES, 0))
        return self._errors.read().decode(errors="replace")

    def forget_errors(self) -> None:
        """Discard everything that the process has written to standard error so far."""
        if self._errors is not None:
            self._errors.truncate(0)

    def _limit(self, seconds: float | None) -> float | None:
        return self.seconds if seconds is None else seconds

    def _gone(self, error: WorkerGoneError) -> WorkerGoneError:
        if isinstance(error, MessageTooLongError):  # the process waits until it has sent all of it
            self.end()
            return MessageTooLongError(error.message, self.code)
        is_over = self._is_ended
        if is_over or not self._has_ended_within(_DEATH_S):
            self.end()
            return WorkerGoneError("the process has ended" if is_over else error.message, self.code)
        self.end()
        return WorkerGoneError(f"the process {exit_text(self.code)}", self.code)

    def _slow(self, seconds: float | None) -> WorkerSlowError:
        self.end()
        return WorkerSlowError(f"no answer within {round(seconds or 0, 2):g} s")

    def _has_ended_within(self, seconds: float | None) -> bool:
        if self.channel.death is not None:
            poll = select.poll()
            poll.register(self.channel.death, select.POLLIN)
            return bool(poll.poll(None if seconds is None else seconds * 1e3))
        until = None if seconds is None else time.monotonic() + seconds
        while not _is_over(self.pid):  # Linux before 5.3 has no process descriptor to poll
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(_TICK_S)
        return True


def answer_of(worker: Worker, request: Any) -> Any:
    """Send a worker its only request and return the answer; terminate the worker in any case.

    Raises:
        PhaseStopped: The time limit of this thread's phase was reached.
        WorkerGoneError: The process has ended; the message says how.
    """
    work = current_work()
    try:
        worker.send(request, None if work is None else work.phase.seconds_left)
        while not wait([worker.channel], _PHASE_TICK_S):
            if work is not None:
                work.tick()
        return worker.receive()
    except WorkerSlowError:  # the worker did not read the request within the phase's time limit
        if work is not None:
            work.tick()
        raise
    finally:
        worker.end()


def exit_text(code: int | None) -> str:
    """Return a description of an exit code, with the name of a signal if one killed the process.

    Args:
        code: The exit status, or a negated signal number; None if unknown.
    """
    if code is None:
        return "has ended"
    if code >= 0:
        return f"ended with exit status {code}"
    try:
        name, meaning = signal.Signals(-code).name, signal.strsignal(-code)
    except ValueError:
        return f"was killed by signal {-code}"
    if code == -signal.SIGKILL:
        meaning = "sent by another process, or by the system when memory or CPU time runs out"
    return f"was killed by {name} ({meaning})"


# --- starting a worker ---------------------------------------------------------------------------

#: The connections of this process to workers; a forked process must close its copies of them.
_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


def fork_worker(serve: Serve, limits: Limits, codec: Codec | None = None) -> Worker:
    """Start a worker as a fork of this process.

    Only the calling thread continues in the fork. A lock that another thread holds stays locked in
    the fork, so the fork of a multi-threaded process may hang. In that case, it is killed when the
    deadline of an answer has passed.

    Args:
        serve: Function that reads requests from a channel and answers them until the channel is
            closed. It returns the exit status, or None for 0.
        codec: The encoding of messages; plain data by default.

    Raises:
        OSError: This process cannot be forked.
    """
    ours, theirs = socket.socketpair()
    folder = tempfile.mkdtemp(prefix="ttools-worker-") if limits.own_folder else None
    errors = _errors_file() if limits.errors == "kept" else None
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    parent = os.getpid()
    try:
        with warnings.catch_warnings():  # Python warns about forks of multi-threaded processes
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    except OSError:
        for end in (ours, theirs):
            end.close()
        raise
    if pid == 0:
        ours.close()
        for other in list(_channels):
            other.close()
        descriptor = None if errors is None else errors.fileno()
        serve_and_leave(serve, theirs, codec or DataCodec(), parent, limits, folder, descriptor)
    theirs.close()
    channel = Channel(ours, codec or DataCodec(), limits.answer_bytes)
    _channels.add(channel)

    def reap() -> int | None:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # the process has been reaped elsewhere
            return None

    return Worker(channel, pid, reap, seconds=limits.seconds, errors=errors, folder=folder)


def spawn_worker(
    function: str, arguments: Sequence[str], limits: Limits, codec: Codec | None = None
) -> Worker:
    """Start a worker as a new Python interpreter.

    Args:
        function: The function to run, as `module:name`. It is called with a channel and the
            arguments, and returns the exit status, or None for 0.
        codec: The encoding of messages; plain data by default.

    Raises:
        OSError: No process can be started.
    """
    ours, theirs = socket.socketpair()
    folder = tempfile.mkdtemp(prefix="ttools-worker-") if limits.own_folder else None
    errors = _errors_file() if limits.errors == "kept" else None
    path = [entry for entry in sys.path if entry]
    order = {
        "function": function,
        "arguments": list(arguments),
        "descriptor": theirs.fileno(),
        "parent": os.getpid(),
        "limits": asdict(limits),
        "folder": folder,
        "codec": (codec or DataCodec()).name(),
    }
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=path), json.dumps(order)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=None if limits.output == "shown" else subprocess.DEVNULL,
            stderr={"shown": None, "kept": errors, "dropped": subprocess.DEVNULL}[limits.errors],
            start_new_session=True,
            env=without_run(os.environ),
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    channel = Channel(ours, codec or DataCodec(), limits.answer_bytes)
    _channels.add(channel)
    reap = process.wait
    return Worker(channel, process.pid, reap, seconds=limits.seconds, errors=errors, folder=folder)


def _errors_file() -> IO[bytes]:
    """Return a temporary file to which several processes can append."""
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the worker owns it
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    return file


def _is_over(pid: int) -> bool:
    """Return whether a process has ended, even if it has not been reaped."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"


def _kill(pid: int) -> None:
    """Kill a process and the group that it leads, if it leads one already."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


# --- in the worker -------------------------------------------------------------------------------


def end_with_parent(parent: int) -> None:
    """Make the system kill this process when the thread that started it ends.

    A process in an endless loop would not detect by itself that its parent has ended.

    Args:
        parent: Process id of the parent, which may have ended by now.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def silence(descriptor: int) -> None:
    """Redirect a descriptor to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def serve_and_leave(
    serve: Serve,
    connection: socket.socket,
    codec: Codec,
    parent: int,
    limits: Limits,
    folder: str | None = None,
    errors: int | None = None,
) -> NoReturn:
    """Turn this process into a worker; never returns.

    Args:
        serve: Function that answers the requests (see `fork_worker`).
        connection: The connection to the process that sends requests.
        parent: Process id of the parent.
        folder: The working directory; None to keep the current one.
        errors: File descriptor to which standard error is redirected; if None, `limits.errors`
            determines what happens to standard error.
    """
    status = 1
    try:
        end_with_parent(parent)
        with contextlib.suppress(OSError):
            os.setsid()  # Ctrl-C must reach only the parent, which ends this process group
        faulthandler.disable()  # the process that awaits the answer reports crashes
        silence(0)
        if limits.output == "dropped":
            silence(1)
        if errors is not None:
            os.dup2(errors, 2)
        elif limits.errors == "dropped":
            silence(2)
        _contain(limits, folder)
        status = serve(Channel(connection, codec)) or 0
    except WorkerGoneError:  # the other end has closed the connection
        status = 0
    except BaseException:  # noqa: BLE001 - the process ends
        with contextlib.suppress(OSError):  # the script may have replaced sys.stderr
            os.write(2, traceback.format_exc().encode(errors="backslashreplace"))
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


def _contain(limits: Limits, folder: str | None) -> None:
    # Crashes are expected, so no core files are written.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.cache is not None:
        os.environ["TTOOLS_CACHE_DIR"] = str(Path(limits.cache) / "ttools")
        os.environ["TRITON_CACHE_DIR"] = str(Path(limits.cache) / "triton")
    if limits.isolated and folder is not None:
        writable = () if limits.cache is None else (limits.cache,)
        isolate(folder, writable, network=limits.network)
    if folder is not None:
        os.chdir(folder)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        if limits.isolated:
            _move_home(folder)
    if limits.memory is not None:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + limits.memory
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if limits.cpu_seconds is not None:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds))
    if limits.processes is not None:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))
    if not limits.network and not limits.isolated:
        # If users may not create namespaces, the network remains available.
        ctypes.CDLL(None).unshare(_CLONE_NEWUSER | _CLONE_NEWNET)


def _move_home(folder: str) -> None:
    """Make a folder the home folder, in which libraries keep caches and fail if they cannot.

    For example, FlagGems has a database of tuned configurations in `~/.flaggems`.
    """
    os.environ["HOME"] = folder
    for name in _FOLDERS_OF_USER:
        os.environ.pop(name, None)


def _serve_new_interpreter() -> NoReturn:
    order = json.loads(sys.argv[1])
    del sys.argv[1:]
    connection = socket.socket(fileno=order["descriptor"])
    connection.set_inheritable(False)

    def serve(channel: Channel) -> int | None:
        function: Callable[..., int | None] = resolve_name(order["function"])
        return function(channel, *order["arguments"])

    limits, codec = Limits(**order["limits"]), codec_of_name(order["codec"])
    serve_and_leave(serve, connection, codec, order["parent"], limits, order["folder"])
