"""A slot of a worker pool: it has one worker process at a time, which has one launch open."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ttools.core.errors import TtoolsError
from ttools.core.process.channel import WorkerEndedError
from ttools.core.process.worker import Worker
from ttools.tuner.workers.serialized_launch import CannotSendError
from ttools.tuner.workers.serving import Answer, Opening, Request

#: Time limit for recreating a launch in seconds: importing its modules and copying its memory.
OPENING_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request for a worker that has a launch open.

    Attributes:
        timeout: Time limit in seconds, after which the worker is terminated.
        reference: Key of the configuration that the worker must run first as the reference; empty
            if there is none.
        later: If True, this job is done after jobs for which a caller waits.
    """

    opening: Opening
    request: Request
    timeout: float
    reference: str = ""
    later: bool = False


class WorkerSource(Protocol):
    """A source of worker processes."""

    def fork(self, variables: Mapping[str, str] = ..., /) -> Worker:
        """Return a new worker."""

    def close(self) -> None:
        """End all processes."""


class WorkerSlot:
    """Runs one worker at a time; one that has ended is replaced when the next job needs one."""

    def __init__(self, server: WorkerSource) -> None:
        self._server = server
        self._worker: Worker | None = None
        self._open = self._reference = ""
        self._variables: dict[str, str] = {}

    def begin(self) -> None:
        """Start the first worker, so that it and its GPU are ready when a job comes."""
        with contextlib.suppress(TtoolsError):  # the first job raises and reports it, too
            self._worker = self._worker or self._server.fork()

    def do(self, job: Job) -> Answer:
        """Do a job, after opening its launch and establishing its reference if needed.

        If the worker is killed from outside, for example by the operating system because memory is
        short, the job is done once more, because it may not be the cause.
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
        """Prepare the worker; return an answer only if the reference could not be established."""
        self._set_variables(job.opening.variables)
        if self._open != job.opening.launch.name:
            try:
                opened = self.ask(job.opening, OPENING_S)
            except WorkerEndedError as error:
                raise CannotSendError(
                    f"a worker process cannot recreate the launch: {error}"
                ) from error
            if opened.error is not None:
                self.end()
                text = f"a worker process cannot recreate the launch: {opened.error}"
                raise CannotSendError(text) from opened.error
            self._open, self._reference = job.opening.launch.name, ""
        if job.reference and self._reference != job.reference:
            first = Request("establish", (job.reference,), job.request.configs)
            established = self.ask(first, job.timeout)
            if established.error is not None:
                return established
            self._reference = job.reference
        return None

    def _set_variables(self, variables: Mapping[str, str]) -> None:
        """Set the worker's variables; a change needs a new worker, as drivers read them once."""
        if variables != self._variables:
            self._variables = dict(variables)
            self.end()

    def ask(self, message: Any, timeout: float) -> Answer:
        """Send a message to the worker and return its answer.

        Args:
            message: Any object that pickle can write.
            timeout: Time limit in seconds, after which the worker is terminated.

        Raises:
            WorkerEndedError: The worker ended, or was terminated, without an answer.
            TtoolsError: No worker can be started.
        """
        worker = self._worker = self._worker or self._server.fork(self._variables)
        try:
            answer: Answer = worker.ask(message, timeout)
        except WorkerEndedError:
            self.end()
            raise
        return answer

    def end(self) -> None:
        """Terminate the worker, if there is one."""
        if self._worker is not None:
            self._worker.end()
        self._worker, self._open, self._reference = None, "", ""


def _killed(error: BaseException | None) -> bool:
    """Return whether an error says that a worker was killed, even while it prepared the launch."""
    if isinstance(error, CannotSendError):
        error = error.__cause__
    return isinstance(error, WorkerEndedError) and error.how == "killed"
