"""A slot of a pool: one worker process at a time, which has a launch open.

Owns how a worker is asked and ended, and what is said of one that ended. Must not know what comes
of the answers.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal, Protocol

from ttools.core.errors import TtoolsError
from ttools.tuner.workers.serialized_launch import CannotSendError
from ttools.tuner.workers.serving import Answer, Opening, Request

#: How a worker ends: by itself, when its time is over, or by somebody else's SIGKILL.
HowEnded = Literal["crashed", "timed_out", "killed"]
#: Making a launch again: importing its modules, copying its memory.
OPENING_S = 120.0


class WorkerEndedError(TtoolsError):
    """A worker ended, or was ended, before it answered.

    Attributes:
        how: whether it ended by itself.
    """

    def __init__(self, how: HowEnded, message: str) -> None:
        super().__init__(message)
        self.how: HowEnded = how

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.how, self.message)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One request to a worker that has a launch open.

    Attributes:
        timeout: seconds until the worker is ended.
        reference: key of the configuration whose outputs it must have first; empty for none.
        later: whether jobs with waiting callers come first.
    """

    opening: Opening
    request: Request
    timeout: float
    reference: str = ""
    later: bool = False


class WorkerSource(Protocol):
    """Where worker processes come from."""

    def fork(self, variables: Mapping[str, str] = ..., /) -> tuple[int, Connection]:
        """Return the number of a new process, and the connection to it."""

    def reap(self, number: int) -> int:
        """Return the exit code of a process that has ended, as `subprocess` gives it."""

    def close(self) -> None:
        """End all processes."""


class WorkerSlot:
    """One worker at a time; after the first, the next is forked by the next job that needs it."""

    def __init__(self, server: WorkerSource) -> None:
        self._server = server
        self._process: tuple[int, Connection] | None = None
        self._open = self._reference = ""
        self._variables: dict[str, str] = {}

    def begin(self) -> None:
        """Starts the first worker, so that it is there, and its GPU awake, when a job comes."""
        with contextlib.suppress(TtoolsError):  # the first job meets it, and says so
            self._process = self._process or self._server.fork()

    def do(self, job: Job) -> Answer:
        """Does a job, with the launch open and the reference established that it needs.

        Where the worker is killed from outside, as by the kernel for want of memory, the job is
        done once more: it may not have been its fault.
        """
        try:
            try:
                answer = self._prepared(job) or self.ask(job.request, job.timeout)
            except TtoolsError as error:
                if not _killed(error):
                    raise
                answer = self._prepared(job) or self.ask(job.request, job.timeout)
        except TtoolsError as error:
            return Answer(error=error)
        if answer.device_lost:
            self.end()
        return answer

    def _prepared(self, job: Job) -> Answer | None:
        """The answer that there is instead of the job's, if the reference cannot be had."""
        self._be_given(job.opening.variables)
        if self._open != job.opening.launch.name:
            try:
                opened = self.ask(job.opening, OPENING_S)
            except WorkerEndedError as error:
                raise CannotSendError(f"a worker that was to make the launch {error}") from error
            if opened.error is not None:
                self.end()
                text = f"a worker cannot make the launch: {opened.error}"
                raise CannotSendError(text) from opened.error
            self._open, self._reference = job.opening.launch.name, ""
        if job.reference and self._reference != job.reference:
            first = Request("establish", (job.reference,), job.request.configs)
            found = self.ask(first, job.timeout)
            if found.error is not None:
                return found
            self._reference = job.reference
        return None

    def _be_given(self, variables: Mapping[str, str]) -> None:
        """Has the worker these variables: a driver reads them once, so another one is forked."""
        if variables != self._variables:
            self._variables = dict(variables)
            if self._process is not None:
                self.end()

    def ask(self, message: Any, timeout: float) -> Answer:
        """What the worker answers.

        Args:
            message: anything that pickle can write.
            timeout: seconds, after which the worker is ended.

        Raises:
            WorkerEndedError: it gives no answer, and is gone.
            TtoolsError: no worker can be started.
        """
        self._process = self._process or self._server.fork(self._variables)
        _, connection = self._process
        try:
            connection.send(message)
            if connection.poll(timeout):
                answer: Answer = connection.recv()
                return answer
        except (EOFError, OSError) as error:
            code = self.end()
            how: HowEnded = "killed" if code == -signal.SIGKILL else "crashed"
            raise WorkerEndedError(how, _ending(code)) from error
        self.end()
        raise WorkerEndedError("timed_out", f"did not end within {timeout:g} s")

    def end(self) -> int:
        """Ends the worker if it still runs; its exit code."""
        assert self._process is not None
        (number, connection), self._process = self._process, None
        self._open = self._reference = ""
        connection.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        with contextlib.suppress(TtoolsError):
            return self._server.reap(number)
        return -signal.SIGKILL  # the fork server is closed, and took it along


def _killed(error: BaseException | None) -> bool:
    """Whether a worker was killed, also while it was to make the launch."""
    if isinstance(error, CannotSendError):
        error = error.__cause__
    return isinstance(error, WorkerEndedError) and error.how == "killed"


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended its process with exit status {code}"
    number = -code
    try:
        name, meaning = signal.Signals(number).name, signal.strsignal(number)
    except ValueError:
        return f"ended its process by signal {number}"
    return f"ended its process: {meaning} ({name})"
