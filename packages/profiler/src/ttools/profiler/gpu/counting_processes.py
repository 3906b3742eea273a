"""Processes that count launches and disassemble kernels while the program runs.

Compiling a counting kernel takes a tenth of a second, and disassembling a kernel takes three times
as long; both take much longer than a launch on a GPU. Each process is started, queried and ended by
its own thread in the program's process, which waits most of the time. The operating system ends a
process when its thread ends.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, overload

from ttools.core.compilation.inspection import Inspection, Readings
from ttools.core.compilation.stages import Compilation
from ttools.core.environment import processors
from ttools.core.errors import TtoolsError
from ttools.core.process.channel import Channel, PickleCodec, WorkerEndedError
from ttools.core.process.worker import Limits, Worker, spawn_worker
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu.count_request import CountRequest, RequestCounter

_MOST = 4
_PROCESSORS_EACH = 4
_NICE = 10
#: If a run takes less time than this, counting without other processes is faster.
_DELAY_S = 1.0
#: After this many failures, no further process is started.
_MOST_FAILURES = 2

#: The work of a launch, or a sentence that says why it cannot be counted.
Answer = WorkCounts | str


@dataclass(frozen=True)
class Preparation:
    """A request to compile the counting kernel of a launch whose memory contents are not known."""

    launch: CountRequest


_Request = CountRequest | Compilation | Preparation


def number_of_processes() -> int:
    """Return the number of processes that count launches while a program runs."""
    return min(_MOST, processors() // _PROCESSORS_EACH)


class CountingProcesses:
    """Processes that start when there is work, and end after the run.

    Args:
        number: The largest number of processes; None for a quarter of the processors, at most four.
    """

    def __init__(self, number: int | None = None) -> None:
        self._number = number_of_processes() if number is None else number
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._tasks: deque[tuple[_Request, Future[Any]]] = deque()
        self._threads = 0
        #: The time at which idle processes end; None while the program runs.
        self._end_at: float | None = None
        self._failures = 0

    @overload
    def submit(self, request: CountRequest) -> Future[Answer] | None: ...

    @overload
    def submit(self, request: Compilation) -> Future[Readings | None] | None: ...

    @overload
    def submit(self, request: Preparation) -> Future[None] | None: ...

    def submit(self, request: _Request) -> Future[Any] | None:
        """Submit a launch to be counted, or a kernel to be disassembled.

        Args:
            request: The launch or kernel, which must not change after this call.

        Returns:
            The future answer, which can be cancelled until a process starts to work on it; it
            raises an exception if no process can compute the answer. None if there are no
            processes.
        """
        if not self._number or self._failures >= _MOST_FAILURES or os.getpid() != self._owner:
            return None
        answer: Future[Any] = Future()
        with self._changed:
            self._tasks.append((request, answer))
            self._changed.notify()
            if self._threads < self._number:
                self._threads += 1
                threading.Thread(target=self._serve, name="ttools counting", daemon=True).start()
        return answer

    def begin(self) -> None:
        """Announce a run: from now on, processes wait for work until `finish` is called."""
        with self._changed:
            self._end_at = None

    def finish(self, linger: float = 0.0) -> None:
        """Let the processes end once they have answered all requests, without waiting for them.

        Args:
            linger: Number of seconds for which the processes wait for further requests.
        """
        if os.getpid() != self._owner:
            return
        with self._changed:
            self._end_at = time.monotonic() + linger
            self._changed.notify_all()

    def _next(self) -> tuple[_Request, Future[Any]] | None:
        """Wait for a task; return None if the calling thread is to end."""
        with self._changed:
            while not self._tasks:
                left = None if self._end_at is None else self._end_at - time.monotonic()
                if left is not None and left <= 0:
                    self._threads -= 1
                    return None
                self._changed.wait(left)
            return self._tasks.popleft()

    def _serve(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._end_at is not None, _DELAY_S)
        worker: Worker | None = None
        while (task := self._next()) is not None:
            request, answer = task
            if answer.cancelled():
                continue
            failure: Exception | None = None
            try:
                worker = worker or self._start()
                if not answer.set_running_or_notify_cancel():
                    continue
                answer.set_result(worker.ask(request))
            except (WorkerEndedError, OSError) as error:
                failure, worker = error, None
                self._failures += 1
            except Exception as error:  # noqa: BLE001 - such as an argument that cannot be pickled
                failure = error
            if failure is not None and (answer.running() or answer.set_running_or_notify_cancel()):
                answer.set_exception(failure)
        if worker is not None:
            worker.end()

    def _start(self) -> Worker:
        """Start a process and wait until it is ready."""
        if self._failures >= _MOST_FAILURES:
            raise WorkerEndedError("the counting processes have terminated")
        threads = str(max(1, processors() // self._number))
        limits = Limits(errors="dropped")
        worker = spawn_worker(f"{__name__}:serve_requests", [threads], limits, PickleCodec())
        worker.receive()
        return worker


def serve_requests(channel: Channel, threads: str) -> None:
    """Answer the requests of a channel until it is closed.

    Args:
        channel: Connection to the process that sends requests.
        threads: Number of threads that run the programs of a launch, as text.
    """
    os.nice(_NICE)
    counter = RequestCounter(int(threads))
    channel.send("ready")
    while True:
        channel.send(_answer_of(counter, channel.receive()))


def _answer_of(counter: RequestCounter, request: _Request) -> Answer | Readings | None:
    """Return the answer to a request; None if the requesting process has to compute it."""
    if isinstance(request, CountRequest):
        return count_of(counter, request)
    try:
        if isinstance(request, Compilation):
            return Inspection(request).readings()
        counter.prepare(request.launch)
    except Exception:  # noqa: BLE001 - the requesting process gets the same error and reports it
        pass
    return None


def count_of(counter: RequestCounter, launch: CountRequest) -> Answer:
    """Return the work of a launch, or a sentence that says why it cannot be counted."""
    try:
        return counter.count(launch)
    except TtoolsError as error:
        return getattr(error, "what", None) or str(error)
    except MemoryError as error:
        return f"the host does not have enough memory to count it: {error}"
