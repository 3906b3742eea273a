"""A slot of a pool: one worker process at a time, which has a launch open.

Owns when a worker is replaced, and what it is asked before a job.
"""

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

#: Making a launch again: importing its modules, copying its memory.
OPENING_S = 120.0


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

    def fork(self, variables: Mapping[str, str] = ..., /) -> Worker:
        """Return a new worker."""

    def close(self) -> None:
        """End all processes."""


class WorkerSlot:
    """One worker at a time; after the first, the next is forked by the next job that needs it."""

    def __init__(self, server: WorkerSource) -> None:
        self._server = server
        self._worker: Worker | None = None
        self._open = self._reference = ""
        self._variables: dict[str, str] = {}

    def begin(self) -> None:
        """Starts the first worker, so that it is there, and its GPU awake, when a job comes."""
        with contextlib.suppress(TtoolsError):  # the first job meets it, and says so
            self._worker = self._worker or self._server.fork()

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
                raise CannotSendError(f"a worker cannot make the launch: {error}") from error
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
        worker = self._worker = self._worker or self._server.fork(self._variables)
        try:
            answer: Answer = worker.ask(message, timeout)
        except WorkerEndedError:
            self.end()
            raise
        return answer

    def end(self) -> None:
        """End the worker, if there is one."""
        if self._worker is not None:
            self._worker.end()
        self._worker, self._open, self._reference = None, "", ""


def _killed(error: BaseException | None) -> bool:
    """Return whether a worker was killed, also while it was to make the launch."""
    if isinstance(error, CannotSendError):
        error = error.__cause__
    return isinstance(error, WorkerEndedError) and error.how == "killed"
